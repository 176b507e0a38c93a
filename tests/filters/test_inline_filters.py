"""Filters and phrases inside the text of a question."""

from time import process_time

import pytest

from cocosearchd.errors import InvalidInput
from cocosearchd.filters.inline_filters import InlineQuery, parse_inline, parse_outer


def inline(words: str, **values: tuple[str, ...]) -> InlineQuery:
    return InlineQuery(words, {name: list(listed) for name, listed in values.items()})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("retry logic", inline("retry logic")),
        ("  retry \t logic\n", inline("retry logic")),
        ("lang:go retry", inline("retry", languages=("go",))),
        ("retry language:go,rust", inline("retry", languages=("go", "rust"))),
        (
            "path:src/** -path:src/vendor a",
            inline("a", paths=("src/**",), not_paths=("src/vendor",)),
        ),
        ('path:"my dir/x" a', inline("a", paths=("my dir/x",))),
        ("sym:function,class", inline("", symbol_types=("function", "class"))),
        ("name:User*", inline("", symbol_name=("User*",))),
        ("index:a,b topic:t x", inline("x", indexes=("a", "b"), topics=("t",))),
        (
            '"connection refused" retry',
            inline("connection refused retry", phrases=("connection refused",)),
        ),
        ('a "b  c" d "e"', inline("a b c d e", phrases=("b  c", "e"))),
        ('" x\t:= 1 "', inline("x := 1", phrases=("x\t:= 1",))),  # as it stands in the file
        ('an "open quote', inline('an "open quote')),
        ("std::vector http://x a:b", inline("std::vector http://x a:b")),
        ("mypath:src lang: go", inline("mypath:src lang: go")),
        ('say"hello"now', inline('say"hello"now')),
    ],
)
def test_inline_filters_and_phrases(text: str, expected: InlineQuery) -> None:
    assert parse_inline(text) == expected


@pytest.mark.parametrize("text", ["-lang:go x", "-sym:function x", "-name:a x", "-index:a x"])
def test_only_paths_are_negated(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be negated"):
        parse_inline(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("retry  logic", inline("retry  logic")),
        (" lang:go  path:src retry", inline("retry", languages=("go",), paths=("src",))),
        (
            'retry lang:go -path:"my dir" ',
            inline("retry", languages=("go",), not_paths=("my dir",)),
        ),
        (
            "lang:go a path:src b name:x",
            inline("a path:src b", languages=("go",), symbol_name=("x",)),
        ),
        ("lang:go path:src", inline("", languages=("go",), paths=("src",))),
        ('"a phrase" is no filter', inline('"a phrase" is no filter')),
        ("-lang:go a -name:x", inline("-lang:go a -name:x")),
        ("", inline("")),
    ],
)
def test_filters_at_the_ends_of_a_text(text: str, expected: InlineQuery) -> None:
    assert parse_outer(text) == expected


@pytest.mark.parametrize("text", ["lang:go ", "a lang:go ", "lang:go a ", 'path:" a" '])
def test_filters_at_the_ends_take_time_in_proportion(text: str) -> None:
    def measure(count: int) -> float:
        start = process_time()
        parse_outer(text * count)
        return process_time() - start

    measure(1_000)
    assert min(measure(16_000) for _ in range(3)) < 60 * min(measure(1_000) for _ in range(5))
