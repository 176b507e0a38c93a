"""The main job on the real programs: first index, save and find, queries, start, idle.

    python -m benchmarks.main_job [DIRECTORY]

Without a directory the standard library of the running Python is copied and indexed. The reference
of the command line is a bare `python -c pass` and, where it is installed, `rg` on the same tree, in
the same minute.
"""

import argparse
import json
import shutil
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measure import command_cost, cpu_seconds, machine, percentile, spread, tree_bytes
from cocosearch_ipc.client import call
from tests.daemon import Daemon, make_daemon

QUESTIONS = (
    "where are retries decided", "parse command line arguments", "open a socket and listen", "compress a stream",
    "walk a directory tree", "format an exception traceback", "schedule a callback later", "decode base64 text",
    "compare two sequences", "read a configuration file", "HTTPServer", "ThreadPoolExecutor", "json_dumps", "urlparse",
)  # fmt: skip


def main() -> None:
    """Run all measurements and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", nargs="?", type=Path)
    source = parser.parse_args().directory or Path(sysconfig.get_paths()["stdlib"])
    work = Path(tempfile.mkdtemp(prefix="cocosearch-bench-"))
    root = work / "root"
    shutil.copytree(
        source,
        root,
        symlinks=True,
        ignore=shutil.ignore_patterns("site-packages", "__pycache__", ".git", "*.pyc"),
    )
    daemon = make_daemon()
    sys.stdout.write(f"{machine()}\n")
    try:
        daemon.start()
        indexing(daemon, root)
        saving(daemon, root)
        asking(daemon)
        command_line(daemon, root)
        idling(daemon)
        restarting(daemon)
        daemon.stop()
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)
        shutil.rmtree(work, ignore_errors=True)


def say(what: str, figure: str) -> None:
    sys.stdout.write(f"{what:<34} {figure}\n")
    sys.stdout.flush()


def everything(daemon: Daemon) -> list[psutil.Process]:
    assert daemon.process is not None
    benchmark = psutil.Process(daemon.process.pid)
    return list(
        {
            p.pid: p for p in (benchmark, *benchmark.children(recursive=True), *daemon.postgres())
        }.values()
    )


def indexing(daemon: Daemon, root: Path) -> None:
    files, size = tree_bytes(root)
    cpu, began = cpu_seconds(everything(daemon)), time.perf_counter()
    daemon.ctl("up", str(root), "--name", "bench", "--wait", limit_s=3600)
    wall, cpu = time.perf_counter() - began, cpu_seconds(everything(daemon)) - cpu
    stats = daemon.json("stats", "bench")
    megabytes = size / 1e6
    say(
        "tree",
        f"{files} files, {megabytes:.1f} MB; indexed {stats['files']} files, {stats['chunks']} chunks",
    )
    say("initial index", f"{wall:.1f} s wall, {cpu:.1f} s CPU (daemon, worker, PostgreSQL)")
    say(
        "",
        f"{files / wall:.0f} files/s, {megabytes / wall:.2f} MB/s, {cpu / megabytes:.2f} CPU s per MB",
    )


def request(daemon: Daemon, **parameters: Any) -> Any:
    return call(str(daemon.home / "run" / "rpc.sock"), "search", parameters)


def saving(daemon: Daemon, root: Path, n: int = 100) -> None:
    """From the end of write() to the first answer that shows it: asking with sync, and polling
    without.
    """
    durations: dict[str, list[float]] = {"sync": [], "poll": []}
    for number in range(n):
        for way, patience in (("sync", 10_000), ("poll", 0)):
            word = f"quokka{way}{number}"
            (root / f"saved_{way}_{number % 10}.py").write_text(
                f"def {word}():\n    return {number}\n"
            )
            began = time.perf_counter()
            while True:
                reply = request(
                    daemon, query=word, index="bench", sync_timeout_ms=patience, limit=1
                )
                if reply["results"] and word in reply["results"][0]["content"]:
                    break
                assert time.perf_counter() - began < 30, reply
            durations[way].append((time.perf_counter() - began) * 1000)
    say("save -> answered (sync query)", spread(durations["sync"]))
    say("save -> searchable (polling)", spread(durations["poll"]))


def asking(daemon: Daemon, rounds: int = 10) -> None:
    cold: list[float] = []
    cached: list[float] = []
    walls: list[float] = []
    for number in range(rounds):
        for question in QUESTIONS:
            text = f"{question} {number}" if " " in question else question
            reply = request(daemon, query=text, index="bench", use_cache=False)
            cold.append(reply["timings_ms"]["total"])
            request(daemon, query=question, index="bench")
            began = time.perf_counter()
            reply = request(daemon, query=question, index="bench")
            walls.append((time.perf_counter() - began) * 1000)
            assert reply["cache"] != "miss", reply["cache"]
            cached.append(reply["timings_ms"]["total"])
    say("query, cold, server time", spread(cold))
    say("query, cached, server time", spread(cached))
    say("query, cached, connect to reply", spread(walls))


def command_line(daemon: Daemon, root: Path, n: int = 20) -> None:
    environment = daemon.environment
    programs = {
        "cocosearchctl query": [
            str(daemon.bin / "cocosearchctl"),
            "query",
            "HTTPServer",
            "--index",
            "bench",
        ],
        "python -c pass": [sys.executable, "-c", "pass"],
    }
    if rg := shutil.which("rg"):
        programs["rg"] = [rg, "-n", "HTTPServer", str(root)]
    costs = {}
    for name, command in programs.items():
        walls, cpu = command_cost(command, n, environment, daemon.home)
        costs[name] = cpu
        say(name, f"{percentile(walls, 0.5):.1f} ms wall p50, {cpu:.1f} ms CPU mean (n={n})")
    say(
        "ratio to bare Python, CPU", f"{costs['cocosearchctl query'] / costs['python -c pass']:.2f}"
    )


def idling(daemon: Daemon, seconds: float = 20.0) -> None:
    time.sleep(3)
    processes = everything(daemon)
    cpu_before = cpu_seconds(processes)
    time.sleep(seconds)
    share = (cpu_seconds(processes) - cpu_before) / seconds * 100
    say("idle", f"{share:.2f} % of a core over {seconds:.0f} s ({len(processes)} processes)")
    say(
        "memory",
        json.dumps(
            {k: f"{v / 2**20:.0f} MiB" for k, v in daemon.json("status")["rss_bytes"].items()}
        ),
    )


def restarting(daemon: Daemon) -> None:
    daemon.stop()
    began = time.perf_counter()
    daemon.start()
    daemon.ctl("sync", "--index", "bench", "--timeout", "60")
    wall, cpu = time.perf_counter() - began, cpu_seconds(everything(daemon))
    say(
        "restart, nothing changed",
        f"{wall:.2f} s wall to in sync, {cpu:.2f} s CPU of all processes since the start",
    )


if __name__ == "__main__":
    main()
