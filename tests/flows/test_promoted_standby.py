"""A standby is promoted while an owner writes and a follower reads: no answer is wrongly fresh.

Both daemons have the addresses of both servers in their URL.
"""

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cocosearch_ipc.client import CallFailed
from tests.conftest import QUICK
from tests.daemon import Daemon, freezing_with_children, passing_daemon
from tests.store.remote import PASSWORD, USER, remote_server
from tests.store.standby import PRIMARY, Standby, standby_of

DATABASE = "shared"
LIMIT_S = 60.0


@dataclass
class Team:
    """An owner and its follower, on a primary server with a standby."""

    owner: Daemon
    follower: Daemon
    standby: Standby
    root: Path
    words: dict[str, str] = field(default_factory=dict)  # the last word of each file
    fresh_answers: int = 0
    errors: list[str] = field(default_factory=list)

    def save(self, name: str, word: str) -> None:
        (self.root / name).write_text(f"def {word}():\n    return 1\n")
        self.words[name] = word

    def check(self, word: str, former: str = "", timeout_ms: int = 2000) -> bool:
        """Ask both; a fresh answer has the word, and not the former one. True: both are fresh."""
        are_fresh = [
            self._check_one(daemon, index, word, former, timeout_ms)
            for daemon, index in ((self.owner, "code"), (self.follower, "code@team_a"))
        ]
        return all(are_fresh)

    def _check_one(
        self, daemon: Daemon, index: str, word: str, former: str, timeout_ms: int
    ) -> bool:
        request: dict[str, Any] = {"index": index, "limit": 3, "sync_timeout_ms": timeout_ms}
        try:
            reply = daemon.call("search", query=word, **request)
        except CallFailed as error:
            self.errors.append(str(error))
            return False
        texts = [hit["content"] for hit in reply["results"]]
        assert not reply["fresh"] or any(word in text for text in texts), f"{word} is missing"
        assert not reply["fresh"] or not former or not any(former in text for text in texts)
        self.fresh_answers += reply["fresh"]
        return bool(reply["fresh"])

    def wait_until_fresh(self, word: str, former: str = "") -> None:
        end = time.monotonic() + LIMIT_S
        while not self.check(word, former):
            assert time.monotonic() < end, self.owner.log[-3000:] + self.follower.log[-3000:]
            time.sleep(0.05)

    def stored_paths(self) -> set[str]:
        """Return the files in the rows of the promoted server."""
        query = "select filename from team_a.codeindex_code__code_files"
        admin = make_conninfo(self.standby.admin, dbname=DATABASE)
        return {path for (path,) in self.standby.execute(query, admin=admin)}


@pytest.fixture
def team(public_state: Path, cluster: Path, tmp_path: Path) -> Iterator[Team]:
    home = public_state / "promoted"
    shutil.rmtree(home, ignore_errors=True)
    root = tmp_path / "code"
    root.mkdir()
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(remote_server(home, QUICK | PRIMARY, cluster))
        primary.make_database(DATABASE)
        with psycopg.connect(primary.admin, dbname=DATABASE, autocommit=True) as connection:
            for schema in ("team_a", "team_b"):
                connection.execute(f"create schema {schema} authorization {USER}")
        standby = stack.enter_context(standby_of(primary, home))

        def url(schema: str) -> str:
            return make_conninfo(
                host="127.0.0.1,127.0.0.1",
                port=f"{primary.port},{standby.port}",
                target_session_attrs="read-write",
                user=USER,
                password=PASSWORD,
                dbname=DATABASE,
                options=f"-c search_path={schema},public",
            )

        owner = stack.enter_context(passing_daemon(COCOSEARCH_DATABASE_URL=url("team_a")))
        follower = stack.enter_context(
            passing_daemon(
                COCOSEARCH_DATABASE_URL=url("team_b"), COCOSEARCH_DATABASE_FOLLOW="team_a"
            )
        )
        team = Team(owner, follower, standby, root)
        for number in range(6):
            team.save(f"file_{number}.py", f"first{number}")
        owner.start()
        owner.index(root, "code")
        follower.start()
        team.wait_until_fresh("first1")
        yield team


def test_a_synchronous_standby_has_every_commit(team: Team) -> None:
    team.standby.make_synchronous()
    team.save("file_1.py", "before_the_crash")
    team.wait_until_fresh("before_the_crash", "first1")
    fault = threading.Thread(target=crash_and_promote, args=(team.standby,))
    fault.start()
    number = 0
    while fault.is_alive():
        number += 1
        team.save("file_2.py", f"meanwhile{number}")
        team.check(f"meanwhile{number}", f"meanwhile{number - 1}", timeout_ms=500)
    assert [text for text in team.errors if "PostgreSQL" not in text] == []
    team.save("file_3.py", "after_the_promotion")
    team.wait_until_fresh("after_the_promotion", "first3")
    for word in team.words.values():
        assert team.check(word, timeout_ms=20_000), word
    assert team.stored_paths() == set(team.words)


def crash_and_promote(standby: Standby) -> None:
    time.sleep(0.5)
    standby.crash_primary()
    time.sleep(1)
    standby.promote()


def test_commits_that_an_asynchronous_standby_lacks_are_noticed(team: Team) -> None:
    team.save("kept.py", "replicated_text")
    team.wait_until_fresh("replicated_text")
    team.standby.cut_off()
    original = (team.root / "kept.py").stat()
    team.save("kept.py", "lost_version_of_it")
    team.save("lost.py", "lost_addition")
    team.wait_until_fresh("lost_version_of_it", "replicated_text")
    team.wait_until_fresh("lost_addition")
    team.standby.crash_primary()
    # The disk is now as the rows of the standby, and not as those that the daemons last read.
    team.save("kept.py", "replicated_text")
    os.utime(team.root / "kept.py", ns=(original.st_atime_ns, original.st_mtime_ns))
    (team.root / "lost.py").unlink()
    del team.words["lost.py"]
    team.check("replicated_text", "lost_version_of_it", timeout_ms=500)
    team.standby.promote()
    team.wait_until_fresh("replicated_text", "lost_version_of_it")
    team.save("file_4.py", "after_the_promotion")
    team.wait_until_fresh("after_the_promotion", "first4")
    for word in team.words.values():
        assert team.check(word, timeout_ms=20_000), word
    for daemon, index in ((team.owner, "code"), (team.follower, "code@team_a")):
        reply = daemon.call("search", query="lost_addition", index=index)
        assert reply["fresh"], reply["stale_reason"]
        assert not any("lost_addition" in hit["content"] for hit in reply["results"])
    assert "commits_lost" in team.owner.log
    assert team.stored_paths() == set(team.words)


def test_lost_commits_are_noticed_by_those_that_see_nothing_of_the_failover(team: Team) -> None:
    """The owner is stopped, the follower stands still, and the lost generation comes again."""
    team.save("kept.py", "replicated_text")
    team.wait_until_fresh("replicated_text")
    team.standby.cut_off()
    team.save("kept.py", "lost_version_of_it")
    team.wait_until_fresh("lost_version_of_it", "replicated_text")
    (lost,) = generations(team.standby.primary.admin)
    assert team.follower.process is not None
    with freezing_with_children(psutil.Process(team.follower.process.pid)):
        team.owner.stop()
        team.standby.crash_primary()
        team.standby.promote()
        assert generations(team.standby.admin) < [lost]
        team.save("kept.py", "version_after_it")
        team.owner.start()
        reply = team.owner.call("search", query="version_after_it", index="code")
        assert reply["fresh"], reply["stale_reason"]
    team.wait_until_fresh("version_after_it", "lost_version_of_it")
    assert generations(team.standby.admin) > [lost]
    assert "commits_lost" in team.owner.log


def generations(admin: str) -> list[int]:
    """Read the generations of the owner's indexes."""
    with psycopg.connect(admin, dbname=DATABASE) as connection:
        query = "select generation from team_a.cocosearch_indexes"
        return [generation for (generation,) in connection.execute(query).fetchall()]
