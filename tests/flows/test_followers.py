"""Followers: a daemon answers for the index of another one on the same PostgreSQL."""

import contextlib
import random
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cocosearch_ipc.client import CallFailed
from tests.conftest import QUICK
from tests.daemon import Daemon, freezing, passing_daemon
from tests.machine_speed import FairClock
from tests.store.remote import USER, RemoteServer, remote_server
from tests.waiting import wait_until

DATABASE = "shared"
OWNER_SCHEMA = "team_a"
INDEX = "project@team_a"


@dataclass(frozen=True)
class Pair:
    """An owner and a follower on one server, and the root that the owner watches."""

    owner: Daemon
    follower: Daemon
    server: RemoteServer
    root: Path

    def ask(self, query: str, **options: Any) -> Any:
        """Ask the follower for the owner's index."""
        request = {"query": query, "index": INDEX, "limit": 5, "sync_timeout_ms": 20_000}
        return self.follower.call("search", **(request | options))


def url(server: RemoteServer, schema: str) -> str:
    return make_conninfo(server.dsn, dbname=DATABASE, options=f"-c search_path={schema},public")


@pytest.fixture(scope="module")
def pair(
    public_state: Path, cluster: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Two daemons in two schemas; the follower has no disk of the owner's."""
    home = public_state / "followers"
    shutil.rmtree(home, ignore_errors=True)
    root = tmp_path_factory.mktemp("followed") / "project"
    root.mkdir()
    for number in range(20):
        write(root, f"file_{number}.py", f"first{number}")
    with remote_server(home, QUICK, cluster) as server, contextlib.ExitStack() as stack:
        server.make_database(DATABASE)
        with psycopg.connect(server.admin, dbname=DATABASE, autocommit=True) as connection:
            for schema in (OWNER_SCHEMA, "team_b"):
                connection.execute(f"create schema {schema} authorization {USER}")
        owner = stack.enter_context(
            passing_daemon(COCOSEARCH_DATABASE_URL=url(server, OWNER_SCHEMA))
        )
        owner.start()
        owner.index(root)
        follower = stack.enter_context(
            passing_daemon(
                COCOSEARCH_DATABASE_URL=url(server, "team_b"),
                COCOSEARCH_DATABASE_FOLLOW=f"{OWNER_SCHEMA},team_b,nowhere",
            )
        )
        follower.start()
        pair = Pair(owner, follower, server, root)
        wait_until(lambda: INDEX in names(follower))
        yield pair


def write(root: Path, name: str, word: str) -> None:
    (root / name).write_text(f"def {word}():\n    return 0\n")


def names(daemon: Daemon) -> list[str]:
    return [index["name"] for index in daemon.call("list_indexes")["indexes"]]


def test_a_question_after_a_save_is_fresh_and_right(pair: Pair) -> None:
    write(pair.root, "file_3.py", "saved_just_now")
    reply = pair.ask("saved_just_now")
    assert reply["fresh"], reply["stale_reason"]
    assert reply["results"][0]["path"] == "file_3.py"
    assert "saved_just_now" in reply["results"][0]["content"]
    assert not reply["results"][0]["stale"]


def test_a_save_is_found_within_a_second_without_a_question(pair: Pair) -> None:
    write(pair.root, "file_4.py", "noticed_by_polling")

    def is_found() -> bool:
        reply = pair.ask("noticed_by_polling", sync_timeout_ms=0)
        assert not reply["fresh"]
        assert reply["stale_code"] == "owner_not_asked"
        return any("noticed_by_polling" in hit["content"] for hit in reply["results"])

    with FairClock() as clock:
        wait_until(is_found)
    assert clock.fair_s < 10, "the work of the owner, the follower and the server is in it"


def test_it_is_listed_with_its_owner(pair: Pair) -> None:
    wait_until(lambda: status_of(pair)["state"] == "live")
    status = status_of(pair)
    host = socket.gethostname()
    assert (status["schema"], status["host"]) == ("team_a", host)
    assert status["root"] == f"{host}:{pair.root}"
    assert f"the daemon of schema team_a on {host}" in status["watcher"]
    assert "MB of memory" in status["watcher"]
    listed = pair.follower.ctl("list").stdout
    assert INDEX in listed
    assert f"{host}:{pair.root}" in listed
    (owned,) = pair.owner.call("list_indexes")["indexes"]
    assert (owned["schema"], owned["host"], owned["root"]) == ("", "", str(pair.root))


def test_what_cannot_be_followed_is_one_sentence(pair: Pair) -> None:
    warnings = pair.follower.call("status")["warnings"]
    assert [text for text in warnings if "schema team_b is that of this daemon itself" in text]
    assert [text for text in warnings if "schema nowhere has no registry of a daemon" in text]


def test_only_its_owner_changes_it(pair: Pair, tmp_path: Path) -> None:
    scip = tmp_path / "index.scip"
    scip.write_bytes(b"")
    requests: dict[str, dict[str, Any]] = {
        "clear_index": {"index": INDEX},
        "reindex": {"index": INDEX},
        "scip": {"index": INDEX, "path": str(scip)},
        "changes": {"index": INDEX},
        "overlay.put": {"session": "none", "index": INDEX, "path": "a.py", "text": "x = 1"},
    }
    for method, parameters in requests.items():
        with pytest.raises(CallFailed) as failure:
            pair.follower.call(method, **parameters)
        message = str(failure.value)
        assert "belongs to the daemon of schema team_a on" in message, (method, message)
    assert INDEX in names(pair.follower)
    assert names(pair.owner) == ["project"]


def test_it_is_chosen_by_name_and_by_all_and_never_by_a_place(pair: Pair, project: Path) -> None:
    with pytest.raises(CallFailed, match="has no index of its own"):
        pair.follower.call("search", query="first1", cwd=str(pair.root))
    pair.follower.index(project)
    only = pair.follower.call("search", query="first1", cwd=str(pair.root))
    assert only["index"] == "project"
    everything = pair.follower.call("search", query="first1", all_indexes=True)
    assert {INDEX, "project"} == set(everything["indexes"])
    assert everything["fresh"], everything["stale_reason"]
    inline = pair.follower.call("search", query=f"first1 index:{INDEX}")
    assert inline["results"][0]["path"] == "file_1.py"
    pair.follower.call("clear_index", index="project")


def test_files_lines_and_uses_come_from_rows(pair: Pair) -> None:
    (pair.root / "user.py").write_text("from file_5 import first5\n\n\nvalue = first5()\n")
    reply = pair.follower.call("get_file", path="user.py", index=INDEX)
    assert reply["content"] == (pair.root / "user.py").read_text()
    assert reply["fresh"], reply["stale_reason"]
    grep = pair.follower.call("grep", pattern=r"value = \w+", indexes=[INDEX])
    assert [(file["path"], file["lines"][0]["text"]) for file in grep["files"]] == [
        ("user.py", "value = first5()")
    ]
    assert (grep["fresh"], grep["complete"], grep["notes"]) == (True, True, [])
    assert not grep["files"][0]["changed"]
    assert not grep["files"][0]["overlay"], "it is stored text, not that of an editor"
    grep = pair.follower.call("grep", pattern=r"def first5", indexes=[INDEX])
    assert grep["files"][0]["lines"][0]["symbol_name"] == "first5"
    uses = pair.follower.call("references", target="first5", index=INDEX)
    assert uses["fresh"], uses["stale_reason"]
    (file,) = [file for file in uses["files"] if file["path"] == "user.py"]
    assert "value = first5()" in {use["text"] for use in file["references"]}


def ask_after_writes(pair: Pair, count: int, seed: int, kill_every: int) -> dict[str, int]:
    """Write a file and ask the follower, again and again, while the owner is killed at times.

    A wrong `fresh` is the only sin. Returns the numbers of answers, by whether they were fresh.
    """
    rng = random.Random(seed)
    written: dict[str, str] = {}
    answers = {"fresh": 0, "not fresh": 0}
    for number in range(count):
        name, word = f"pair_{rng.randrange(12)}.py", f"pair{number}x{seed}"
        is_killed = number % kill_every == kill_every - 1
        delay_s = rng.choice((None, 0.0, rng.random() * 0.03))
        if is_killed and delay_s is None:
            pair.owner.kill()
        write(pair.root, name, word)
        killer = threading.Timer(delay_s or 0.0, pair.owner.kill)
        if is_killed and delay_s is not None:
            killer.start()
        reply = pair.ask(word, sync_timeout_ms=2000 if is_killed else 20_000)
        answers["fresh" if reply["fresh"] else "not fresh"] += 1
        if reply["fresh"]:
            assert word in contents(reply), f"{word} is not in an answer that is called fresh"
            former = written.get(name)
            assert former is None or former not in contents(pair.ask(former, sync_timeout_ms=0))
        else:
            assert is_killed, reply["stale_reason"]
            assert reply["stale_code"] == "owner_silent"
            assert "the daemon of schema team_a on" in reply["stale_reason"]
        written[name] = word
        if is_killed:
            if killer.is_alive():
                killer.join()
            pair.owner.start()
    return answers


def contents(reply: Any) -> str:
    """The text of all hits of an answer."""
    return "".join(hit["content"] for hit in reply["results"])


def test_no_answer_is_wrongly_fresh_while_the_owner_is_killed(pair: Pair) -> None:
    answers = ask_after_writes(pair, 50, seed=5, kill_every=25)
    assert answers["fresh"] >= 48


@pytest.mark.slow
def test_a_thousand_questions_while_the_owner_is_killed(pair: Pair) -> None:
    answers = ask_after_writes(pair, 1000, seed=6, kill_every=20)
    assert answers["fresh"] >= 950
    assert answers["not fresh"] > 0


def test_a_frozen_owner_is_not_waited_for_in_vain(pair: Pair) -> None:
    assert pair.owner.process is not None
    with freezing([psutil.Process(pair.owner.process.pid)]):
        write(pair.root, "frozen.py", "written_beside_a_frozen_owner")
        reply = pair.ask("written_beside_a_frozen_owner", sync_timeout_ms=500)
        assert not reply["fresh"]
        assert reply["stale_code"] == "owner_silent"
        assert re.search(r"its rows were as its disk \d+ (s|min) ago", reply["stale_reason"])
    reply = pair.ask("written_beside_a_frozen_owner")
    assert reply["fresh"], reply["stale_reason"]
    assert "written_beside_a_frozen_owner" in contents(reply)


def test_lost_sessions_are_replaced(pair: Pair) -> None:
    with psycopg.connect(pair.server.admin, dbname=DATABASE, autocommit=True) as connection:
        (ended,) = connection.execute(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = %s",
            (USER,),
        ).fetchall()[0]
    assert ended > 4
    write(pair.root, "file_9.py", "after_the_sessions_ended")
    wait_until(lambda: pair.ask("after_the_sessions_ended")["fresh"])
    assert "after_the_sessions_ended" in contents(pair.ask("after_the_sessions_ended"))


def test_a_cleared_index_and_a_vanished_schema_come_back(pair: Pair) -> None:
    pair.owner.call("clear_index", index="project")
    wait_until(lambda: INDEX not in names(pair.follower))
    pair.owner.index(pair.root)
    wait_until(lambda: INDEX in names(pair.follower))
    assert pair.ask("first1")["fresh"]
    with psycopg.connect(pair.server.admin, dbname=DATABASE, autocommit=True) as connection:
        connection.execute("alter schema team_a rename to elsewhere")
        try:
            missing = "schema team_a has no registry"
            wait_until(lambda: missing in (status_of(pair)["reason"] or ""))
            with pytest.raises(CallFailed, match="schema team_a has no registry"):
                pair.ask("first1")
        finally:
            connection.execute("alter schema elsewhere rename to team_a")
    wait_until(lambda: status_of(pair)["state"] == "live")
    wait_until(lambda: pair.ask("first1")["fresh"])


def test_without_the_owner_and_its_disk_rows_answer(pair: Pair) -> None:
    write(pair.root, "file_7.py", "the_last_text")
    assert pair.ask("the_last_text")["fresh"]
    pair.owner.kill()
    shutil.rmtree(pair.root)
    reply = pair.ask("the_last_text", sync_timeout_ms=60_000)
    assert not reply["fresh"]
    assert reply["timings_ms"]["sync"] < 30_000, "an owner that is gone is not waited for"
    assert "def the_last_text" in reply["results"][0]["content"]
    assert not reply["results"][0]["stale"]
    file = pair.follower.call("get_file", path="file_7.py", index=INDEX)
    assert file["content"] == "def the_last_text():\n    return 0\n"
    assert file["stale_code"] == "owner_silent"
    grep = pair.follower.call("grep", pattern="the_last_\\w+", indexes=[INDEX])
    assert [file["path"] for file in grep["files"]] == ["file_7.py"]
    absent = pair.ask("the_last_text", why_not="never.py")["explain"]["why_not"]
    assert "only the daemon of schema team_a on" in absent["reason"]
    wait_until(lambda: status_of(pair)["state"] == "degraded")


def status_of(pair: Pair) -> Any:
    indexes = pair.follower.call("list_indexes")["indexes"]
    return next(index for index in indexes if index["name"] == INDEX)
