"""requirements.lock: `make` installs exactly the files whose hashes it names."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
# One package: its pin and marker, then a line for each hash.
ENTRY = re.compile(
    r"^(?P<pin>\S+==\S+(?: ; [^\\]+?)?) \\\n(?P<hashes>(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.MULTILINE,
)
ENTRIES = {
    canonicalize_name(Requirement(match["pin"]).name): match for match in ENTRY.finditer(LOCK)
}
# Compiled for each platform: Python 3.11 to 3.13, two kinds of processor.
COMPILED = (
    "cocoindex",
    "numpy",
    "psycopg-binary",
    "pydantic-core",
    "tree-sitter",
    "uvloop",
    "watchfiles",
)


def test_every_line_is_a_pin_with_hashes() -> None:
    rest = ENTRY.sub("", LOCK)
    assert [line for line in rest.splitlines() if line and not line.startswith("#")] == []
    assert len(ENTRIES) > 100


def test_no_registry_is_named() -> None:
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host", LOCK)


@pytest.mark.parametrize(
    "text", [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]
)
def test_every_requirement_is_locked(text: str) -> None:
    requirement = Requirement(text)
    entry = ENTRIES[canonicalize_name(requirement.name)]
    version = entry["pin"].partition("==")[2].split()[0]
    assert requirement.specifier.contains(version, prereleases=True), (
        f"{text} is locked as {version}: run `make lock`"
    )


@pytest.mark.parametrize("name", COMPILED)
def test_wheels_of_every_platform_are_known(name: str) -> None:
    """At least one for each of the Python versions and processors; one with a stable ABI serves
    several.
    """
    assert ENTRIES[canonicalize_name(name)]["hashes"].count("--hash") >= 4


def test_make_installs_by_hash_alone_and_resolves_nothing() -> None:
    rule = (ROOT / "Makefile").read_text("utf-8").partition("$(STAMP): ")[2].partition("\n\n")[0]
    installs = [line for line in rule.splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert "--no-deps --require-hashes --requirement requirements.lock" in installs[0], (
        "a new release of a package cannot break the installation"
    )
    assert "--no-deps --no-build-isolation --editable ." in installs[1], (
        "nothing is fetched for the project itself"
    )
    assert "pip check" in rule, "a package that the lock file lacks ends the installation"
