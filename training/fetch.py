"""Step 1: package names -> unpacked packages and a manifest. `python -m training.fetch CACHE
[--jobs N] [--update]`.

With a manifest its exact versions are asked for, and a package that differs from its recorded hash
stops the run. `--update` ignores the manifest and takes what the clients deliver today.
"""

import argparse
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from training.clients import APT_CLIENTS, CLIENTS, Delivered, NotFetched, source_index
from training.licences import excluded_by, is_permissive, package_licence, read_exclusions, stanzas

HERE = Path(__file__).resolve().parent
MANIFEST = HERE / "manifest.tsv"
LONGEST = 200  # characters of a licence expression that the manifest repeats; all of it is judged
ECOSYSTEMS = ("pypi", "npm", "debian", "debian-source", "debian-orig")


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the manifest. `role`: train, holdout (evaluation only), benchmark (only hashed, to
    be avoided).

    `verdict` is `used`, `by file` (as declared for each), `by head` (as each says), or why it is
    refused.
    """

    source: str
    name: str
    role: str
    version: str
    licence: str
    sha256: str
    verdict: str


def wanted() -> list[tuple[str, str, str]]:
    """(source, name, role) of every line of `sources/`."""
    packages = []
    for source in ECOSYSTEMS:
        for line in (HERE / "sources" / f"{source}.txt").read_text("utf-8").splitlines():
            if line and not line.startswith("#"):
                name, _, role = line.partition(" ")
                packages.append((source, name, role or "train"))
    return packages


def read_manifest() -> dict[tuple[str, str], Entry]:
    """The manifest by (source, name); empty when there is none."""
    if not MANIFEST.exists():
        return {}
    rows = [line.split("\t") for line in MANIFEST.read_text("utf-8").splitlines()[1:]]
    return {(row[0], row[1]): Entry(*row) for row in rows}


def write_manifest(entries: list[Entry]) -> None:
    """Sorted, tab-separated, with a heading."""
    rows = [
        tuple(field.name for field in fields(Entry)),
        *sorted(astuple(entry) for entry in entries),
    ]
    MANIFEST.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")


def home_of(cache: Path, source: str, name: str) -> Path:
    """Where a package lies: its own directory, made of its name."""
    return cache / source / name.replace("/", "__")


def judge(source: str, delivered: Delivered) -> tuple[str, str]:
    """(licence, verdict) of an unpacked package."""
    if source in ("pypi", "npm"):
        licence = " ".join(delivered.licence.split())
        return licence[:LONGEST], "used" if is_permissive(licence) else "refused: licence"
    pattern = "usr/share/doc/*/copyright" if source == "debian" else "debian/copyright"
    if source == "debian-orig":
        return "", "by head"
    texts = [path.read_text("utf-8", "replace") for path in sorted(delivered.tree.glob(pattern))]
    paragraphs = stanzas(texts[0]) if texts else ()
    licence = package_licence(paragraphs)
    if source == "debian-source":
        return licence[:LONGEST], "by file" if paragraphs else "by head"
    return licence[:LONGEST], "used" if is_permissive(licence) else "refused: licence"


def fetch_one(cache: Path, source: str, name: str, role: str, pinned: Entry | None) -> Entry:
    """Obtain and judge. Never raises for a package that cannot be had: its line says why."""
    exclusion = excluded_by(name, read_exclusions(HERE / "exclusions.txt"))
    if role != "benchmark" and exclusion:
        return Entry(source, name, role, "", "", "", f"refused: excluded by {exclusion}")
    try:
        delivered = obtain(cache, source, name, pinned.version if pinned else "")
    except (NotFetched, StopIteration, OSError, ValueError) as error:
        return Entry(
            source,
            name,
            role,
            "",
            "",
            "",
            f"refused: not fetched ({' '.join(str(error).split())[:80]})",
        )
    licence, verdict = judge(source, delivered)
    if role == "benchmark":
        verdict = "used"
    return Entry(source, name, role, delivered.version, licence, delivered.digest, verdict)


def obtain(cache: Path, source: str, name: str, version: str) -> Delivered:
    """The package from the cache, where a note beside it says what was delivered, else from the
    client.
    """
    home = home_of(cache, source, name)
    note = home.with_name(home.name + ".delivered")
    if note.exists():
        cached_version, licence, digest, tree = note.read_text("utf-8").split("\n")
        if version in ("", cached_version):
            return Delivered(cached_version, licence, digest, home / tree)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    if source in APT_CLIENTS:
        delivered = APT_CLIENTS[source](name, version, home, cache / "apt")
    else:
        delivered = CLIENTS[source](name, version, home)
    licence = " ".join(delivered.licence.split())
    note.write_text(
        "\n".join((delivered.version, licence, delivered.digest, delivered.tree.name)), "utf-8"
    )
    return delivered


def main() -> None:
    """Fetch everything that is not in the cache yet; write the manifest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    pinned = {} if arguments.update else read_manifest()
    if not (arguments.cache / "apt").exists():
        source_index(arguments.cache / "apt")

    def one(item: tuple[str, str, str]) -> Entry:
        source, name, role = item
        recorded = pinned.get((source, name))
        if recorded and recorded.verdict.startswith("refused"):
            return recorded
        entry = fetch_one(arguments.cache, source, name, role, recorded)
        if recorded and recorded.sha256 != entry.sha256:
            raise SystemExit(
                f"{source} {name} {recorded.version}: {entry.sha256 or entry.verdict} is not what is recorded"
            )
        print(entry.verdict[:40], source, name, entry.version, entry.licence[:60], flush=True)
        return entry

    with ThreadPoolExecutor(arguments.jobs) as pool:
        entries = list(pool.map(one, wanted()))
    write_manifest(entries)


if __name__ == "__main__":
    main()
