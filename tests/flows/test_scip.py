"""A SCIP index through the whole daemon: its answers are certain until a file is saved."""

import os
from pathlib import Path
from typing import Any

import pytest

from cocosearch_ipc import client
from tests.daemon import Daemon
from tests.graph.scip_encoder import document, head, message

TEXTS = {
    "app/file.py": "class File:\n    def close(self):\n        pass\n",
    "app/door.py": "class Door:\n    def close(self):\n        pass\n",
    "app/run.py": "def run(handler):\n    handler.close()\n",
}
CLOSE = "hand . p . file/File#close()."
SENTENCE = "a precise index (SCIP) says so"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "app").mkdir(parents=True)
    for path, text in TEXTS.items():
        (root / path).write_text(text)
    return root


def encode(root: Path, directory: str = "") -> bytes:
    """Return the index of a project at a directory below a root."""
    lead = f"{directory}/" if directory else ""
    return (
        head(f"file://{root / directory}")
        + document("app/file.py"[len(lead) :], TEXTS["app/file.py"], [("close", f"={CLOSE}")])
        + document("app/run.py"[len(lead) :], TEXTS["app/run.py"], [("close", CLOSE)])
        + document("gone.py", "close", [("close", CLOSE)])
    )


@pytest.fixture
def scip(tree: Path, tmp_path: Path) -> Path:
    path = tmp_path / "index.scip"
    path.write_bytes(encode(tree))
    return path


def closes(daemon: Daemon, target: str, **parameters: Any) -> list[tuple[str, str, str]]:
    """Return path, confidence and explanation of each use of a definition."""
    parameters = {"sync_timeout_ms": 60_000, **parameters}
    reply = daemon.call("references", target=target, index="tree", **parameters)
    assert reply["fresh"], reply["stale_reason"]
    return [
        (file["path"], use["confidence"], use["explanation"])
        for file in reply["files"]
        for use in file["references"]
    ]


def precise_files(daemon: Daemon) -> tuple[int, int]:
    (index,) = daemon.call("list_indexes")["indexes"]
    return index["precise_files"], index["changed_precise_files"]


def test_what_it_says_is_certain_in_every_verb(shared: Daemon, tree: Path, scip: Path) -> None:
    shared.index(tree, "tree")
    assert closes(shared, "Door.close")[0][1] == "possible"
    reply = shared.call("scip", path=os.fspath(scip), index="tree")
    assert reply == {
        "index": "tree",
        "files": 1,
        "uses": 1,
        "skipped": {"not_indexed": 1},
        "removed": 0,
    }
    assert closes(shared, "File.close") == [("app/run.py", "certain", SENTENCE)]
    assert closes(shared, "Door.close") == []
    (name,) = shared.call("definition", target="app/run.py:2:13", index="tree")["names"]
    assert [item["path"] for item in name["definitions"]] == ["app/file.py"]
    assert name["explanation"] == SENTENCE
    (caller,) = shared.call("callers", target="File.close", index="tree")["calls"]
    assert (caller["symbol"]["name"], caller["reason"]) == ("run", "precise_index")
    (affected,) = shared.call("impact", target="File.close", index="tree")["affected"]
    assert (affected["symbol"]["name"], affected["confidence"]) == ("run", "certain")
    assert "a SCIP index has the uses of 1 files" in shared.ctl("list").stdout


def test_a_save_ends_it_within_the_next_question(shared: Daemon, tree: Path, scip: Path) -> None:
    shared.index(tree, "tree")
    shared.call("scip", path=os.fspath(scip), index="tree")
    for path in ("app/run.py", "app/file.py"):
        for number in range(3):
            (tree / path).write_text(TEXTS[path] + f"# {number}\n")
            assert closes(shared, "Door.close")[0][1] == "possible"
            (tree / path).write_text(TEXTS[path])
            assert closes(shared, "Door.close") == []
    (tree / "app/run.py").write_text(TEXTS["app/run.py"] + "\n")
    assert closes(shared, "Door.close")[0][1] == "possible"
    assert precise_files(shared) == (1, 1)


def test_unsaved_text_is_resolved_without_it(shared: Daemon, tree: Path, scip: Path) -> None:
    shared.index(tree, "tree")
    shared.call("scip", path=os.fspath(scip), index="tree")
    with client.Session(shared.environment["COCOSEARCH_RUNTIME_DIR"] + "/rpc.sock") as session:
        session.put(os.fspath(tree / "app/run.py"), TEXTS["app/run.py"])
        assert closes(shared, "Door.close", session=session.name)[0][1] == "possible"
    assert closes(shared, "Door.close") == []


def test_it_lasts_until_it_is_removed(daemon: Daemon, tree: Path, scip: Path) -> None:
    daemon.index(tree, "tree")
    done = daemon.ctl("scip", os.fspath(scip), cwd=tree)
    assert done.stdout == "tree: 1 use in 1 file are certain now\n"
    daemon.stop()
    daemon.start()
    assert closes(daemon, "Door.close") == []
    daemon.ctl("reindex", "tree")
    assert closes(daemon, "File.close") == [("app/run.py", "certain", SENTENCE)]
    done = daemon.ctl("scip", "--remove", "--index", "tree")
    assert done.stdout == "tree: removed the precise uses of 1 file\n"
    assert closes(daemon, "Door.close")[0][1] == "possible"
    assert precise_files(daemon) == (0, 0)


def test_a_project_below_the_root_is_found_there(shared: Daemon, tree: Path, scip: Path) -> None:
    shared.index(tree, "tree")
    scip.write_bytes(encode(tree, "app"))
    assert shared.call("scip", path=os.fspath(scip), index="tree")["files"] == 1
    assert closes(shared, "Door.close") == []


def test_files_that_are_younger_than_the_scip_index_are_left_out(
    shared: Daemon, tree: Path, scip: Path
) -> None:
    shared.index(tree, "tree")
    os.utime(scip, (1, 1))
    with pytest.raises(client.CallFailed, match=r"All 2 files .* changed after it") as caught:
        shared.call("scip", path=os.fspath(scip), index="tree")
    assert f"again in {tree}" in caught.value.hint


@pytest.mark.parametrize(
    ("data", "message_part", "hint"),
    [
        pytest.param(b"#!/bin/sh\n", "The file is no SCIP index", "again", id="a script"),
        pytest.param(b"", "has no use of a name", "make the SCIP index", id="empty"),
        pytest.param(b"\x12\x7f\x0a", "ends within a message", "again", id="cut off"),
        pytest.param(
            head("file:///srv/other"),
            "is of file:///srv/other, and tree",
            "--index",
            id="elsewhere",
        ),
        pytest.param(
            message(2, message(1, "../../etc/passwd")),
            "None of the 1 documents",
            "make the SCIP index in",
            id="outside",
        ),
    ],
)
def test_bad_files_are_refused_in_a_sentence(
    shared: Daemon, tree: Path, scip: Path, data: bytes, message_part: str, hint: str
) -> None:
    shared.index(tree, "tree")
    scip.write_bytes(data)
    with pytest.raises(client.CallFailed) as caught:
        shared.call("scip", path=os.fspath(scip), index="tree")
    assert message_part in caught.value.message
    assert hint in caught.value.hint


def test_paths_that_are_no_scip_index_are_refused(shared: Daemon, tree: Path, scip: Path) -> None:
    shared.index(tree, "tree")
    os.truncate(scip, 1 << 30)
    os.mkfifo(tree.parent / "fifo")
    for path, sentence in [
        (scip, "it is larger than 524,288 kB"),
        (tree, "it is not a file"),
        (tree.parent / "fifo", "it is not a file"),
        (tree / "none.scip", "does not exist"),
        ("index.scip", "not an absolute path"),
    ]:
        with pytest.raises(client.CallFailed, match=sentence) as caught:
            shared.call("scip", path=str(path), index="tree")
        assert caught.value.hint
    assert shared.call("references", target="File.close", index="tree")["fresh"]
