"""References, definitions and calls through the whole daemon: after saves, and for unsaved text."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from cocosearch_ipc import address, client
from tests.daemon import Daemon, ensure_index

CONFIG = """
    class Settings:
        def __init__(self, path):
            self.path = path

    def load_settings(path):
        return Settings(path)
    """
APP = """
    from app.config import load_settings

    def main():
        settings = load_settings("a")
        return settings.path

    def run(handler):
        main()
        handler.close()
    """
TEST = """
    from app import config

    def test_load():
        assert config.load_settings("b")
    """


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "tree")


def write_tree(root: Path) -> Path:
    write(root, "app/config.py", CONFIG)
    write(root, "app/main.py", APP)
    write(root, "app/file.py", "class File:\n    def close(self): pass\n")
    write(root, "app/door.py", "class Door:\n    def close(self): pass\n")
    write(root, "tests/test_config.py", TEST)
    write(root, "app/__init__.py", "")
    return root


@pytest.fixture
def daemon(shared: Daemon, tree: Path) -> Daemon:
    shared.clear()  # of the index that tests which only read share
    shared.index(tree, "tree")
    return shared


@pytest.fixture(scope="module")
def unchanged_root(
    common_daemon: Daemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    yield write_tree(tmp_path_factory.mktemp("unchanged") / "tree")
    common_daemon.clear()


@pytest.fixture
def reader(common_daemon: Daemon, unchanged_root: Path) -> Daemon:
    """The daemon with an index of the tree, for tests that only read."""
    ensure_index(common_daemon, unchanged_root, "tree")
    return common_daemon


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(dedent(text).lstrip("\n"))


def uses(reply: dict[str, Any]) -> list[tuple[str, int, int, str]]:
    """Return path, line, column and kind of each reference."""
    assert reply["fresh"], reply["stale_reason"]
    return [
        (file["path"], use["line"], use["column"], use["kind"])
        for file in reply["files"]
        for use in file["references"]
    ]


LOADS = [
    ("app/main.py", 1, 24, "import"),
    ("app/main.py", 4, 16, "call"),
    ("tests/test_config.py", 4, 19, "call"),
]


def test_references_have_texts_symbols_and_counts(reader: Daemon) -> None:
    reply = reader.call("references", target="load_settings")
    assert uses(reply) == LOADS
    assert (reply["total"], reply["total_files"]) == (3, 2)
    assert reply["counts"] == {"certain": 3}
    call = reply["files"][0]["references"][1]
    assert call["text"] == 'settings = load_settings("a")'
    assert (call["symbol_type"], call["symbol_name"]) == ("function", "main")
    assert reply["definitions"][0] == {
        "path": "app/config.py",
        "language": "python",
        "kind": "function",
        "name": "load_settings",
        "start_line": 5,
        "end_line": 6,
        "signature": "def load_settings(path)",
    }


def test_a_caller_that_was_saved_a_moment_ago_is_in_the_next_answer(
    daemon: Daemon, tree: Path
) -> None:
    assert uses(daemon.call("references", target="load_settings")) == LOADS
    for number in range(5):
        name = f"load_settings_{number}"
        write(tree, "app/config.py", CONFIG.replace("load_settings", name))
        write(tree, "app/main.py", APP.replace("load_settings", name))
        reply = daemon.call("references", target=name)
        assert uses(reply) == [("app/main.py", 1, 24, "import"), ("app/main.py", 4, 16, "call")]
    with pytest.raises(client.CallFailed, match="no definition is named 'load_settings'") as caught:
        daemon.call("references", target="load_settings")
    # the test file uses it still, though nothing defines it any more
    assert "it is used in tests/test_config.py" in caught.value.hint


def test_a_changed_signature_lists_its_callers_within_the_next_question(
    daemon: Daemon, tree: Path
) -> None:
    write(tree, "app/config.py", CONFIG.replace("load_settings(path)", "load_settings(path, x)"))
    write(tree, "app/added.py", "from app.config import load_settings\nload_settings(1)\n")
    reply = daemon.call("references", target="load_settings", kinds=["call"])
    assert reply["definitions"][0]["signature"] == "def load_settings(path, x)"
    assert [row[0] for row in uses(reply)] == [
        "app/added.py",
        "app/main.py",
        "tests/test_config.py",
    ]


def test_a_file_that_is_gone_uses_nothing(daemon: Daemon, tree: Path) -> None:
    (tree / "app" / "main.py").unlink()
    shutil.rmtree(tree / "tests")
    assert uses(daemon.call("references", target="load_settings")) == []


def test_unsaved_text_counts_for_its_session_alone(daemon: Daemon, tree: Path) -> None:
    with client.Session(address.rpc_socket(daemon.environment)) as session:
        session.put(
            str(tree / "app" / "main.py"),
            "from app.config import load_settings\n\n\nx = load_settings(3)\n",
        )
        reply = session.call(
            "references", {"target": "load_settings", "index": "tree", "kinds": ["call"]}
        )
        assert uses(reply)[0] == ("app/main.py", 4, 5, "call")
        first = reply["files"][0]
        assert first["overlay"]
        assert first["references"][0]["text"] == "x = load_settings(3)"
    assert uses(daemon.call("references", target="load_settings")) == LOADS


def test_a_place_is_relative_to_the_root_or_to_the_directory_or_absolute(
    daemon: Daemon, tree: Path
) -> None:
    for target in ("app/main.py:4:16", str(tree / "app" / "main.py:4:16")):
        assert uses(daemon.call("references", target=target, index="tree")) == LOADS
    assert uses(daemon.call("references", target="main.py:4:16", cwd=str(tree / "app"))) == LOADS


def test_pages_have_all_uses(reader: Daemon) -> None:
    pages = list[Any]()
    cursor = None
    for _ in LOADS:
        reply = reader.call("references", target="load_settings", limit=1, cursor=cursor)
        assert reply["total"] == len(LOADS)
        pages += uses(reply)
        cursor = reply["cursor"]
    assert pages == LOADS
    assert cursor is None


def test_a_page_says_that_files_have_changed(daemon: Daemon, tmp_path: Path) -> None:
    root = tmp_path / "paged"
    root.mkdir()
    source = root / "a.py"
    source.write_text("def helper(): pass\n\n\nhelper()\nhelper()\n")
    daemon.index(root, "paged")
    first = daemon.call("references", target="helper", index="paged", limit=1)
    rest = daemon.call("references", target="helper", index="paged", cursor=first["cursor"])
    assert rest["notes"] == []
    source.write_text("# one line more\n" + source.read_text())
    rest = daemon.call("references", target="helper", index="paged", cursor=first["cursor"])
    (note,) = rest["notes"]
    assert "files have changed since the earlier page" in note


def test_a_budget_ends_a_page(reader: Daemon) -> None:
    reply = reader.call("references", target="load_settings", budget_tokens=1)
    assert uses(reply) == LOADS[:1]
    rest = reader.call("references", target="load_settings", cursor=reply["cursor"])
    assert uses(rest) == LOADS[1:]


def test_definitions_are_found_by_name_and_by_place(reader: Daemon) -> None:
    by_name = reader.call("definition", target="Settings")
    assert [s["path"] for s in by_name["names"][0]["definitions"]] == ["app/config.py"]
    by_place = reader.call("definition", target="app/main.py:4:16")
    assert by_place["path"] == "app/main.py"
    assert by_place["names"][0]["definitions"][0]["name"] == "load_settings"
    assert by_place["names"][0]["confidence"] == "certain"
    line = reader.call("definition", target="app/main.py:4")
    assert [name["name"] for name in line["names"]] == ["load_settings"]


def test_callers_and_callees_are_trees(reader: Daemon) -> None:
    callers = reader.call("callers", target="load_settings", depth=3)
    rows = [(call["depth"], call["symbol"]["name"], call["parent"]) for call in callers["calls"]]
    assert rows == [(1, "main", -1), (1, "test_load", -1), (2, "run", 0)]
    assert callers["calls"][0]["sites"][0]["text"] == 'settings = load_settings("a")'
    callees = reader.call("callees", target="run", depth=2)
    names = [(call["depth"], call["symbol"]["name"]) for call in callees["calls"]]
    assert (1, "main") in names
    assert (2, "load_settings") in names


def test_a_function_that_is_only_passed_on_is_not_called_unused(daemon: Daemon, tree: Path) -> None:
    write(tree, "app/hooks.py", "def on_exit(): pass\n\nregister(on_exit)\n")
    reply = daemon.call("callers", target="on_exit")
    assert reply["calls"] == []
    (note,) = reply["notes"]
    assert note.startswith("1 use without a call")


def test_a_use_that_is_not_certain_says_why(reader: Daemon) -> None:
    reply = reader.call("references", target="Door.close")
    (use,) = reply["files"][0]["references"]
    assert use["confidence"] == "possible"
    assert use["reason"] == "name_only"
    assert "the receiver is not known" in use["explanation"]
    sure = reader.call("references", target="Door.close", min_confidence="likely")
    assert uses(sure) == []


def test_files_are_chosen_by_path_and_language(reader: Daemon) -> None:
    reply = reader.call("references", target="load_settings", not_paths=["tests/**"])
    assert {row[0] for row in uses(reply)} == {"app/main.py"}
    reply = reader.call("references", target="load_settings", languages=["go"])
    assert uses(reply) == []


@pytest.mark.parametrize(
    ("method", "parameters", "message", "hint"),
    [
        ("references", {"target": ""}, "the target is empty", "src/a.py:12"),
        ("references", {"target": "lod_settings"}, "no definition is named", "load_settings (app/config.py:5)"),
        ("references", {"target": "close"}, "'close' names 2 definitions", "Door.close (app/door.py:2)"),
        ("references", {"target": "app/none.py:3"}, "no file app/none.py", ""),
        ("references", {"target": "app/file.py:99"}, "nothing is defined or used", "near it: File (app/file.py:1)"),
        ("references", {"target": "main", "kinds": ["cal"]}, "unknown kind of use 'cal'", "call, type"),
        ("references", {"target": "main", "cursor": "{}"}, "'{}' is not a cursor", "previous reply"),
        ("references", {"target": "main", "limit": 0}, "limit is 0", "1 to 1,000"),
        ("references", {"target": "main", "min_confidence": "sure"}, "min_confidence is 'sure'", "certain"),
        ("callers", {"target": "main", "depth": 0}, "depth is 0", "1 to 1,000"),
        ("callers", {"target": "main", "cursor": "x"}, "'x' is not a cursor", "previous reply"),
        ("definition", {"target": "nothing_like_it"}, "no definition is named", ""),
    ],
)  # fmt: skip
def test_bad_input_says_what_to_do(
    reader: Daemon, method: str, parameters: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(client.CallFailed) as caught:
        reader.call(method, index="tree", **parameters)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.hint or not hint


def test_the_command_line_prints_counts_places_and_reasons(daemon: Daemon, tree: Path) -> None:
    plain = daemon.ctl("references", "load_settings", cwd=tree / "app")
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.splitlines() == [
        "main.py:1:24:from app.config import load_settings",
        'main.py:4:16:settings = load_settings("a")',
        '../tests/test_config.py:4:19:assert config.load_settings("b")',
    ]
    callers = daemon.ctl("callers", "load_settings", "--depth", "2", cwd=tree).stdout
    assert callers.splitlines()[0] == "3 callers of load_settings (app/config.py:5)"
    assert "  run  app/main.py:8:5  main()" in callers
    definition = daemon.ctl("definition", "main.py:4", cwd=tree / "app").stdout
    assert "app/config.py:5-6  function load_settings" in definition
    assert daemon.json("callees", "run", cwd=tree)["total"] >= 1
