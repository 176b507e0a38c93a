"""Literals that every match contains: a necessary condition, for any expression."""

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.search.grep.bloom_cache import (
    MAX_TRIGRAMS,
    BloomTable,
    FileBloom,
    _make_table,
)
from cocosearchd.search.grep.required_literals import (
    MAX_ALTERNATIVES,
    NOTHING,
    required_literals,
)
from cocosearchd.search.grep.trigram_bloom import make_bloom


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("should_retry", [{"should_retry"}]),
        ("class \\w+Error", [{"class ", "Error"}]),
        ("foo|bar", [{"foo"}, {"bar"}]),
        ("(foo|bar)_baz", [{"foo", "_baz"}, {"bar", "_baz"}]),
        ("(?:foo)?bar", [{"bar"}]),
        ("fooo*bar+", [{"foo", "bar"}]),
        ("foo{2}bar", [{"foo", "bar"}]),
        ("x{foo}", [{"x{foo}"}]),
        (r"\bfoo\(bar\)", [{"foo(bar)"}]),
        (r"foo\tbar", [{"foo\tbar"}]),
        (r"foo\x41bar\pLbaz\p{Greek}qux", [{"foo", "bar", "baz", "qux"}]),
        ("[]abc]foo[^]x]bar[[:alpha:]]baz", [{"foo", "bar", "baz"}]),
        ("(?i)Straße", [{"Stra"}]),
        ("(?P<name>foo)(?<other>bar)", [{"foo", "bar"}]),
    ],
)
def test_literals_of_an_expression(expression: str, expected: list[set[str]]) -> None:
    assert required_literals(expression, ignore_case=False) == tuple(map(frozenset, expected))


@pytest.mark.parametrize(
    "expression",
    ["", "ab", ".*", "foo|a", "foo|", "(foo)*", "(foo|)bar?", r"\Qfoo\E", "foo(", "foo)", "a[b"],
)
def test_no_literal_is_required(expression: str) -> None:
    assert required_literals(expression, ignore_case=False) == NOTHING


def test_many_alternatives_are_bounded() -> None:
    assert required_literals("(abc|def)" * 12, ignore_case=False) != NOTHING
    assert len(required_literals("(abc|def)" * 12, ignore_case=False)) <= MAX_ALTERNATIVES
    assert required_literals("|".join(f"word{n}" for n in range(100)), ignore_case=False) == NOTHING


def test_a_deep_or_long_expression_takes_one_pass() -> None:
    assert required_literals("(" * 5000 + "foo" + ")" * 5000, ignore_case=False) == (
        frozenset(["foo"]),
    )
    required_literals("[[:" * 3000, ignore_case=False)


LETTERS = st.sampled_from([*"abcABCkKsS_ é", "\u212a", "ſ"])
PARTS = st.sampled_from(
    [
        *("abc", "cab", "k", "S", "é", "_", ".", "|", "(", ")", "(?:", "(?i)", "(?i:", "(?P<n>"),
        *("*", "+", "?", "{2}", "{0,1}", "{", "{1,}?", "*?", "^", "$", r"\b", r"\B", r"\w", r"\."),
        *("[ab]", "[^a]", "[]a]", "[[:alpha:]k]", r"[\]]", r"\x61", r"\141", r"\pL", r"\p{Lu}"),
    ]
)


def contains_all(text: str, expression: str, *, ignore_case: bool) -> bool:
    """Return whether a file with this text is read, by its Bloom filter."""
    table: BloomTable = _make_table({"f": FileBloom("f", 1, make_bloom(text.encode()))}, ["f"], [1])
    literals = required_literals(expression, ignore_case=ignore_case)
    return literals == NOTHING or bool(table.possible_files(literals)[0])


@settings(max_examples=1500, deadline=None)
@given(st.lists(PARTS, max_size=9), st.lists(LETTERS, max_size=30), st.booleans())
def test_a_text_that_matches_is_never_passed_over(
    parts: list[str], letters: list[str], ignore_case: bool
) -> None:
    expression = "".join(parts)
    text = "".join(letters)
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        matches = re2.compile(f"(?m){expression}", options).search(text) is not None
    except re2.error:
        return
    if matches:
        assert contains_all(text, expression, ignore_case=ignore_case)


@settings(max_examples=300, deadline=None)
@given(st.text(min_size=3), st.text(max_size=300), st.text(max_size=300))
def test_a_text_around_a_literal_can_contain_it(literal: str, head: str, tail: str) -> None:
    bloom = make_bloom(f"{head}{literal}{tail}".encode("utf-8", "surrogatepass"))
    table = _make_table({"f": FileBloom("f", 1, bloom)}, ["f"], [1])
    assert table.possible_files((frozenset([literal]),))[0]


@pytest.mark.parametrize("letter", ["ſ", "\u212a"])
@pytest.mark.parametrize("position", range(MAX_TRIGRAMS - 4, MAX_TRIGRAMS + 5))
def test_a_literal_that_is_compared_in_part_is_not_cut_within_a_letter(
    letter: str, position: int
) -> None:
    literal = "".join(chr(ord("a") + number % 26) for number in range(position)) + letter
    assert contains_all(literal, literal, ignore_case=False)


def test_a_bloom_filter_rules_out_most_other_files() -> None:
    words = [f"name_{number * 7919}" for number in range(2000)]
    blooms = {
        word: FileBloom(word, 1, make_bloom(f"def {word}():\n    pass\n".encode()))
        for word in words
    }
    table = _make_table(blooms, words, [1] * len(words))
    possible = table.possible_files((frozenset(["name_7919000"]),))
    assert possible[words.index("name_7919000")]
    assert possible.sum() < 100
    outdated = _make_table(blooms, words, [2] * len(words))
    assert outdated.possible_files((frozenset(["name_7919000"]),)).all()
