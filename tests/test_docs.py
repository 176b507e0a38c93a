"""The documents are true: their commands run, their names exist, and they name every verb and
setting.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cocosearch_ipc.cli.main import main
from cocosearch_ipc.cli.parser import VERBS
from cocosearch_ipc.rpc.dispatcher import MAX_BATCH
from cocosearch_ipc.workspace_protocol import WorkspaceEngine
from cocosearchd.api.overlay_sessions import MAX_UNSAVED_BYTES, MAX_UNSAVED_FILES
from cocosearchd.config.settings import Settings, get_value, setting_keys
from cocosearchd.languages.language_table import languages
from tests.code_map import code_map, map_of_benchmarks, map_of_tests
from tests.daemon import Daemon, git, make_daemon
from tests.test_architecture import MODULES

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "tests/README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
)
PACKAGES = {"cocosearchd", "cocosearch_ipc"}
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def home() -> Iterator[Daemon]:
    """A home directory with the project that the README speaks of, and a daemon of its own."""
    daemon = make_daemon()
    project = daemon.home / "code" / "project"
    shutil.copytree(ROOT / "ipc", project / "ipc", ignore=shutil.ignore_patterns("__pycache__"))
    git(project, "init", "-q")
    yield daemon
    subprocess.run(
        [daemon.bin / "cocosearchctl", "down"], env=daemon.environment, capture_output=True
    )
    daemon.sweep()
    shutil.rmtree(daemon.home, ignore_errors=True)


def test_every_block_of_the_readme_runs(home: Daemon) -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    assert len(blocks) >= 2
    environment = home.environment | {
        "HOME": str(home.home),
        "PATH": f"{home.bin}{os.pathsep}{os.environ['PATH']}",
    }
    for block in blocks:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=170,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_verb_is_documented_and_has_help_with_an_example(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert re.search(rf"(`|cocosearchctl ){verb}\b", (ROOT / "README.md").read_text("utf-8")), (
        f"README.md does not mention {verb}"
    )
    monkeypatch.setattr(sys, "argv", ["cocosearchctl", verb, "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    assert f"cocosearchctl {verb}" in capsys.readouterr().out.partition("example")[2]


def test_the_installed_program_prints_the_help_of_a_verb() -> None:
    program = Path(sys.executable).parent / "cocosearchctl"
    done = subprocess.run([program, "up", "--help"], capture_output=True, text=True, check=True)
    assert "cocosearchctl up" in done.stdout.partition("example")[2]


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs" / "settings.md").read_text("utf-8")
    missing = [key for key in setting_keys() if f"`{key}`" not in text]
    assert not missing, f"docs/settings.md lacks {missing}"


def test_documented_defaults_are_the_ones_of_the_code() -> None:
    rows = re.findall(
        r"^\| `(\w+\.\w+)` \| ([^|]*?) ?\|",
        (ROOT / "docs" / "settings.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert dict(rows) == {key: _default(get_value(Settings(), key)) for key in setting_keys()}


def _default(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value or ("" if value != 0 else 0))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / document).read_text("utf-8")):
        if "://" not in target:
            assert (ROOT / document).parent.joinpath(target).exists(), f"{document} names {target}"


def test_the_documents_count_the_languages() -> None:
    parsed = sum(bool(info.grammar) for info in languages())
    with_symbols = sum(info.symbols for info in languages())
    assert f"the grammars of {parsed} languages" in (ROOT / "README.md").read_text("utf-8")
    assert f"Symbols of {with_symbols} languages" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_limits_in_texts_are_those_of_the_code() -> None:
    body = f"a body at most {Settings().server.max_body_bytes >> 20} MiB"
    assert f"A batch has at most {MAX_BATCH} calls, {body}" in (ROOT / "docs/rpc.md").read_text()
    overlay = WorkspaceEngine.overlay_put.__doc__ or ""
    assert f"{MAX_UNSAVED_FILES} files and {MAX_UNSAVED_BYTES >> 20} MiB" in overlay


def test_the_maps_are_current() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert code_map() in text, "run `make map`"
    assert map_of_tests() in (ROOT / "tests" / "README.md").read_text("utf-8"), "run `make map`"
    benchmarks = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    assert map_of_benchmarks() in benchmarks, "run `make map`"


def test_documents_name_modules_and_constants_that_exist() -> None:
    """Backticked dotted names, with or without the package, are modules or what a module defines."""
    documents = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]
    text = "".join(path.read_text("utf-8") for path in documents)
    rooms = {module.split(".")[1] for module in MODULES if "." in module}
    dotted = set(re.findall(r"`([a-z_]\w*(?:\.\w+)+)`", text)) - {*setting_keys(), "rpc.discover"}
    files = (".py", ".onnx", ".service", ".socket", ".css", ".js")
    dotted = {name for name in dotted if not name.endswith(files)}
    names = {name for name in dotted if name.split(".")[0] in rooms | PACKAGES}
    assert len(names) > 60
    assert sorted(name for name in names if not is_defined(name)) == []


def is_defined(name: str) -> bool:
    """Return whether a dotted name is a module, or what the module before its last part defines."""
    parts = name.split(".")
    prefixes = ("",) if parts[0] in PACKAGES else tuple(f"{package}." for package in PACKAGES)
    for prefix in prefixes:
        module, _, last = f"{prefix}{name}".rpartition(".")
        if f"{prefix}{name}" in MODULES:
            return True
        if module in MODULES:
            source = MODULES[module].read_text("utf-8")
            return bool(re.search(rf"^(?:(?:class|def|async def) )?{last}\b", source, re.MULTILINE))
    return False


def rows_of_changes() -> str:
    """Return the sections of ARCHITECTURE.md from "What to look for first" to "To change something"."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    return text.partition("\n## What to look for first")[2].partition("\n## Deliberately absent")[0]


def test_the_names_in_the_rows_of_changes_are_defined() -> None:
    verbs = {verb.name for verb in VERBS}
    names = set(re.findall(r"`(\w+)`", rows_of_changes())) - verbs - {"FIXED", "ONLY_IN"}
    assert len(names) > 20
    other_sources = ("daemon/cocosearchd/store/queries.sql", "ipc/cocosearch_ipc/page/page.js")
    paths = (*MODULES.values(), *(ROOT / source for source in other_sources))
    text = "\n".join(path.read_text("utf-8") for path in paths)
    logged = set(re.findall(r"\blog\.\w+\(\s*\"(\w+)\"", text))
    definition = r"^[ \t]*(?:class |def |async def |function |-- name: )?(\w+)"
    defined = set(re.findall(definition, text, re.MULTILINE))
    assert names - logged - defined == set()


def test_the_files_named_for_each_change_exist() -> None:
    rows = rows_of_changes()
    names = {
        name
        for name in re.findall(r"`([\w/.]+(?:/|\.(?:py|sql|md|js|json)))`", rows)
        if "<" not in name
    }
    assert len(names) > 10
    homes = (ROOT, ROOT / "daemon" / "cocosearchd", ROOT / "ipc" / "cocosearch_ipc")
    assert not [name for name in names if not any((home / name).exists() for home in homes)]
