"""Comments of texts, language by language."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Node

from cocosearchd.languages.language_table import LanguageInfo, languages
from cocosearchd.languages.patterns.comment_styles import CommentStyle
from cocosearchd.languages.patterns.comments import (
    comment_style,
    extract_comments,
    extract_local_comments,
    find_comment_spans,
)
from cocosearchd.languages.syntax import parse_tree

WITHOUT_COMMENTS = {"json", "markdown", "mdx", "rst", "text"}
# Text that a grammar needs before a comment.
PREFIXES = {"php": "<?php\n"}
# Comments that a grammar does not see: those of the scripts and styles in a page, and of ARM.
UNSEEN = {("vue", "//"), ("vue", "/*"), ("svelte", "//"), ("svelte", "/*"), ("asm", "@")}
# Parts of the names that grammars give to nodes of comments and docstrings.
COMMENT_NODES = ("comment", "marginalia", "pod", "string")


def samples(style: CommentStyle) -> Iterator[str]:
    """Write a comment with each mark of a style."""
    for mark in style.line_marks + style.leading_marks:
        yield f"{mark.strip()} some words"
    for enclosure in style.enclosures:
        yield f"{enclosure.opener} some\nwords {enclosure.closer}"


def node_types(node: Node) -> Iterator[str]:
    yield node.type.lower()
    for child in node.children:
        yield from node_types(child)


@pytest.mark.parametrize("info", languages(), ids=lambda info: info.name)
def test_the_comments_of_every_language_are_seen(info: LanguageInfo) -> None:
    assert (not list(samples(info.comments))) == (info.name in WITHOUT_COMMENTS)
    for sample in samples(info.comments):
        text = f"code\n{sample}\ncode\n"
        (span,) = find_comment_spans(text, info.name)
        assert text[slice(*span)].strip() == sample
        assert re.findall(r"\w+", extract_comments(text, info.name)) == ["some", "words"]


@pytest.mark.parametrize(
    "info", [info for info in languages() if info.grammar], ids=lambda info: info.name
)
def test_the_grammar_of_a_language_sees_the_same_comments(info: LanguageInfo) -> None:
    for sample in samples(info.comments):
        if (info.name, sample.split()[0]) not in UNSEEN:
            text = f"{PREFIXES.get(info.name, '')}{sample}\n"
            tree = parse_tree(info.grammar, text.encode())
            assert tree is not None
            types = set(node_types(tree.root_node))
            assert any(part in name for name in types for part in COMMENT_NODES), (sample, types)


@pytest.mark.parametrize(
    ("kind", "mark"),
    [("github-actions", "#"), ("docker-compose", "#"), ("kubernetes", "#"), ("helm-template", "#")],
)
def test_a_kind_has_the_comments_of_its_language(kind: str, mark: str) -> None:
    assert mark in comment_style(kind).line_marks


def test_an_unknown_language_has_no_comments() -> None:
    assert find_comment_spans("# a\n// b\n", "") == []


@pytest.mark.parametrize(
    ("language", "text", "comments"),
    [
        ("vim", 'let a = "b"\n  " c\n', ['  " c']),
        ("asm", "mov r0, #1 @ one\n; two\n# three\n", ["@ one", "; two", "# three"]),
        ("nim", "##[ a\nb ]## c # d\n#[ e ]#\n", ["##[ a\nb ]##", "# d", "#[ e ]#"]),
        ("julia", "#= a\n=# b # c\n", ["#= a\n=#", "# c"]),
        ("perl", "=head1 A\n\nb\n\n=cut\nmy $c; # d\n", ["=head1 A\n\nb\n\n=cut", "# d"]),
        ("zig", "/* a */ // b\n", ["// b"]),
        ("sql", "select 1 -- a\n/* b */", ["-- a", "/* b */"]),
    ],
)
def test_comments_in_code(language: str, text: str, comments: list[str]) -> None:
    assert [text[start:end] for start, end in find_comment_spans(text, language)] == comments


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


# Patterns as one would write them: the others say where a comment may begin behind its marker, which is
# quicker to search for.
OBVIOUS = {
    "go": r"/\*.*?\*/|(?:^|(?<=\s))//[^\n]*",
    "yaml": r"(?:^|(?<=\s))#[^\n]*",
    "python": r"\"\"\".*?\"\"\"|'''.*?'''|(?:^|(?<=\s))#[^\n]*",
    "lua": r"--\[\[.*?\]\]|(?:^|(?<=\s))--[^\n]*",
    "haskell": r"\{-.*?-\}|(?:^|(?<=\s))--[^\n]*",
    "vim": r"^[ \t]*\"[^\n]*",
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
