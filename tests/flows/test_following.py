"""`cocosearchctl watch` goes on when its daemon does: restarted, killed, or with an index that is
made again.
"""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import IO, Any

from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.questions import subscription
from tests.daemon import Daemon

WAIT_S = 30.0


@contextmanager
def watching(
    daemon: Daemon, *arguments: str
) -> Iterator[tuple["subprocess.Popen[str]", "Queue[dict[str, Any]]", "Queue[str]"]]:
    """`watch --json` with what it prints, from when something was told: the file that was written
    for that is gone.
    """
    events, messages = Queue[dict[str, Any]](), Queue[str]()

    def read_out(lines: IO[str]) -> None:
        for line in lines:
            events.put(json.loads(line))

    def read_said(lines: IO[str]) -> None:
        for line in lines:
            messages.put(line.strip())

    with daemon.begin("watch", "--json", *arguments) as process:
        readers = (
            threading.Thread(target=read_out, args=(process.stdout,)),
            threading.Thread(target=read_said, args=(process.stderr,)),
        )
        for reader in readers:
            reader.start()
        try:
            yield process, events, messages
        finally:
            process.kill()
            for reader in readers:
                reader.join()


def begun(events: "Queue[dict[str, Any]]", project: Path, text: str = "BEGUN") -> None:
    """Waits until the subscription has begun, which is some time after its program has."""
    end = time.monotonic() + WAIT_S
    while events.empty():
        assert time.monotonic() < end
        (project / "begun.py").write_text(f"{text} = {time.monotonic_ns()}\n")
        time.sleep(0.2)


def until(events: "Queue[dict[str, Any]]", expected: str, name: str = "project") -> dict[str, Any]:
    """The next event of a kind, or one that tells of a path."""
    while True:
        event = events.get(timeout=WAIT_S)
        paths = [*event["changed"], *(match["path"] for match in event["matches"])]
        if event["index"] == name and (event["kind"] == expected or expected in paths):
            return event


def test_a_follower_survives_a_restart_of_the_daemon(daemon: Daemon, project: Path) -> None:
    daemon.index(project)
    with watching(daemon, "--index", "project") as (process, events, messages):
        begun(events, project)
        for end in (daemon.stop, daemon.kill):
            end()
            (project / f"meanwhile_{end.__name__}.py").write_text("MEANWHILE = 1\n")
            assert messages.get(timeout=WAIT_S) == subscription.GONE
            daemon.start()
            assert until(events, "missed")["index"] == "project"
            assert daemon.call("sync", index="project")["fresh"]
            (project / f"later_{end.__name__}.py").write_text("LATER = 1\n")
            assert until(events, f"later_{end.__name__}.py")["kind"] == "commit"
            assert messages.empty()
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == exits.INTERRUPTED


def test_a_follower_of_every_index_hears_of_each_gap(
    daemon: Daemon, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.py").write_text("A = 1\n")
    daemon.index(tmp_path / "other")
    daemon.index(project)
    with watching(daemon) as (process, events, messages):
        begun(events, project)
        daemon.kill()
        assert messages.get(timeout=WAIT_S) == subscription.GONE
        daemon.start()
        missed = [
            event
            for event in (events.get(timeout=WAIT_S) for _ in range(2))
            if event["kind"] == "missed"
        ]
        while len(missed) < 2:
            event = events.get(timeout=WAIT_S)
            missed += [event] if event["kind"] == "missed" else []
        assert {event["index"] for event in missed} == {"project", "other"}
        (tmp_path / "other" / "later.py").write_text("LATER = 1\n")
        until(events, "later.py", "other")
        assert process.poll() is None


def test_a_saved_query_finds_what_was_written_while_no_daemon_was_there(
    daemon: Daemon, project: Path
) -> None:
    daemon.index(project)
    with watching(daemon, "--index", "project", "--query", '"circuit breaker"') as (
        _,
        events,
        messages,
    ):
        begun(events, project, "CIRCUIT = 'circuit breaker'; AT")
        daemon.kill()
        (project / "meanwhile.py").write_text("def meanwhile():\n    return 'circuit breaker'\n")
        assert messages.get(timeout=WAIT_S) == subscription.GONE
        daemon.start()
        assert until(events, "meanwhile.py")["kind"] == "matches"


def test_without_a_daemon_nothing_is_waited_for(stopped: Daemon) -> None:
    done = stopped.ctl("watch", check=False)
    assert done.returncode == exits.NOT_RUNNING
    assert "cocosearchd is not running" in done.stderr


def test_a_follower_of_a_new_index_hears_of_the_gap(shared: Daemon, project: Path) -> None:
    """Files that went while there was no index are in no event: a client's copy would keep them."""
    shared.index(project)
    with watching(shared, "--index", "project") as (_, events, messages):
        begun(events, project)
        shared.ctl("clear", "project", "--yes")
        (project / "src" / "server.go").unlink()
        shared.index(project)
        missed = until(events, "missed")
        assert (missed["changed"], missed["removed"]) == ([], [])
        assert until(events, "src/retry.py")["as_of"]["epoch"] == missed["as_of"]["epoch"]
        assert messages.empty()
