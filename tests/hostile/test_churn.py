"""A root whose files change without end: saves in the root beside it stay fresh."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from tests.daemon import Daemon, git
from tests.hostile.neighbour import Neighbour

FILES, MANY_FILES = 60, 300


@contextmanager
def repeating(action: Callable[[int], None]) -> Iterator[None]:
    """Run `action(0)`, `action(1)`, ... in a thread while the context is open."""
    over = threading.Event()

    def repeat() -> None:
        for turn in count():
            if over.is_set():
                return
            with suppress(OSError):  # what the last turn left may be in the way
                action(turn)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def rewrite(root: Path, turn: int) -> None:
    """New content for one file after the other."""
    write(root, turn % FILES, turn)


def write(root: Path, number: int, turn: int) -> None:
    (root / f"file{number}.py").write_text(f"def rewritten_{turn}():\n    return {turn}\n" * 50)


def rename(root: Path, turn: int) -> None:
    """Move a directory of many files to and fro."""
    names = [root / "here", root / "there"]
    names[turn % 2].rename(names[1 - turn % 2])


def replace(root: Path, turn: int) -> None:
    """Make the same name a file, a directory, a link and a pipe in turn."""
    path = root / "changing.py"
    with suppress(OSError):
        path.unlink()
    with suppress(OSError):
        path.rmdir()
    makers: list[Callable[[], object]] = [
        lambda: path.write_text("changing = 1\n"),
        path.mkdir,
        lambda: path.symlink_to("/etc/passwd"),
        lambda: os.mkfifo(path),
    ]
    makers[turn % len(makers)]()


def lock(root: Path, turn: int) -> None:
    """Pretend that git begins and ends something, without pause."""
    path = root / ".git" / "index.lock"
    path.touch()
    path.unlink()


def rule(root: Path, turn: int) -> None:
    """Change what is ignored, and so which files are in the index."""
    (root / ".gitignore").write_text(f"file{turn % 10}*.py\n")


def settle(root: Path, turn: int) -> None:
    """Change the project's settings, right and wrong ones."""
    (root / "cocosearch.yaml").write_text(
        f"indexing: {{chunk_size: {300 + turn % 5 * 100}}}\n" if turn % 3 else "a: ["
    )


def move_root(root: Path, turn: int) -> None:
    """Take the root itself away and bring it back."""
    away = root.with_name("away")
    root.rename(away)
    away.rename(root)


def break_git(root: Path, turn: int) -> None:
    """Take the repository away, and bring it back, with a HEAD that says something else."""
    (root / ".git").rename(root / "hidden")
    (root / "hidden" / "HEAD").write_text(f"ref: refs/heads/branch{turn % 7}\n")
    (root / "hidden").rename(root / ".git")


@pytest.mark.parametrize("files", [FILES, pytest.param(MANY_FILES, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "churn", [rewrite, rename, replace, lock, rule, settle, move_root, break_git]
)
def test_a_restless_root_costs_its_neighbour_nothing(
    shared: Daemon,
    neighbour: Neighbour,
    hostile_root: Path,
    churn: Callable[[Path, int], None],
    files: int,
) -> None:
    (hostile_root / "here").mkdir()
    for number in range(files):
        write(hostile_root, number, number)
        (hostile_root / "here" / f"other{number}.py").write_text(
            f"def other_{number}():\n    pass\n"
        )
    git(hostile_root, "init", "-q")
    neighbour.watch(shared)
    shared.index(hostile_root)
    with repeating(lambda turn: churn(hostile_root, turn)):
        neighbour.assert_fresh(shared, rounds=2 if files == FILES else 4)
    (hostile_root / "at_rest.py").write_text("def written_at_rest():\n    pass\n")
    answer = shared.call(
        "search", query="written_at_rest", index=hostile_root.name, sync_timeout_ms=20_000
    )
    assert answer["fresh"], answer["stale_reason"]
    assert answer["results"][0]["path"] == "at_rest.py"
