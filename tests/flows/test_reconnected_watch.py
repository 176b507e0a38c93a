"""`cocosearchctl watch` continues after a restart or a kill of its daemon, and with a rebuilt
index.
"""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import IO, Any

from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.questions import subscription
from tests.daemon import Daemon

WAIT_S = 60.0
# A process of `watch`, its events, and the lines that it writes for people.
WatchClient = tuple["subprocess.Popen[str]", "Queue[dict[str, Any]]", "Queue[str]"]


@contextmanager
def watching(daemon: Daemon, *arguments: str) -> Iterator[WatchClient]:
    """Run `watch --json`; yield its process, its events and its lines on standard error."""
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


def test_followers_survive_the_end_of_the_daemon(
    daemon: Daemon, project: Path, tmp_path: Path
) -> None:
    """A client of an index, one of every index, and one of a saved query: by a stop, by a kill."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.py").write_text("A = 1\n")
    daemon.index(tmp_path / "other")
    daemon.index(project)
    with watching(daemon, "--index", "project") as client:
        begun(client[1], project)
        goes_on(daemon, project, daemon.stop, client)
        with (
            watching(daemon) as (everything, all_events, all_messages),
            watching(daemon, "--index", "project", "--query", '"circuit breaker"') as (
                _,
                matches,
                match_messages,
            ),
        ):
            begun(all_events, project)
            begun(matches, project, "CIRCUIT = 'circuit breaker'; AT")
            (project / "begun.py").write_text("")
            goes_on(daemon, project, daemon.kill, client)
            for messages in (all_messages, match_messages):
                assert messages.get(timeout=WAIT_S) == subscription.GONE
            hears_of_each_gap(all_events)
            (tmp_path / "other" / "later.py").write_text("LATER = 1\n")
            until(all_events, "later.py", "other")
            assert everything.poll() is None
            # of a file that was written while no daemon was there
            assert until(matches, "meanwhile_kill.py")["kind"] == "matches"
        process, _, messages = client
        assert messages.empty()
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == exits.INTERRUPTED


def goes_on(daemon: Daemon, project: Path, end: Callable[[], object], client: WatchClient) -> None:
    """End the daemon and start it again: the client hears of the gap, and of what comes after."""
    _, events, messages = client
    end()
    text = f"def meanwhile_{end.__name__}():\n    return 'circuit breaker'\n"
    (project / f"meanwhile_{end.__name__}.py").write_text(text)
    assert messages.get(timeout=WAIT_S) == subscription.GONE
    daemon.start()
    assert until(events, "missed")["index"] == "project"
    assert daemon.call("sync", index="project")["fresh"]
    (project / f"later_{end.__name__}.py").write_text("LATER = 1\n")
    assert until(events, f"later_{end.__name__}.py")["kind"] == "commit"
    assert messages.empty()


def hears_of_each_gap(events: "Queue[dict[str, Any]]") -> None:
    missed = set[str]()
    while missed != {"project", "other"}:
        event = events.get(timeout=WAIT_S)
        missed |= {event["index"]} if event["kind"] == "missed" else set()


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
