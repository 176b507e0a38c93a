"""Globs over paths and names: one meaning for people, for Python and for PostgreSQL."""

import re

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cocosearchd.errors import InvalidInput
from cocosearchd.filters.globs import (
    name_regex,
    path_matcher,
    path_regex,
    symbol_matcher,
    symbol_regex,
)


@pytest.mark.parametrize(
    ("glob", "matching", "different"),
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
    glob: str, matching: list[str], different: list[str], embedded_server: str
) -> None:
    pattern = path_regex(glob)
    assert [path for path in matching + different if re.search(pattern, path)] == matching
    assert [path for path in matching + different if path_matcher([glob])(path)] == matching
    with psycopg.connect(embedded_server) as connection:
        query = 'select path from unnest(%s::text[]) as path where path collate "C" ~ %s'
        assert [
            row[0] for row in connection.execute(query, (matching + different, pattern))
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
    for glob, matching in {
        "get_*": ["get_user", "Users.get_one", "std::get_it"],
        "users.*": ["Users.get_one", "Users.get_all.inner", "pkg.Users.open"],
        "open": ["pkg.Users.open"],
        "user?": ["Users"],
        "*one": ["Users.get_one"],
        "sers": [],
    }.items():
        assert [
            name for name in names if re.search(symbol_regex(glob), name, re.IGNORECASE)
        ] == matching, glob


# Pieces of globs, and characters that one of the engines could take for something else.
PIECES = [
    *("a", "b", "*", "*", "**", "**/", "a**/", "/", "?", "[", "]", "\\", "-", "."),
    *("[ab]", "[!a]", "[^/]", "[./a]", "[+-0]", "[]a]", "[a&&b]", "[[:alpha:]]", "!", "^", "&"),
    *("é", "{a,b}", "$", "|", "(", "+", "\\\\", "\\d", "#", " "),
]
GLOBS_AND_TEXTS = given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map("".join), min_size=6, max_size=6),
    st.lists(st.text("aab/.-+:é[]{}$^|(# \n", max_size=9), min_size=9, max_size=9),
)


def check_agreement(dsn: str, globs: list[str], texts: list[str]) -> None:
    """Match the texts against each glob: by matcher, by Python's engine and by PostgreSQL's."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for glob in globs:
            try:
                pairs = (
                    (path_regex(glob), 0, path_matcher([glob])),
                    (symbol_regex(glob), re.IGNORECASE, symbol_matcher(glob)),
                    (symbol_regex(glob), 0, symbol_matcher(glob, cased=True)),
                )
            except InvalidInput:
                continue  # a descending range, which no engine reads
            for regex, flags, matches in pairs:
                expected = [text for text in texts if matches(text)]
                assert search_postgresql(connection, regex, flags, texts) == expected, (glob, regex)
                # Python's `$` matches before a line feed at the end as well.
                lines = [text for text in texts if "\n" not in text]
                expected = [text for text in lines if matches(text)]
                assert search_python(regex, flags, lines) == expected, (glob, regex)


def search_python(regex: str, flags: int, texts: list[str]) -> list[str]:
    return [text for text in texts if re.search(regex, text, flags)]


def search_postgresql(
    connection: psycopg.Connection, regex: str, flags: int, texts: list[str]
) -> list[str]:
    operator = "~*" if flags & re.IGNORECASE else "~"
    query = f'select text from unnest(%s::text[]) as text where text collate "C" {operator} %s'
    return [text for (text,) in connection.execute(query, (texts, regex))]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@GLOBS_AND_TEXTS
def test_matchers_and_engines_agree(
    embedded_server: str, globs: list[str], texts: list[str]
) -> None:
    check_agreement(embedded_server, globs, texts)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@GLOBS_AND_TEXTS
def test_matchers_and_engines_agree_on_many(
    embedded_server: str, globs: list[str], texts: list[str]
) -> None:
    check_agreement(embedded_server, globs, texts)


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
