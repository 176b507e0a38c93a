"""Definitions and comments by regular expressions, language by language."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.search.lexical.analysis.text_definitions import (
    KEYWORDS,
    extract_comments,
    extract_local_comments,
    find_comment_spans,
    find_definitions,
)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("python", "class User(Base):\n    async def save(self):\n        pass\n", {"User": 3.0, "save": 2.0}),
        ("python", "class A:\n    class B:\n        def c(self): ...\n", {"A": 3.0, "B": 3.0, "c": 1.5}),
        ("go", "func (m *Mux) Handle(p string) {}\ntype Mux struct {\n}\n", {"Handle": 2.0, "Mux": 1.0}),
        ("rust", "pub(crate) const fn new() -> Self {}\npub struct Wheel<T> {}\n", {"new": 2.0, "Wheel": 3.0}),
        ("kotlin", "data class Point(val x: Int)\nfun <T> lift(t: T) = t\n", {"Point": 3.0, "lift": 2.0}),
        ("ruby", "module Rack\n  def self.build(app)\n", {"Rack": 3.0, "build": 2.0}),
        ("haskell", "module Data.Key where\nfromText :: Text -> Key\n", {"Data.Key": 3.0, "Key": 3.0, "fromText": 2.0}),
        ("zig", "const Server = struct {\n};\nconst max = 5;\n", {"Server": 3.0, "max": 1.0}),
        ("typescript", "export const run = async (x: number) => x\nconst n = 1\n", {"run": 2.0, "n": 1.0}),
        ("lua", "function M.setup(opts)\nend\n", {"M.setup": 2.0, "setup": 2.0}),
        ("lua", "M.reload = function()\nend\n", {"M.reload": 2.0, "reload": 2.0}),
        ("c", "static int zslInsert(zsl *l, double s) {\n  if (x) {\n  }\n}\nstruct node *p;\n", {"zslInsert": 2.0}),
        ("java", "public final class Cache {\n    public int size() {\n", {"Cache": 3.0, "size": 2.0}),
        ("bash", "nvm_echo() {\n", {"nvm_echo": 2.0}),
    ],
)  # fmt: skip
def test_definitions(language: str, text: str, expected: dict[str, float]) -> None:
    assert {item.name: item.value for item in find_definitions(text, language)} == expected


def test_minor_names_deep_inside_are_dropped() -> None:
    assert find_definitions("        let counter = 1;\n", "rust") == []


def test_offsets_are_of_the_names() -> None:
    text = "x = 1\ndef first(): ...\n"
    assert [text[item.offset :][:5] for item in find_definitions(text, "python")] == ["first"]


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("python", '"""Doc."""\nx = 1  # why\ny = "#no"\n', "Doc. why"),
        ("c", "/* Copyright 2020, all rights reserved */\nint a; // the count\n", "the count"),
        ("go", "// A router\n// of paths.\npackage x\n", "A router of paths."),
        ("haskell", "{- block -}\nx = 1 -- line\n", "block line"),
        ("lua", "--[[ many\nlines ]]\nlocal x -- one\n", "many lines one"),
        ("php", "# shell style\n// slash style\n", "shell style slash style"),
        ("markdown", "# not a comment\n", ""),
        ("javascript", 'fetch("http://example.org")\n', ""),
    ],
)
def test_comments(language: str, text: str, words: str) -> None:
    assert re.findall(r"\w+", extract_comments(text, language)) == re.findall(r"\w+", words)


def test_comments_are_bounded() -> None:
    assert len(extract_comments("# word word word\nx = 1\n" * 10_000, "python")) <= 20_000


# As one would write them: the others say where a comment may begin behind its marker, which is
# quicker to search for.
OBVIOUS = {
    "go": r"/\*.*?\*/|(?:^|(?<=\s))//[^\n]*",
    "yaml": r"(?:^|(?<=\s))#[^\n]*",
    "python": r"\"\"\".*?\"\"\"|'''.*?'''|(?:^|(?<=\s))#[^\n]*",
    "lua": r"--\[\[.*?\]\]|\{-.*?-\}|(?:^|(?<=\s))--[^\n]*",
    "ruby": r"^=begin.*?^=end|(?:^|(?<=\s))#[^\n]*",
    "php": r"/\*.*?\*/|(?:^|(?<=\s))(?://|\#)[^\n]*",
    "elixir": r"\"\"\".*?\"\"\"|(?:^|(?<=\s))#[^\n]*",
}
COMMENTED = st.lists(
    st.sampled_from(
        [
            "/*",
            "*/",
            "//",
            "#",
            '"""',
            "'''",
            "--",
            "[[",
            "--[[",
            "]]",
            "{-",
            "-}",
            "=begin",
            "=end",
            "\n",
            " ",
            "x",
            "\t",
        ]
    )
).map("".join)


@settings(max_examples=300, deadline=None)
@given(COMMENTED, st.sampled_from(sorted(OBVIOUS)))
def test_comments_are_where_obvious_expressions_find_them(text: str, language: str) -> None:
    obvious = re.compile(OBVIOUS[language], re.DOTALL | re.MULTILINE)
    assert find_comment_spans(text, language) == [match.span() for match in obvious.finditer(text)]


@settings(max_examples=300, deadline=None)
@given(st.lists(COMMENTED, max_size=4), st.sampled_from(sorted(OBVIOUS)))
def test_comments_of_parts_are_those_of_the_whole(parts: list[str], language: str) -> None:
    result = [extract_local_comments(part, language) for part in parts]
    if None not in result:
        assert re.findall(r"\S+", extract_comments("\n".join(parts), language)) == re.findall(
            r"\S+", "\n".join(map(str, result))
        )


@pytest.mark.parametrize(
    ("language", "part"),
    [
        ("python", '"""begun'),
        ("go", "x /* begun"),
        ("lua", "--[[ begun"),
        ("ruby", "x\n=begin\n"),
        ("python", "# Copyright 2020"),  # takes along what stands next to it
        ("ruby", "=begin\nwords\n=end"),  # markers that have letters
    ],
)
def test_comments_that_depend_on_the_rest_of_the_file(language: str, part: str) -> None:
    assert extract_local_comments(part, language) is None


OTHERS = (
    "#define", "macro_rules!", "pub", "static", "(", ")", "<", ">", "*", " ", "  ", "\t", "\n", "\r", "é", "name",
    "a.b", "X::y", "@dec(1) ", "[attr] ", "\u0301", "self.", ":", "{", ";", 'extern "C" ',
)  # fmt: skip
DEFINED = st.lists(st.sampled_from([*KEYWORDS, *OTHERS])).map("".join)
BETWEEN = re.compile(r"[^\w\x80-\U0010ffff]", re.ASCII)


@settings(max_examples=300, deadline=None)
@given(DEFINED, st.sampled_from(["python", "c", "zig", "typescript", "rust"]))
def test_only_lines_with_a_keyword_define(text: str, language: str) -> None:
    lines = [
        n
        for n, line in enumerate(text.split("\n"))
        if not set(KEYWORDS).isdisjoint(BETWEEN.split(line))
    ]
    assert find_definitions(text, language, lines) == find_definitions(text, language)
