"""Saved queries and unsaved text through the real programs."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from cocosearch_ipc import address, client
from tests.daemon import Daemon

WAIT_S = 60.0


def rpc(daemon: Daemon) -> str:
    return address.rpc_socket(daemon.environment)


@contextmanager
def events(daemon: Daemon, **params: Any) -> Iterator["Queue[dict[str, Any]]"]:
    """Events of a subscription, of what happens from now on: it names the clock, as it begins when
    it can.
    """
    received: Queue[dict[str, Any]] = Queue()
    since = daemon.json("sync", "--index", params["index"])["as_of"]
    stream = client.stream(rpc(daemon), "watch", params | {"since": since}, WAIT_S)

    def read() -> None:
        try:
            for event in stream:
                received.put(event)
        except client.CallFailed:
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    yield received


def test_a_saved_query_tells_of_new_matches_only(shared: Daemon, project: Path) -> None:
    shared.index(project)
    with events(shared, index="project", query='"circuit breaker"', all_chunks=True) as received:
        breaker = project / "src" / "breaker.py"
        breaker.write_text("def open_circuit():\n    '''Opens the circuit breaker.'''\n")
        shared.ctl("sync")
        event = received.get(timeout=WAIT_S)
        assert event["kind"] == "matches"
        assert [match["path"] for match in event["matches"]] == ["src/breaker.py"]
        assert "circuit breaker" in event["matches"][0]["content"]
        # Moved text, other files and files without the phrase are no news.
        breaker.write_text("\n\ndef open_circuit():\n    '''Opens the circuit breaker.'''\n")
        (project / "src" / "other.py").write_text(
            "def other():\n    return 'nothing of the kind'\n"
        )
        shared.ctl("sync")
        (project / "src" / "half.py").write_text(
            "def half():\n    '''A circuit breaker, half open.'''\n"
        )
        shared.ctl("sync")
        event = received.get(timeout=WAIT_S)
        assert [match["path"] for match in event["matches"]] == ["src/half.py"]


def test_a_subscription_goes_on_when_postgresql_has_said_nothing_for_a_while(
    daemon: Daemon, project: Path
) -> None:
    """The commit is known, and what to tell of it is asked a quarter of a second later."""
    daemon.index(project)
    with events(daemon, index="project", query='"circuit breaker"', all_chunks=True) as received:
        for name in ("first", "second"):
            (project / "src" / f"{name}.py").write_text(
                f"def {name}():\n    return 'circuit breaker'\n"
            )
            assert daemon.call("sync", index="project")["fresh"]
            with daemon.freezing_postgres():
                time.sleep(4)  # a server is given two seconds
            assert [match["path"] for match in received.get(timeout=WAIT_S)["matches"]] == [
                f"src/{name}.py"
            ]


def test_unrelated_changes_do_not_match_a_saved_query(shared: Daemon, project: Path) -> None:
    shared.index(project)
    with (
        events(shared, index="project", query="database connection pool") as received,
        events(
            shared, index="project", query="database connection pool", min_evidence=0
        ) as everything,
    ):
        (project / "src" / "user.py").write_text(
            "def check_password(user, secret):\n    return 1\n"
        )
        shared.ctl("sync")
        assert [match["path"] for match in everything.get(timeout=WAIT_S)["matches"]] == [
            "src/user.py"
        ]
        (project / "src" / "pool.py").write_text(
            "class ConnectionPool:\n    '''Connections of a database.'''\n"
        )
        shared.ctl("sync")
        matches = received.get(timeout=WAIT_S)["matches"]
    assert [match["path"] for match in matches] == ["src/pool.py"]


def test_unsaved_text_that_would_not_be_indexed_is_refused_with_the_rule(
    shared: Daemon, project: Path
) -> None:
    (project / ".gitignore").write_text("generated/\n")
    shared.index(project)
    shared.ctl("sync")
    with client.Session(rpc(shared)) as editor:
        for name, rule in (
            ("generated/new/a.py", "generated/ is left out by .gitignore:1: generated/"),
            ("src/a.parquet", "its type is not one that is indexed"),
            (".env", "files with secrets"),
            ("src/scratch", "its type is not one that is indexed"),
        ):
            with pytest.raises(
                client.CallFailed, match="would not be searched on disk either"
            ) as refused:
                editor.put(str(project / name), "def give_up_quietly(error):\n    return None\n")
            assert rule in refused.value.message
        assert editor.put(str(project / "new" / "deep" / "a.py"), "x = 1\n")["files"] == 1
        assert (
            editor.put(str(project / "src" / "run"), "#!/usr/bin/env python\nx = 1\n")["files"] == 2
        )


def test_unsaved_text_that_ends_a_parser_does_not_end_the_daemon(
    shared: Daemon, project: Path
) -> None:
    shared.index(project)
    with client.Session(rpc(shared)) as editor:
        reply = editor.put(
            str(project / "a.kt"), 'val a = "${\n' * 1_100
        )  # its parser aborts at 1,025
        assert "found without its definitions" in reply["notes"][0]
        reply = editor.put(
            str(project / "src" / "retry.py"), "def give_up_quietly(error):\n    return None\n"
        )
        assert reply["notes"] == []
        (result,) = editor.call("search", {"query": "give_up_quietly", "limit": 1})["results"]
        assert (result["path"], result["symbol_name"], result["overlay"]) == (
            "src/retry.py",
            "give_up_quietly",
            True,
        )


def test_unsaved_text_is_searched_for_its_session_alone(shared: Daemon, project: Path) -> None:
    shared.index(project)
    with client.Session(rpc(shared)) as editor, client.Session(rpc(shared)) as reader:
        reply = editor.put(
            str(project / "src" / "retry.py"), "def give_up_quietly(error):\n    return None\n"
        )
        assert (reply["index"], reply["path"], reply["chunks"]) == ("project", "src/retry.py", 1)
        answer = editor.call("search", {"query": "give_up_quietly", "index": "project"})
        assert (answer["results"][0]["path"], answer["results"][0]["overlay"]) == (
            "src/retry.py",
            True,
        )
        file = editor.call("get_file", {"path": "src/retry.py", "index": "project"})
        assert (file["overlay"], file["content"].splitlines()[0]) == (
            True,
            "def give_up_quietly(error):",
        )
        for params in (
            reader.call("search", {"query": "should_retry", "index": "project"}),
            shared.query("should_retry"),
        ):
            assert (params["results"][0]["path"], params["results"][0]["overlay"]) == (
                "src/retry.py",
                False,
            )
        hidden = editor.call("search", {"query": "should_retry", "index": "project"})
        assert not any("def should_retry" in result["content"] for result in hidden["results"])
        assert editor.clear(str(project / "src" / "retry.py"))["files"] == 0
        back = editor.call("search", {"query": "should_retry", "index": "project"})
        assert back["results"][0]["overlay"] is False
        editor.put("src/retry.py", "x = 1\n", index="project")
        name = editor.name
    with pytest.raises(client.CallFailed, match="no such session"):
        ask_until_refused(shared, name)


def test_unsaved_text_has_the_definitions_that_queries_of_the_user_find(
    stopped: Daemon, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "python.scm").write_text(
        "(import_statement name: (dotted_name) @name) @definition.module\n"
    )
    stopped.variables["COCOSEARCH_INDEXING_QUERIES_DIR"] = str(tmp_path / "queries")
    stopped.start()
    (project / "src" / "saved.py").write_text("import shelve\n")
    stopped.index(project)
    with client.Session(rpc(stopped)) as editor:
        editor.put("src/unsaved.py", "import shelve\n", index="project")
        answer = editor.call("search", {"query": "name:shelve sym:module", "index": "project"})
    assert {result["path"] for result in answer["results"]} == {"src/saved.py", "src/unsaved.py"}


def ask_until_refused(daemon: Daemon, session: str) -> None:
    """The daemon hears of a closed connection a moment later."""
    for _ in range(100):
        client.call(rpc(daemon), "search", {"query": "x", "index": "project", "session": session})


def test_missed_changes_are_sent_since_a_clock(shared: Daemon, project: Path) -> None:
    shared.index(project)
    clock = shared.json("sync", cwd=project)["as_of"]
    (project / "src" / "breaker.py").write_text(
        "def open_circuit():\n    '''Opens the circuit breaker.'''\n"
    )
    (project / "src" / "server.go").unlink()
    shared.ctl("sync", cwd=project)
    stream = client.stream(rpc(shared), "watch", {"index": "project", "since": clock}, WAIT_S)
    event = next(stream)
    assert (event["kind"], event["changed"], event["removed"]) == (
        "commit",
        ["src/breaker.py"],
        ["src/server.go"],
    )
    stream.close()
    params = {"index": "project", "since": clock, "query": '"circuit breaker"'}
    stream = client.stream(rpc(shared), "watch", params, WAIT_S)
    assert [match["path"] for match in next(stream)["matches"]] == ["src/breaker.py"]
    stream.close()
    stream = client.stream(
        rpc(shared), "watch", {"index": "project", "since": {"epoch": "x", "seq": 1}}, WAIT_S
    )
    assert next(stream)["kind"] == "missed"
    stream.close()


@pytest.mark.parametrize("lifecycle", [False, True])
def test_the_clock_of_an_event_counts_nothing_that_is_still_to_be_told(
    shared: Daemon, project: Path, lifecycle: bool
) -> None:
    """Whoever comes back with it would miss that. Here more is to be told than a connection holds
    unread.
    """
    shared.index(project)
    params = {"index": "project", "lifecycle": lifecycle}
    clock = shared.call("sync", index="project")["as_of"]
    stream = client.stream(rpc(shared), "watch", params | {"since": clock}, WAIT_S)
    (project / "begun.py").write_text("BEGUN = True\n")
    # the subscription has begun
    assert "begun.py" in next(event for event in stream if event["changed"])["changed"]
    names = [f"{'long' * 50}{number}.py" for number in range(3000)]
    for name in names:
        (project / name).write_text("")
    while not shared.call("sync", index="project")["fresh"]:
        pass
    last, events = shared.call("sync", index="project")["as_of"]["seq"], set[str]()
    while clock["seq"] < last:
        for event in stream:
            events |= {*event["changed"]}
            clock = event["as_of"]
            if clock["seq"] >= last:
                break
        else:  # on a slow machine it is cut off, as too slow
            stream = client.stream(rpc(shared), "watch", params | {"since": clock}, WAIT_S)
    assert events >= {*names}, (
        f"{len(events)} of {len(names)} files are told, and the clock is that of all"
    )
