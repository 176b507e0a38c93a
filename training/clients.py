"""The ordinary package clients, each asked for one package by name: pip, npm, apt-get.

No address is written here or in the manifest: where packages come from is the clients' own
configuration.
"""

import hashlib
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from training.licences import licence_of_npm, licence_of_wheel


class NotFetched(Exception):
    """The client could not deliver the package; the text is its last line."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """An unpacked package. `digest` is the SHA-256 of what the client delivered (for a source
    package: its .dsc).
    """

    version: str
    licence: str  # as declared; for Debian the copyright file decides, package- or file-wise
    digest: str
    tree: Path


def run(command: list[str], cwd: Path, timeout_s: float = 600) -> str:
    """Standard output. Raises `NotFetched`."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotFetched(f"no answer in {timeout_s} s") from None
    if done.returncode:
        raise NotFetched(
            ([*done.stderr.strip().splitlines(), "failed"])[-1 if not done.stderr else -2][:200]
        )
    return done.stdout


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch_pypi(name: str, version: str, home: Path) -> Delivered:
    """A wheel: it holds the package's Python files as they are in the source distribution, and
    needs no build.
    """
    requirement = f"{name}=={version}" if version else name
    command = [
        "python3",
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-d",
        str(home),
        requirement,
    ]
    run(command, home)
    wheel = next(iter(sorted(home.glob("*.whl"))))
    tree = home / "tree"
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if member.endswith(".py") or "dist-info/" in member:
                archive.extract(member, tree)
    delivered = Delivered(wheel.name.split("-")[1], licence_of_wheel(tree), sha256(wheel), tree)
    wheel.unlink()
    return delivered


def fetch_npm(name: str, version: str, home: Path) -> Delivered:
    """A published tarball; its package.json declares the licence."""
    run(["npm", "pack", "--silent", f"{name}@{version or 'latest'}"], home)
    tarball = next(iter(sorted(home.glob("*.tgz"))))
    tree = home / "tree"
    with tarfile.open(tarball) as archive:
        archive.extractall(tree, filter="data")
    licence, installed_version = licence_of_npm(tree)
    delivered = Delivered(installed_version, licence, sha256(tarball), tree)
    tarball.unlink()
    return delivered


def fetch_debian(name: str, version: str, home: Path) -> Delivered:
    """A binary package that installs source text."""
    run(["apt-get", "download", "-q", f"{name}={version}" if version else name], home)
    deb = next(iter(sorted(home.glob("*.deb"))))
    tree = home / "tree"
    run(["dpkg-deb", "-x", str(deb), str(tree)], home)
    installed_version = run(["dpkg-deb", "-f", str(deb), "Version"], home).strip()
    delivered = Delivered(installed_version, "see copyright", sha256(deb), tree)
    deb.unlink()
    return delivered


def fetch_debian_source(name: str, version: str, home: Path, apt: Path) -> Delivered:
    """A source package, unpacked and patched. `apt` is a directory made by `source_index`."""
    requirement = f"{name}={version}" if version else name
    run(["apt-get", *apt_options(apt), "source", "-q", "--only-source", requirement], home)
    dsc = next(iter(sorted(home.glob("*.dsc"))))
    version_line = re.search(r"^Version: (.+)$", dsc.read_text("utf-8"), re.MULTILINE)
    tree = next(path for path in sorted(home.iterdir()) if path.is_dir())
    delivered = Delivered(
        version_line[1] if version_line else "", "see copyright", sha256(dsc), tree
    )
    for path in home.iterdir():
        if path.is_file():
            path.unlink()
    return delivered


def fetch_debian_orig(name: str, version: str, home: Path, apt: Path) -> Delivered:
    """The upstream tarball of a source package alone; without the packaging each file must speak
    for itself.

    The client knows versions of packages, not of their upstreams: the hash in the manifest must do.
    """
    del version
    run(["apt-get", *apt_options(apt), "source", "-q", "--only-source", "--tar-only", name], home)
    tarball = next(iter(sorted(home.glob("*.orig.tar.*"))))
    tree = home / "tree"
    with tarfile.open(tarball) as archive:
        archive.extractall(tree, filter="data")
    delivered = Delivered(
        tarball.name.split("_")[1].split(".orig")[0], "see heads", sha256(tarball), tree
    )
    for path in home.iterdir():
        if path.is_file():
            path.unlink()
    return delivered


def apt_options(apt: Path) -> list[str]:
    """Options by which apt-get uses only what lies below `apt`."""
    places = {
        "Dir::Etc::sourcelist": apt / "sources.sources",
        "Dir::Etc::sourceparts": "-",
        "Dir::State": apt,
    }
    return [part for name, value in places.items() for part in ("-o", f"{name}={value}")]


def source_index(apt: Path, system: Path = Path("/etc/apt/sources.list.d/debian.sources")) -> None:
    """A private package index like the system's, but of source packages, so that the system's needs
    no change.
    """
    (apt / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (apt / "sources.sources").write_text(
        system.read_text("utf-8").replace("Types: deb\n", "Types: deb-src\n"), "utf-8"
    )
    run(["apt-get", *apt_options(apt), "update", "-q"], apt)


CLIENTS: dict[str, Callable[[str, str, Path], Delivered]] = {
    "pypi": fetch_pypi,
    "npm": fetch_npm,
    "debian": fetch_debian,
}
APT_CLIENTS: dict[str, Callable[[str, str, Path, Path], Delivered]] = {
    "debian-source": fetch_debian_source,
    "debian-orig": fetch_debian_orig,
}
