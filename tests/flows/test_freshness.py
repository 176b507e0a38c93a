"""Read your writes, through the socket: a question after a save shows it, or says that it may not."""

import collections
import contextlib
import json
import os
import queue
import random
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cocosearch_ipc.client import call
from tests.daemon import Daemon, git


def pairs(daemon: Daemon, root: Path, count: int, seed: int) -> None:
    """Write, ask at once, compare: a wrong `fresh: true` is the only sin."""
    rng = random.Random(seed)
    socket = str(daemon.home / "run" / "rpc.sock")
    for number in range(count):
        name, word = f"file_{rng.randrange(20)}.py", f"written{number}x{seed}"
        path = root / name
        previous_name = path.read_text().split("def ")[1].split("(")[0] if path.exists() else None
        path.write_text(f"def {word}():\n    return {number}\n")
        reply = call(
            socket,
            "search",
            {"query": word, "cwd": str(root), "limit": 1, "sync_timeout_ms": 20_000},
        )
        assert reply["fresh"] is True, reply["stale_reason"]
        assert reply["results"][0]["path"] == name
        assert word in reply["results"][0]["content"]
        if previous_name is not None:
            old = call(
                socket,
                "search",
                {"query": previous_name, "cwd": str(root), "limit": 20, "sync_timeout_ms": 20_000},
            )
            assert not [hit for hit in old["results"] if previous_name in hit["content"]]


def test_a_question_after_a_save_sees_it(shared: Daemon, project: Path) -> None:
    shared.index(project)
    pairs(shared, project, 60, seed=1)


@pytest.mark.slow
def test_ten_thousand_questions_after_saves(shared: Daemon, project: Path) -> None:
    shared.index(project)
    pairs(shared, project, 10_000, seed=2)


def test_without_waiting_it_does_not_claim_to_be_fresh(shared: Daemon, project: Path) -> None:
    shared.index(project)
    answer = shared.query("should_retry", "--no-sync")
    assert answer["fresh"] is False
    assert answer["stale_reason"]
    assert answer["results"][0]["path"] == "src/retry.py"


def test_while_git_checks_out_nothing_wrong_is_called_fresh(shared: Daemon, project: Path) -> None:
    many = project / "many"
    many.mkdir()
    for number in range(150):
        (many / f"m{number}.py").write_text(f"def on_main_{number}():\n    pass\n")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "many")
    git(project, "checkout", "-q", "-b", "other")
    for number in range(150):
        (many / f"m{number}.py").write_text(f"def on_other_{number}():\n    pass\n")
    git(project, "commit", "-q", "-a", "-m", "others")
    shared.index(project)
    socket = str(shared.home / "run" / "rpc.sock")
    for branch, word in (("main", "on_main_7"), ("other", "on_other_7"), ("main", "on_main_7")):
        git(project, "checkout", "-q", branch)
        reply = call(
            socket,
            "search",
            {"query": word, "cwd": str(project), "limit": 1, "sync_timeout_ms": 30_000},
        )
        assert reply["fresh"] is True, reply["stale_reason"]
        assert word in reply["results"][0]["content"]


def beside_checkouts(daemon: Daemon, project: Path, files: int, checkouts: int) -> Counter[str]:
    """Save and ask, and look at what git is writing, while it writes: what is called fresh must be
    so.
    """
    many, mine, socket = project / "many", project / "mine", str(daemon.home / "run" / "rpc.sock")
    branches = commit_branches(project, many, files)
    mine.mkdir()
    daemon.ctl("up", str(project), "--wait", limit_s=3600)
    rng, counts = random.Random(files), Counter[str]()

    def ask(word: str) -> Any:
        reply = call(
            socket,
            "search",
            {"query": word, "cwd": str(project), "limit": 20, "sync_timeout_ms": 2000},
        )
        counts["fresh" if reply["fresh"] else "not fresh"] += 1
        return reply

    def settled(word: str) -> None:
        request = {"query": word, "cwd": str(project), "limit": 20, "sync_timeout_ms": 600_000}
        reply = call(socket, "search", request, timeout_s=900)
        assert reply["fresh"], reply["stale_reason"]
        assert any(word in hit["content"] for hit in reply["results"]), word
        counts["settled"] += 1

    for number in range(checkouts):
        command = ["git", "checkout", "-q", branches[number % 2]]
        with subprocess.Popen(command, cwd=project) as checkout:
            after = 5
            while checkout.poll() is None or (after := after - 1):
                word = f"written{number}x{counts.total()}"
                (mine / f"m{counts.total() % 20}.py").write_text(f"def {word}():\n    pass\n")
                reply = ask(word)
                assert not reply["fresh"] or any(
                    word in hit["content"] for hit in reply["results"]
                ), word
                path = many / f"m{rng.randrange(files)}.py"
                previous_text = path.read_text() if path.exists() else ""
                if previous_text.count("\n") != 2:
                    continue  # git has opened it, and not written all of it
                word = previous_text.split()[1].partition("(")[0]
                reply = ask(word)
                if reply["fresh"] and path.exists() and path.read_text() == previous_text:
                    assert any(word in hit["content"] for hit in reply["results"]), word
        assert checkout.returncode == 0
        settled(f"on_{branches[number % 2]}_{rng.randrange(files)}")
        ask("anything")
    return counts


def commit_branches(project: Path, many: Path, files: int) -> tuple[str, str]:
    """Two branches with other text in all of so many files; the second is checked out."""
    many.mkdir()
    for branch in ("one", "two"):
        git(project, "checkout", "-q", "-b", branch)
        for number in range(files):
            (many / f"m{number}.py").write_text(f"def on_{branch}_{number}():\n    pass\n")
        git(project, "add", ".")
        git(project, "commit", "-q", "-m", branch)
    return "one", "two"


def test_questions_beside_a_checkout(shared: Daemon, project: Path) -> None:
    assert beside_checkouts(shared, project, 120, checkouts=2)["fresh"] >= 2


@pytest.mark.slow
def test_questions_beside_large_checkouts(shared: Daemon, project: Path) -> None:
    counts = beside_checkouts(shared, project, 5000, checkouts=4)
    assert counts["fresh"]
    assert counts["not fresh"], "the checkout was too quick to be noticed"


def test_watchers_hear_of_changes_that_become_searchable(shared: Daemon, project: Path) -> None:
    shared.index(project)
    path = project / "src" / "told.py"
    with subprocess.Popen(
        [shared.bin / "cocosearchctl", "watch", "--index", "project", "--json"],
        env=shared.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        events: queue.Queue[str] = queue.Queue()
        threading.Thread(
            target=collections.deque, args=(map(events.put, watching.stdout), 0), daemon=True
        ).start()
        event = None
        while event is None:  # the subscription begins some time after the program has started
            path.write_text(f"TOLD = {time.monotonic_ns()}\n")
            with contextlib.suppress(queue.Empty):
                event = json.loads(events.get(timeout=1))
        assert (event["index"], event["changed"], event["removed"]) == (
            "project",
            ["src/told.py"],
            [],
        )
        path.unlink()
        while event["removed"] != ["src/told.py"]:
            event = json.loads(events.get(timeout=120))
        watching.terminate()


def test_one_question_to_several_indexes_and_topics(
    shared: Daemon, project: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "other"
    directory.mkdir()
    (directory / "policy.py").write_text("def should_retry(budget):\n    return budget.left > 0\n")
    shared.ctl("up", str(project), "--topic", "net", "--wait")
    shared.ctl("up", str(directory), "--topic", "net", "--topic", "more", "--wait")
    for arguments in (("--all",), ("--topic", "net"), ("--index", "project,other")):
        answer = shared.query("retry", *arguments)
        assert set(answer["indexes"]) == {"project", "other"}
        assert {hit["index"] for hit in answer["results"]} == {"project", "other"}
        assert answer["fresh"] is True
    for question in ("should_retry topic:more", "should_retry topic:net index:other"):
        assert {hit["index"] for hit in shared.query(question)["results"]} == {"other"}
    narrowed = shared.query("should_retry index:other", "--index", "project,other")
    assert narrowed["index"] == "other"
    nothing = shared.ctl("query", "x index:project", "--topic", "more", check=False)
    assert "no index is left by index project and topic more" in nothing.stderr
    unknown = shared.ctl("query", "x", "--topic", "nett", check=False)
    assert unknown.returncode == 1
    assert "net" in unknown.stderr


def test_files_are_listed_printed_and_related(shared: Daemon, project: Path) -> None:
    shared.index(project)
    assert shared.ctl("files", "src", cwd=project).stdout.split() == [
        "src/retry.py",
        "src/server.go",
    ]
    output = shared.ctl("cat", "src/retry.py:4-5", cwd=project).stdout
    assert output.splitlines()[0] == "class RetryPolicy:"
    beyond = shared.ctl("cat", "src/retry.py:999", cwd=project, check=False)
    assert beyond.returncode == 1
    assert "src/retry.py has only" in beyond.stderr
    outside = shared.ctl("cat", "../../etc/passwd", cwd=project, check=False)
    assert outside.returncode == 1
    assert {
        hit["path"] for hit in shared.json("related", "src/retry.py:5", cwd=project)["results"]
    } <= {
        "src/server.go",
        "README.md",
    }
    languages = {entry["name"]: entry for entry in shared.json("languages")["languages"]}
    assert languages["python"]["symbols"] is True
    assert languages["csharp"]["chunking"] == "tree-sitter"


def test_a_file_is_found_and_read_as_it_was_just_written(shared: Daemon, project: Path) -> None:
    shared.index(project)
    for number in range(10):
        (project / f"new{number}.py").write_text(f"def just_written_{number}():\n    return 1\n")
        related = shared.call("find_related", index="project", path=f"new{number}.py", line=1)
        assert related["fresh"]
        (project / f"read{number}.py").write_text("x = 1\n")
        assert (
            shared.call("get_file", path=str(project / f"read{number}.py"))["content"] == "x = 1\n"
        )
        (project / f"read{number}.py").write_text("x = 2\n")
        again = shared.call("get_file", index="project", path=f"read{number}.py")
        assert (again["content"], again["fresh"]) == ("x = 2\n", True)


def test_no_glob_holds_up_the_daemon(shared: Daemon, project: Path) -> None:
    """Many stars can share a long name in more ways than can be tried."""
    (project / ("a" * 200 + ".py")).write_text(f"def {'a' * 200}():\n    return 1\n")
    shared.index(project)
    glob = "*a" * 20 + "*b"
    assert shared.call("list_files", index="project", pattern=glob)["files"] == []
    for filtered in (f"retry path:{glob}", f"sym:function name:{glob}"):
        assert shared.call("search", index="project", query=filtered)["results"] == []
        assert (
            shared.call("search", index="project", query=filtered, profile="classic")["results"]
            == []
        )


def test_files_are_named_as_a_shell_names_them(
    shared: Daemon, project: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "other"
    (directory / "src").mkdir(parents=True)
    (directory / "src" / "retry.py").write_text("def other_retry():\n    pass\n")
    (directory / "src" / "alone.py").write_text("def alone():\n    pass\n")
    for root in (project, directory):
        shared.index(root)
    below = project / "src"
    assert shared.ctl("cat", "retry.py:4-4", cwd=below).stdout == "class RetryPolicy:\n"
    assert shared.ctl("cat", "src/retry.py:4-4", cwd=below).stdout == "class RetryPolicy:\n"
    assert shared.ctl("cat", f"{below}/retry.py:4-4", cwd=tmp_path).stdout == "class RetryPolicy:\n"
    assert shared.json("related", "retry.py:5", cwd=below)["query"] == "src/retry.py:5"
    # In no index, with several there: one that has the file is meant, two are an error.
    assert shared.json("cat", "src/alone.py", cwd=tmp_path)["index"] == "other"
    done = shared.ctl("cat", "src/retry.py", cwd=tmp_path, check=False)
    assert "several indexes: other, project" in done.stderr
    missing = shared.ctl("cat", "lib/retry.py", cwd=project, check=False)
    assert "did you mean src/retry.py?" in missing.stderr


def test_why_not_says_what_leaves_a_file_out(shared: Daemon, project: Path) -> None:
    (project / ".gitignore").write_text("# made by tools\ngenerated.py\n")
    (project / "generated.py").write_text("def should_retry():\n    pass\n")
    (project / "src" / "notes.jpeg").write_bytes(b"x")
    shared.index(project)

    def why(path: str, cwd: Path) -> dict[str, str]:
        reply = shared.json("query", "should_retry", "--why-not", path, cwd=cwd)
        report: dict[str, str] = reply["explain"]["why_not"]
        return report

    ignored = why("generated.py", project)
    assert (ignored["status"], ignored["reason"]) == (
        "not_indexed",
        "it is left out by .gitignore:2: generated.py",
    )
    assert why(str(project / "generated.py"), project) == ignored
    assert "its type" in why("notes.jpeg", project / "src")["reason"]
    assert "outside of the root" in why("/etc/passwd", project)["reason"]
    assert why("retry.py", project / "src")["status"] == "shown"


def test_a_file_below_two_roots_is_one_result(shared: Daemon, project: Path) -> None:
    shared.index(project)
    shared.index(project / "src")
    results = shared.json("query", "should_retry", "--all")["results"]
    assert [(hit["index"], hit["path"]) for hit in results if "should_retry" in hit["content"]] == [
        ("src", "retry.py")
    ]


def test_a_name_that_is_no_text_can_be_typed(shared: Daemon, project: Path) -> None:
    """A shell passes its bytes on; answers show them escaped, and that can be typed as well."""
    name = os.fsdecode(b"caf\xe9.py")
    (project / "src" / name).write_text("def in_the_cafe():\n    pass\n")
    shared.index(project)
    below = project / "src"
    for typed in (name, f"src/{name}", str(below / name), "src/caf\\xe9.py"):
        assert shared.ctl("cat", typed, cwd=below).stdout == "def in_the_cafe():\n    pass\n", typed
        report = shared.json("query", "in_the_cafe", "--why-not", typed, cwd=below)["explain"][
            "why_not"
        ]
        assert (report["path"], report["status"]) == ("src/caf\\xe9.py", "shown"), typed
    assert shared.json("related", f"{name}:1", cwd=below)["query"] == "src/caf\\xe9.py:1"
    hits = shared.json("query", "in_the_cafe", "--path", f"**/{name}", cwd=below)["results"]
    assert [hit["path"] for hit in hits] == ["src/caf\\xe9.py"]
    assert shared.ctl("files", "--glob", name, cwd=below).stdout == "src/caf\\xe9.py\n"
