"""Ignore patterns of any kind take linear time, and decide as git decides."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.watching.ignore.patterns import (
    MAX_WILDCARD_BYTES,
    MAX_WILDCARDS,
    MAX_WILDCARDS_BYTES,
    Patterns,
    deciding_line,
    parse,
)
from cocosearchd.watching.ignore.root_scope import RootScope
from tests.daemon import Daemon
from tests.hostile.neighbour import Neighbour
from tests.watching.support import git

# Characters that wildmatch treats specially, and a small alphabet of names, so that both meet.
PIECES = [
    "a",
    "b",
    "A",
    ".",
    "*",
    "*",
    "**",
    "/",
    "/",
    "?",
    "[ab]",
    "[!a]",
    "[a-c]",
    "[^/]",
    "[[:alpha:]]",
    "[]a]",
    "[a",
]
PIECES += [
    "\\",
    "\\/",
    "\\*",
    "\\a",
    "**/",
    "/**",
    "**\\/",
    "!",
    "#",
    " ",
    "]",
    "-",
    "é",
    "[[:",
    "[b-a]",
    "\\ ",
    "{a,b}",
]
PIECES += ["[A]", "[!A]", "[A-Z]", "[Z-a]", "[[:upper:]]", "[[:lower:]]", "[^[:upper:]]"]
PATTERN = st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join)
PART = st.text("aabAé.* -[]\\", min_size=1, max_size=5).filter(
    lambda part: part not in (".", "..") and part[-1] != " "
)
PATH = st.lists(PART, min_size=1, max_size=4).map("/".join)


def ignored(patterns: Patterns, path: bytes) -> bool:
    """Decide on a file like git: an ignored directory takes along everything below it."""
    parts = path.split(b"/")
    for depth in range(1, len(parts) + 1):
        end = b"/" if depth < len(parts) else b""
        if patterns.ignores(b"/".join(parts[:depth]) + end, parts[depth - 1] + end):
            return True
    return False


def ignored_by_git(root: Path, paths: list[bytes]) -> set[bytes]:
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=root,
        input=b"".join(path + b"\0" for path in paths),
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return set(filter(None, done.stdout.split(b"\0")))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("patterns")
    git(root, "init", "-q")
    return root


def compare(repository: Path, lines: list[str], paths: list[str], *, ignore_case: bool) -> None:
    text, names = "\n".join(lines).encode(), [path.encode() for path in paths]
    (repository / ".gitignore").write_bytes(text)
    git(repository, "config", "core.ignoreCase", str(ignore_case).lower())
    parsed = parse(text, ignore_case=ignore_case)
    assert {name for name in names if ignored(parsed, name)} == ignored_by_git(repository, names), (
        text
    )


GIVEN = given(
    st.lists(PATTERN, min_size=1, max_size=4),
    st.lists(PATH, min_size=12, max_size=12, unique=True),
    st.booleans(),
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@GIVEN
def test_patterns_decide_as_git_does(
    repository: Path, lines: list[str], paths: list[str], ignore_case: bool
) -> None:
    compare(repository, lines, paths, ignore_case=ignore_case)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@GIVEN
def test_many_patterns_decide_as_git_does(
    repository: Path, lines: list[str], paths: list[str], ignore_case: bool
) -> None:
    compare(repository, lines, paths, ignore_case=ignore_case)


@pytest.mark.parametrize(
    "line",
    ["*a*a*a*b", "**/a*a/**/b", "a**/b", "/**/a/**\\/b", "**/[!a]*/*b", "*?*?b", "a/**", "**"],
)
def test_patterns_with_many_wildcards_decide_as_git_does(repository: Path, line: str) -> None:
    paths = [
        "aaab",
        "aaaa",
        "a/a/b",
        "ab",
        "axx/b",
        "a/x/y/b",
        "b/b",
        "b/xb",
        "a",
        "aabab/aab",
        "a/aa/x/b",
        "x/a/q/b",
    ]
    compare(repository, [line], paths, ignore_case=False)


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(PATTERN, min_size=1, max_size=12),
    st.lists(PART, min_size=12, unique=True),
    st.booleans(),
)
def test_the_line_that_decides_is_the_one_that_git_names(
    repository: Path, lines: list[str], names: list[str], ignore_case: bool
) -> None:
    text = "\n".join(lines).encode()
    (repository / ".gitignore").write_bytes(text)
    git(repository, "config", "core.ignoreCase", str(ignore_case).lower())
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z", "-v"],
        cwd=repository,
        input=b"".join(name.encode() + b"\0" for name in names),
        capture_output=True,
        check=False,
    )
    fields = done.stdout.split(b"\0")
    by_git = {name: int(line) for line, name in zip(fields[1::4], fields[3::4], strict=False)}
    decided = {
        name: deciding_line(text, name, name, ignore_case=ignore_case)
        for name in (name.encode() for name in names)
    }
    assert {name: line[0] for name, line in decided.items() if line} == by_git


@pytest.mark.parametrize(
    "line",
    ["[A]", "[!A]", "[A-Z]", "[[:upper:]]", "[[:lower:]]", "[Aa]", "[[:A[b-a]", "A*[B]", "[^b]"],
)
def test_sets_decide_without_case_as_git_does(repository: Path, line: str) -> None:
    compare(
        repository,
        [line],
        ["a", "A", "b", "B", "ab", "AB", "Ab", "x/A", "-", "["],
        ignore_case=True,
    )


# Pattern and path of a size: each must take a time that grows with both, and no faster.
PUMPED: dict[str, Callable[[int], tuple[bytes, bytes]]] = {
    "stars": lambda n: (b"*a" * n + b"b", b"a" * (2 * n)),
    "stars and question marks": lambda n: (b"*a?" * n + b"b", b"a" * (3 * n)),
    "stars in a path": lambda n: (b"x/" + b"*a" * n + b"b", b"x/" + b"a" * (2 * n)),
    "stars in directories": lambda n: (b"*a*a/" * n + b"b", b"aaaa/" * n + b"a"),
    "directories": lambda n: (b"**/" * n + b"b", b"a/" * n + b"a"),
    "directories and names": lambda n: (b"**/a/" * n + b"b", b"a/" * (2 * n) + b"a"),
    "directories and stars": lambda n: (b"**/*a*a/" * n + b"b", b"aaaa/" * n + b"a"),
    "directories behind a letter": lambda n: (b"a**/" * n + b"b", b"a/" * (2 * n) + b"a"),
    "escaped slashes": lambda n: (b"**\\/*a" * n + b"b", b"a/" * (2 * n) + b"a"),
    "classes": lambda n: (b"*[a-c]" * n + b"[!a]", b"a" * (2 * n)),
    "open brackets": lambda n: (b"*[" * n, b"[" * (2 * n)),
    "classes that are not closed": lambda n: (b"[[:" * n + b"]", b"a" * n),
    "a run of letters": lambda n: (b"*" + b"a" * n + b"b", b"a" * (2 * n)),
    "backslashes": lambda n: (b"*\\a" * n + b"\\", b"a" * (2 * n)),
}


def cpu_s(line: bytes, path: bytes) -> float:
    """The least of some runs: of parsing, and of matching so often that the clock's step is no
    matter.
    """
    times = list[float]()
    for _ in range(5):
        began = time.thread_time()
        patterns = parse(line)
        for _ in range(20):
            assert not patterns.ignores(path, path.rpartition(b"/")[2])
        times.append(time.thread_time() - began)
    return min(times)


@pytest.mark.parametrize("shape", PUMPED)
@pytest.mark.parametrize("negated", [False, True], ids=["", "negated"])
def test_time_grows_no_faster_than_pattern_times_path(shape: str, negated: bool) -> None:
    """Twice the size is twice the pattern and twice the path: at most four times the time, and a
    margin.
    """

    def timed(size: int) -> float:
        line, path = PUMPED[shape](size)
        assert len(line) <= MAX_WILDCARD_BYTES
        return cpu_s(b"!" * negated + line, path)

    sizes = (30, 60, 120)
    assert timed(sizes[2]) < max(16 * 1.6 * timed(sizes[0]), 0.02), shape


@pytest.mark.parametrize(
    "line", [b"*" + b"a" * 126 + b"b\n", b"*a" * 60 + b"b\n", b"**/*a" * 100 + b"b\n"]
)
def test_a_file_full_of_the_worst_patterns_stalls_nothing(line: bytes) -> None:
    """The bounds hold the sum: one path against all of them ends soon."""
    count = min(MAX_WILDCARDS, MAX_WILDCARDS_BYTES // len(line))
    patterns = parse(line * count)
    assert not patterns.omitted
    assert parse(line * (2 * count)).omitted
    began = time.thread_time()
    assert not patterns.ignores(b"a/" * 100 + b"a" * 255, b"a" * 255)
    assert time.thread_time() - began < 1.0


def test_patterns_behind_the_bounds_are_left_out_and_it_is_said(tmp_path: Path) -> None:
    lines = [b"*.%d" % number for number in range(MAX_WILDCARDS)]
    (tmp_path / ".gitignore").write_bytes(b"\n".join([*lines, b"*.py", b"hidden.go"]))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".gitignore").write_bytes(b"*" * (MAX_WILDCARD_BYTES + 1) + b"\n")
    scope = RootScope(os.fsencode(tmp_path), IndexingSettings())
    assert scope.is_in_scope(b"a.py")
    assert not scope.is_in_scope(b"hidden.go"), "whole names are looked up, however many there are"
    assert scope.is_in_scope(b"sub/a.py")
    first, second = scope.warnings()
    assert first.startswith(f"{tmp_path}/.gitignore: 1 of its patterns")
    assert second.startswith(f"{tmp_path}/sub/.gitignore: 1 of its patterns")


def test_a_hundred_thousand_names_cost_nothing() -> None:
    patterns = parse(
        b"\n".join(b"name%d\n/path/%d/file" % (number, number) for number in range(100_000))
    )
    began = time.thread_time()
    for _ in range(1000):
        assert patterns.ignores(b"path/77777/file", b"file")
        assert not patterns.ignores(b"path/77777/other", b"other")
    assert time.thread_time() - began < 1.0


def test_an_ignore_file_does_not_freeze_the_daemon(
    shared: Daemon, hostile_root: Path, neighbour: Neighbour
) -> None:
    (hostile_root / ".gitignore").write_text(
        "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b\n" + "**/*a*a*a/" * 30 + "b\nhidden.py\n"
    )
    (hostile_root / ("a" * 120)).write_text("x\n")
    (hostile_root / ("a" * 120 + ".py")).write_text("def reachable():\n    return 1\n")
    (hostile_root / "hidden.py").write_text("x = 1\n")
    neighbour.watch(shared)
    shared.index(hostile_root)
    neighbour.assert_fresh(shared)
    files = {file["path"] for file in shared.call("list_files", index="hostile")["files"]}
    assert files == {"a" * 120 + ".py"}
