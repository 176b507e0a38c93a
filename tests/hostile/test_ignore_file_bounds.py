"""Many and large ignore files take bounded memory and time, and unused ones are named."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.watching import exclusion_report
from cocosearchd.watching.ignore import ignore_layers, pattern_cache
from cocosearchd.watching.ignore.ignore_layers import MAX_LAYERS
from cocosearchd.watching.ignore.left_out_files import LeftOutFiles, count_left_out
from cocosearchd.watching.ignore.patterns import (
    MAX_WILDCARDS,
    MAX_WILDCARDS_BYTES,
    deciding_line,
    parse,
)
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.ignore.unindexed_files import why_absent
from cocosearchd.watching.ignore_files import MAX_IGNORE_BYTES
from cocosearchd.watching.watched_root import WatchedRoot
from tests.watching.support import QUICK, MemoryIndex

DEPTH = 50
MAX_GROWTH_MB = 200
MAX_DECISION_S = 0.05
MAX_COUNT_S = 1.0
MAX_REASON_S = 5.0

# The growth is that of a process of its own: what other tests have freed would hide it. The limit
# ends a process that takes what the daemon must not.
MEASURE = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from cocosearchd.config.settings import IndexingSettings
from cocosearchd.watching.ignore.root_scope import RootScope
root, path = (argument.encode() for argument in sys.argv[1:])
def peak_kb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak_kb()
scope = RootScope(root, IndexingSettings())
scope.is_in_scope(path)
renewed = scope.renew()
renewed.is_in_scope(path)
times = []
for _ in range(5):
    began = time.thread_time()
    renewed.is_in_scope(path)
    times.append(time.thread_time() - began)
print((peak_kb() - before) / 1024, min(times))
"""


def equal_lines(number: int) -> bytes:
    return b"a\n!b\n" * (MAX_IGNORE_BYTES // 5)


def different_lines(number: int) -> bytes:
    lines = (b"%s%x%x" % (b"!" * (line % 2), line, number) for line in range(130_000))
    return b"\n".join(lines)[:MAX_IGNORE_BYTES]


def nested_files(root: Path, content: Callable[[int], bytes], depth: int = DEPTH) -> Iterator[Path]:
    """Write an ignore file into each directory of a chain, and yield the directories."""
    directory = root
    for number in range(depth):
        directory /= "d"
        directory.mkdir()
        (directory / ".gitignore").write_bytes(content(number))
        yield directory


@pytest.mark.parametrize("content", [equal_lines, different_lines])
def test_large_files_in_nested_directories_are_bounded(
    tmp_path: Path, content: Callable[[int], bytes]
) -> None:
    *_, deepest = nested_files(tmp_path, content)
    path = (deepest / "x.py").relative_to(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    growth_mb, decision_s = map(float, done.stdout.split())
    assert growth_mb < MAX_GROWTH_MB
    assert decision_s < MAX_DECISION_S


def test_runs_of_patterns_cost_nothing() -> None:
    patterns = parse(b"a\n!b\n" * 20_000)
    began = time.thread_time()
    for _ in range(1000):
        assert patterns.ignores(b"x/c", b"c") is None
    assert time.thread_time() - began < 0.5
    assert patterns.ignores(b"x/a", b"a") is True
    assert patterns.ignores(b"x/b", b"b") is False


def test_a_root_with_more_lines_than_the_bound_says_what_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is lowered, because a million lines would take seconds to write."""
    monkeypatch.setattr(pattern_cache, "MAX_ROOT_LINES", 5)
    (tmp_path / ".gitignore").write_text("a.py\nb.py\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".gitignore").write_text("c.py\nd.py\ne.py\n")
    (tmp_path / "equal").mkdir()
    (tmp_path / "equal" / ".gitignore").write_text("a.py\nb.py\n")
    scope = RootScope(os.fsencode(tmp_path), IndexingSettings())
    assert not scope.is_in_scope(b"a.py")
    assert scope.is_in_scope(b"sub/c.py")
    assert not scope.is_in_scope(b"equal/b.py"), "an equal file is no other one"
    (warning,) = scope.warnings()
    assert warning.startswith(f"{tmp_path}/sub/.gitignore: 4 of its patterns are not used")
    # what is not in use any more does not count
    (tmp_path / ".gitignore").write_text("\n")
    (tmp_path / "equal" / ".gitignore").write_text("\n")
    edited = scope.without_trees(b"")
    del scope
    assert edited.is_in_scope(b"a.py")
    assert not edited.is_in_scope(b"sub/c.py")


def test_equal_files_are_one_object_also_after_a_scan(tmp_path: Path) -> None:
    list(nested_files(tmp_path, lambda _: b"x.py\n", depth=3))
    scope = RootScope(os.fsencode(tmp_path), IndexingSettings())
    scopes = [scope, scope.renew()]
    used = {
        id(layer.patterns)
        for scope in scopes
        for layer in scope._folder(b"d/d/d").git_layers
        if layer.patterns.is_used
    }
    assert len(used) == 1


def test_wildcards_of_nested_files_have_the_bound_of_one_file(tmp_path: Path) -> None:
    lines = b"*" + b"a" * 60 + b"b\n"
    content = lines * (MAX_WILDCARDS_BYTES // len(lines) * 2 // 3)
    list(nested_files(tmp_path, lambda number: b"%d\n" % number + content, depth=3))
    scope = RootScope(os.fsencode(tmp_path), IndexingSettings())
    assert not scope.is_in_scope(b"d/" + b"a" * 60 + b"b")
    assert [layer.patterns.omitted for layer in scope._folder(b"d/d/d").git_layers[:-1]] == [0]
    assert len(scope.warnings()) == 2


def test_no_more_than_so_many_files_are_in_effect(tmp_path: Path) -> None:
    list(nested_files(tmp_path, lambda number: b"%d.py\n" % number, depth=MAX_LAYERS + 5))
    scope = RootScope(os.fsencode(tmp_path), IndexingSettings())
    last = b"d/" * (MAX_LAYERS + 5)
    assert not scope.is_in_scope(last + b"0.py")
    assert scope.is_in_scope(last + b"%d.py" % (MAX_LAYERS + 4))
    assert len(scope._folder(last.rstrip(b"/")).git_layers) == ignore_layers.MAX_LAYERS
    assert str(MAX_LAYERS) in scope.warnings()[0]


def test_left_out_files_are_counted_soon_whatever_leaves_them_out(tmp_path: Path) -> None:
    lines = b"".join(b"*a%d\n" % number for number in range(120_000))[:MAX_IGNORE_BYTES]
    (tmp_path / ".gitignore").write_bytes(b"*.py\n" + lines)
    for number in range(20):
        (tmp_path / f"{number}.py").touch()
    settings = IndexingSettings()
    scope = RootScope(os.fsencode(tmp_path), settings)
    began = time.thread_time()
    left_out = count_left_out(scope, settings)
    assert time.thread_time() - began < MAX_COUNT_S
    assert left_out.counts["gitignore"] == 20
    began = time.thread_time()
    reason = why_absent(scope, settings, b"7.py")
    assert reason == "it is left out by .gitignore:1: *.py"
    assert time.thread_time() - began < MAX_REASON_S


def test_a_line_that_is_not_used_decides_nothing() -> None:
    text = b"\n".join(b"*.%d" % number for number in range(MAX_WILDCARDS)) + b"\n*.py\nb.go\n"
    assert deciding_line(text, b"a.py", b"a.py") is None
    assert deciding_line(text, b"a.7", b"a.7") == (8, b"*.7")
    assert deciding_line(text, b"b.go", b"b.go") == (MAX_WILDCARDS + 2, b"b.go")


async def test_questions_that_give_up_do_not_pile_up_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    counts = list[RootScope]()

    def slow(scope: RootScope, settings: IndexingSettings) -> LeftOutFiles:
        counts.append(scope)
        assert goes_on.wait(60)
        return LeftOutFiles({"gitignore": len(counts)}, is_complete=True)

    # Patched, because no ignore file is slow enough to be given up.
    monkeypatch.setattr(exclusion_report, "count_left_out", slow)
    root = os.fsencode(tmp_path)
    live = WatchedRoot(root, MemoryIndex(root), IndexingSettings(), QUICK, tmp_path / "sync")
    await live._coordinator.open()
    for _ in range(5):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(live.exclusions.left_out_files(), 0.01)
    questions = [asyncio.ensure_future(live.exclusions.left_out_files()) for _ in range(5)]
    await asyncio.sleep(0)
    goes_on.set()
    expected = LeftOutFiles({"gitignore": 1}, is_complete=True)
    assert await asyncio.gather(*questions) == [expected] * 5
    assert await live.exclusions.left_out_files() == expected
    assert len(counts) == 1
    live._coordinator.invalidate_rules(b"")
    assert await live.exclusions.left_out_files() != expected
