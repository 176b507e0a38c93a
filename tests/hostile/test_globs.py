"""Globs of questions of any kind take linear time, in Python and in PostgreSQL."""

import contextlib
import time
from collections.abc import Callable

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.errors import InvalidInput
from cocosearchd.filters.globs import path_matcher, path_regex, symbol_matcher, symbol_regex
from cocosearchd.filters.inline_filters import parse_inline

# Glob and text of a size: the time may grow with both, and no faster.
PUMPED: dict[str, Callable[[int], tuple[str, str]]] = {
    "stars": lambda n: ("*a" * n + "b", "a" * (2 * n)),
    "stars and question marks": lambda n: ("*a?" * n + "b", "a" * (3 * n)),
    "wide stars": lambda n: ("**a" * n + "b", "a" * (2 * n)),
    "wide stars behind letters": lambda n: ("*a**/" * n + "*b", "a" * (2 * n)),
    "wide stars and stars": lambda n: ("**a*a" * n + "b", "a" * (3 * n)),
    "wide stars, directories": lambda n: ("a**" * n + "b", "a/" * (2 * n)),
    "sets that take bounds": lambda n: ("*[/a]" * n + "*b", "a" * (2 * n)),
    "sets that take dots": lambda n: ("*[.a]" * n + "*b", "a." * n),
    "negated sets": lambda n: ("*[!b]" * n + "b", "a" * (2 * n)),
    "directories": lambda n: ("**/" * n + "b", "a/" * n + "a"),
    "directories and names": lambda n: ("**/a/" * n + "b", "a/" * (2 * n) + "a"),
    "directories and stars": lambda n: ("**/*a*a/" * n + "b", "aaaa/" * n + "a"),
    "directories of stars": lambda n: ("*a/" * n + "b", "aa/" * n + "a"),
    "parts of names": lambda n: ("*a." * n + "b", "aa." * n + "a"),
    "open sets": lambda n: ("*[" * n, "[" * (2 * n)),
    "a run of letters": lambda n: ("*" + "a" * n + "b", "a" * (2 * n)),
}
KINDS: dict[str, Callable[[str, str], object]] = {
    "path": lambda glob, text: path_matcher([glob])(text),
    "symbol": lambda glob, text: symbol_matcher(glob)(text),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", PUMPED)
def test_time_grows_no_faster_than_glob_times_text(shape: str, kind: str) -> None:
    """Four times the size is four times the glob and four times the text: sixteen times the time,
    and a margin.
    """

    def timed(size: int) -> float:
        glob, text = PUMPED[shape](size)
        times = list[float]()
        for _ in range(5):
            began = time.thread_time()
            KINDS[kind](glob, text)
            times.append(time.thread_time() - began)
        return min(times)

    assert timed(160) < max(16 * 1.6 * timed(40), 0.03), shape


@pytest.mark.parametrize("shape", PUMPED)
def test_postgresql_reads_them_soon(shape: str, embedded_server: str) -> None:
    glob, text = PUMPED[shape](60)
    with psycopg.connect(embedded_server) as connection:
        connection.execute("set statement_timeout = '5s'")
        for regex, matches in (
            (path_regex(glob), path_matcher([glob])),
            (symbol_regex(glob), symbol_matcher(glob)),
        ):
            row = connection.execute('select %s collate "C" ~ %s', (text, regex)).fetchone()
            assert row == (bool(matches(text)),)


@pytest.mark.parametrize("part", ["*a", "**a", "**/a/", "**/*a*a/", "**/"])
def test_many_stars_end_soon(part: str) -> None:
    """Tried in every way, twenty stars would take longer than there is time."""
    for text in ("a" * 250, "a/" * 125, "a." * 125, "aaaaa/" * 40):
        assert not path_matcher([f"{part * 20}*b"])(text)
        assert not symbol_matcher(f"{part * 20}*b")(text)


_WORDS = [
    "path:",
    "-path:",
    "path:!",
    "lang:",
    "sym:",
    "name:",
    "index:",
    "topic:",
    '"',
    "'",
    ":",
    "!",
    "-",
    "*",
    "**/",
    "[",
]
_WORDS += [
    " ",
    "\t",
    "\n",
    "a",
    "b.py",
    "\\",
    "\0",
    "\ufeff",
    "\u202e",
    "é",
    "\ud800",
    "[z-a]",
    "{",
    "~",
    "$(x)",
    "%",
]
QUESTIONS = given(st.lists(st.sampled_from(_WORDS), max_size=14).map("".join))


def ask(text: str) -> None:
    """A question is parsed, and its globs are matched or refused with a sentence; nothing else
    comes of it.
    """
    with contextlib.suppress(InvalidInput):
        inline = parse_inline(text)
        values = inline.values
        path_matcher((*values.get("paths", ()), *values.get("not_paths", ())))("a/b.py")
        for name in values.get("symbol_name", ()):
            symbol_matcher(name)("Users.get_one")


@settings(max_examples=200, deadline=None, derandomize=True)
@QUESTIONS
def test_any_filters_in_a_question(text: str) -> None:
    ask(text)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=20_000, deadline=None)
@QUESTIONS
def test_many_filters_in_a_question(text: str) -> None:
    ask(text)
