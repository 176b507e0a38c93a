"""Dead parts of the daemon are shown by `status`, `doctor` and `/metrics` within ten seconds."""

import asyncio
import contextlib
import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from cocosearchd.api.health import HANGING_PROBES, Health
from cocosearchd.errors import EmbedderUnavailable, EmbedderUnresponsive
from tests.daemon import Daemon, passing_daemon
from tests.embedding.ollama_server import Script, ollama_server
from tests.machine_speed import FairClock
from tests.store.remote import free_port, remote_server

SAID_WITHIN_S = 10.0
ANSWERED_WITHIN_S = 5.0  # `status` itself, whatever hangs
BUSY_S = 60.0  # more, on a busy machine
LIMIT_S = 60.0


@dataclass
class Model:
    """A model server that can be ended and started again at the same address."""

    port: int = field(default_factory=free_port)
    script: Script = field(default_factory=lambda: Script(dimension=32))
    _running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._running.enter_context(ollama_server(self.script, self.port))

    def stop(self) -> None:
        self.script.answers.set()
        self._running.close()


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    model = Model()
    model.start()
    yield model
    model.stop()


@pytest.fixture(scope="module")
def watched(cluster: Path, model: Model) -> Iterator[Daemon]:
    """A daemon whose embedder is a server; each test leaves all parts up."""
    variables = {"COCOSEARCH_EMBEDDER_PROVIDER": "ollama", "COCOSEARCH_OLLAMA_URL": model.url}
    with passing_daemon(cluster, **variables) as daemon:
        daemon.start()
        yield daemon


def awaited_part(
    daemon: Daemon, part: str, *states: str, within_s: float = SAID_WITHIN_S
) -> dict[str, Any]:
    """The part once it is in one of the states; each question must be answered soon."""
    end = time.monotonic() + within_s + BUSY_S
    with FairClock() as clock:
        while (part_status := answered_status(daemon)[part])["state"] not in states:
            assert time.monotonic() < end, f"{part} is {part_status}"
            time.sleep(0.25)
    assert clock.fair_s < within_s, f"{part} is {part_status} after {clock.took_s:.1f} s"
    return dict(part_status)


def answered_status(daemon: Daemon) -> dict[str, Any]:
    with FairClock() as clock:
        status: dict[str, Any] = daemon.call("status")
    assert clock.fair_s < ANSWERED_WITHIN_S, f"status took {clock.took_s:.1f} s"
    return status


def metric(daemon: Daemon, part: str) -> str:
    """The last word of the line of /metrics that says whether a part is up."""
    url = daemon.call("status")["mcp"]["url"].removesuffix("/mcp") + "/metrics"
    token = (daemon.home / "state" / "token").read_text("ascii").strip()
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=50) as reply:
        lines: list[str] = reply.read().decode().splitlines()
    return next(
        line for line in lines if line.startswith(f'cocosearch_up{{part="{part}"}}')
    ).split()[-1]


def doctor(daemon: Daemon, part: str) -> dict[str, Any]:
    """Return the finding of `doctor` about a part."""
    findings = daemon.ctl("doctor", "--json", check=False).stdout
    return next(finding for finding in json.loads(findings)["findings"] if finding["what"] == part)


def test_a_model_server_that_ends_is_down_and_comes_back(watched: Daemon, model: Model) -> None:
    awaited_part(watched, "embedder", "up")
    model.stop()
    part = awaited_part(watched, "embedder", "down")
    assert model.url in part["reason"]
    assert part["hint"]
    assert part["since"]
    assert metric(watched, "embedder") == "0"
    finding = doctor(watched, "embedder")
    assert (finding["state"], finding["fix"]) == ("fail", part["hint"])
    assert part["reason"] in watched.ctl("status").stdout
    since = watched.call("status")["embedder"]["since"]
    assert since == part["since"], "it is since when it is down, not since when it was looked at"
    model.start()
    awaited_part(watched, "embedder", "up")
    assert metric(watched, "embedder") == "1"


def test_a_model_server_that_hangs_is_unresponsive(watched: Daemon, model: Model) -> None:
    awaited_part(watched, "embedder", "up")
    model.script.answers.clear()
    part = awaited_part(watched, "embedder", "unresponsive", "down")
    assert part["state"] == "unresponsive"
    assert "has not answered" in part["reason"]
    assert metric(watched, "embedder") == "0"
    model.script.answers.set()
    awaited_part(watched, "embedder", "up")


def test_looks_embed_nothing_while_all_is_well(watched: Daemon, model: Model) -> None:
    awaited_part(watched, "embedder", "up")
    request_count = len(model.script.requests)
    time.sleep(4.0)
    assert len(model.script.requests) == request_count


def test_a_worker_that_is_stopped_is_unresponsive(watched: Daemon) -> None:
    worker = awaited_part(watched, "worker", "running", within_s=60)
    os.kill(worker["pid"], signal.SIGSTOP)
    try:
        part = awaited_part(watched, "worker", "unresponsive")
        assert "has not answered for" in part["error"]
        assert metric(watched, "worker") == "0"
        assert doctor(watched, "worker")["state"] == "fail"
    finally:
        os.kill(worker["pid"], signal.SIGCONT)
    assert awaited_part(watched, "worker", "running")["error"] is None


def test_a_database_that_is_stopped_is_unresponsive(watched: Daemon) -> None:
    awaited_part(watched, "store", "up")
    with watched.freezing_postgres():
        part = awaited_part(watched, "store", "unresponsive", "down")
        assert part["state"] == "unresponsive", part
        assert part["reason"]
        assert part["hint"]
        assert metric(watched, "store") == "0"
    awaited_part(watched, "store", "up")


def test_a_database_elsewhere_that_goes_away_is_down(public_state: Path) -> None:
    home = public_state / "vanishing"
    with contextlib.ExitStack() as server:
        remote = server.enter_context(remote_server(home, {"fsync": "off"}))
        with psycopg.connect(remote.admin, autocommit=True) as connection:
            connection.execute("create extension if not exists vector")
            connection.execute("grant all on schema public to tester")
        with passing_daemon(COCOSEARCH_DATABASE_URL=remote.dsn) as daemon:
            daemon.start()
            awaited_part(daemon, "store", "up")
            server.close()
            part = awaited_part(daemon, "store", "down")
            assert "correct horse" not in str(part), "no password"
            assert part["reason"]


@pytest.mark.anyio
async def test_looks_that_hang_do_not_pile_up() -> None:
    forever, looks = asyncio.Event(), 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        await forever.wait()

    health = Health("embedder", look, hint="look at it", within_s=0.02)
    for _ in range(10):
        assert (await health.probe()).state == "unresponsive"
    assert looks == HANGING_PROBES
    forever.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (await health.probe()).state == "up"


@pytest.mark.anyio
async def test_a_look_that_outlasts_a_question_goes_on_for_the_next_one() -> None:
    """Looks are rare at rest: a question that comes again must learn of the end of a part."""
    ended, looks = asyncio.Event(), 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        await ended.wait()
        raise EmbedderUnavailable("gone", "start it")

    health = Health("store", look, hint="look at it", within_s=LIMIT_S)
    for _ in range(3):
        assert (await health.probe_within(0.01)).state == "unknown"
    assert looks == 1
    ended.set()
    assert (await health.probe_within(LIMIT_S)).state == "down"
    assert looks == 1


@pytest.mark.anyio
async def test_a_question_that_does_not_wait_has_a_part_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next one learns of its end, although no other task looks."""
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        raise EmbedderUnavailable("gone", "start it")

    monkeypatch.setattr("cocosearchd.api.health.ASKED_PROBE_S", 3600.0)
    health = Health("embedder", look, hint="look at it", within_s=LIMIT_S)
    assert health.probe_soon().state == "unknown"
    with anyio.fail_after(LIMIT_S):
        while health.probe_soon().state != "down":
            await anyio.sleep(0.01)
    assert looks == 1, "one look is enough for some seconds"
    monkeypatch.setattr("cocosearchd.api.health.ASKED_PROBE_S", 0.0)
    with anyio.fail_after(LIMIT_S):
        while looks == 1:
            health.probe_soon()
            await anyio.sleep(0.01)


@pytest.mark.anyio
async def test_waiting_work_is_told_when_a_part_is_back() -> None:
    gone = EmbedderUnavailable("gone", "start it")
    outcomes: list[EmbedderUnavailable | None] = [None, gone, EmbedderUnresponsive("?"), None]
    messages = list[str]()

    async def look() -> None:
        if (error := outcomes.pop(0)) is not None:
            raise error

    health = Health("embedder", look, hint="look at it")
    health.on_up = lambda: messages.append(health.condition.state)
    assert (await health.probe()).state == "up"
    assert messages == [], "it was not away"
    assert (await health.probe()).fields()["hint"] == "start it"
    silent = await health.probe()
    assert (silent.state, silent.hint) == ("unresponsive", "look at it")
    assert (await health.probe()).reason is None
    assert messages == ["up"]
