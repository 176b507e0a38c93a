"""Globs over paths and names: one meaning for people, for Python and for PostgreSQL."""

import re

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cocosearchd.errors import InvalidInput
from cocosearchd.store.globs import (
    name_regex,
    path_matcher,
    path_regex,
    symbol_matcher,
    symbol_regex,
)


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("*.py", ["a.py", "src/a.py", "src/sub/a.py"], ["a.pyc", "py", "a.py.txt"]),
        ("src/*.py", ["src/a.py"], ["src/sub/a.py", "lib/src/a.py", "a.py"]),
        ("src/**", ["src/a", "src/sub/a"], ["src", "src-x/a", "lib/src/a"]),
        ("src/", ["src/a", "lib/src/a"], ["src"]),
        ("src", ["src", "src/a", "lib/src", "lib/src/a"], ["src-x", "asrc"]),
        ("/src", ["src", "src/a"], ["lib/src", "lib/src/a"]),
        ("**/test_*.py", ["test_a.py", "x/test_a.py", "x/y/test_.py"], ["a_test.py", "xtest_a.py"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b", "a/b/c"], ["b", "a/xb", "x/a/b"]),
        ("a/**/*.c", ["a/x.c", "a/b/c/x.c"], ["x.c", "b/a/x.h"]),
        ("**", ["a", "a/b"], []),
        ("?.go", ["a.go", "x/b.go"], ["ab.go", ".go", "/.go"]),
        ("[ab]*.rs", ["a.rs", "x/bc.rs"], ["c.rs"]),
        ("[!a].rs", ["b.rs"], ["a.rs"]),
        ("[a-c].rs", ["b.rs"], ["d.rs", "-.rs"]),
        ("[+--].rs", ["+.rs", ",.rs", "-.rs"], ["..rs", "*.rs"]),
        ("[--0&&~~||].rs", ["-.rs", "..rs", "0.rs", "&.rs", "~.rs", "|.rs"], ["a.rs", "+.rs"]),
        ("[---a-].rs", ["-.rs", "a.rs"], ["b.rs"]),
        ("a+b(c).{x}$^|.py", ["a+b(c).{x}$^|.py"], ["aab(c).{x}$^|.py"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        (r"we\\ird", [r"we\\ird"], [r"we\ird", "weird"]),
        ("a_b c", ["a_b c"], ["axb c"]),
        ("ünï*", ["ünïcode"], ["uni"]),
        ("[", ["["], ["a"]),
    ],
)
def test_path_globs(
    glob: str, matching: list[str], others: list[str], embedded_server: str
) -> None:
    pattern = path_regex(glob)
    assert [path for path in matching + others if re.search(pattern, path)] == matching
    assert [path for path in matching + others if path_matcher([glob])(path)] == matching
    with psycopg.connect(embedded_server) as connection:
        query = 'select path from unnest(%s::text[]) as path where path collate "C" ~ %s'
        assert [
            row[0] for row in connection.execute(query, (matching + others, pattern))
        ] == matching


def test_name_globs() -> None:
    names = ["User", "UserService", "UserService.get_user", "getUser"]
    assert [name for name in names if re.search(name_regex("User*"), name)] == names[:3]
    assert [name for name in names if re.search(name_regex("*user"), name, re.IGNORECASE)] == [
        "User",
        *names[2:],
    ]
    assert [name for name in names if re.search(name_regex("User"), name)] == ["User"]
    assert re.search(name_regex("operator[]"), "operator[]")


def test_symbol_globs_are_of_the_whole_name_or_of_its_last_parts() -> None:
    names = [
        "get_user",
        "Users.get_one",
        "Users.get_all.inner",
        "pkg.Users.open",
        "std::get_it",
        "Users",
    ]
    for glob, found in {
        "get_*": ["get_user", "Users.get_one", "std::get_it"],
        "users.*": ["Users.get_one", "Users.get_all.inner", "pkg.Users.open"],
        "open": ["pkg.Users.open"],
        "user?": ["Users"],
        "*one": ["Users.get_one"],
        "sers": [],
    }.items():
        assert [
            name for name in names if re.search(symbol_regex(glob), name, re.IGNORECASE)
        ] == found, glob


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.text("ab*?/.[]!^\\-&é", max_size=8), min_size=8, max_size=8),
    st.lists(st.text("ab/.-é", max_size=8)),
)
def test_postgresql_reads_a_glob_as_python_does(
    embedded_server: str, globs: list[str], paths: list[str]
) -> None:
    with psycopg.connect(embedded_server, autocommit=True) as connection:
        for glob in globs:
            try:
                pattern = path_regex(glob)
            except InvalidInput:
                continue  # a descending range, which neither reads
            expected = [path for path in paths if re.search(pattern, path)]
            query = 'select path from unnest(%s::text[]) as path where path collate "C" ~ %s'
            assert [row[0] for row in connection.execute(query, (paths, pattern))] == expected, (
                pattern
            )


_PIECES = st.sampled_from(
    [
        "a",
        "b",
        "*",
        "*",
        "**",
        "**/",
        "/",
        "?",
        "[ab]",
        "[!a]",
        "[./a]",
        "[+-0]",
        "-",
        ".",
        "[",
        "]",
        "\\",
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(_PIECES, max_size=9).map("".join),
    st.lists(st.text("ab/.-+:é", max_size=9), min_size=9, max_size=9),
)
def test_matchers_match_what_the_regular_expressions_do(glob: str, texts: list[str]) -> None:
    try:
        pairs = (
            (path_regex(glob), 0, path_matcher([glob])),
            (symbol_regex(glob), re.IGNORECASE, symbol_matcher(glob)),
            (symbol_regex(glob), 0, symbol_matcher(glob, cased=True)),
        )
    except InvalidInput:
        return  # a descending range
    for regex, flags, matches in pairs:
        assert [text for text in texts if matches(text)] == [
            text for text in texts if re.search(regex, text, flags)
        ]


def test_a_matcher_of_several_globs_matches_what_one_of_them_does() -> None:
    matches = path_matcher(["*.py", "*a**/b", "docs/"])
    assert [
        path for path in ("a.py", "xa/y/b", "docs/x", "b", "docs", "new\nline.py") if matches(path)
    ] == [
        "a.py",
        "xa/y/b",
        "docs/x",
        "new\nline.py",
    ]


@pytest.mark.parametrize("part", ["*a", "**a", "**/a/", "**/*a*a/", "**/"])
def test_many_stars_end_soon(part: str) -> None:
    """Tried in every way, twenty stars would take longer than there is time."""
    for text in ("a" * 250, "a/" * 125, "a." * 125, "aaaaa/" * 40):
        assert not path_matcher([f"{part * 20}*b"])(text)
        assert not symbol_matcher(f"{part * 20}*b")(text)
