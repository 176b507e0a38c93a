"""The splitting that the built-in model was trained on. A failing case means a new model, not a new
expectation.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.embedding.providers.word_tokens import fold_variants, pieces, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t__--", []),
        ("HTTPServer2", ["http", "server", "2"]),
        ("getHTTPServer2URL", ["get", "http", "server", "2", "url"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("SCREAMING_SNAKE", ["screaming", "snake"]),
        ("parseURLs userIDs IDs", ["parse", "urls", "user", "ids", "ids"]),
        ("utf8Decode x86_64", ["utf", "8", "decode", "x", "86", "64"]),
        ("a.b->c::d", ["a", "b", "c", "d"]),
        ("café naïve", ["cafe", "naive"]),
        ("größe", ["gro", "ß", "e"]),
        ("имяФайла", ["имяфаила"]),
        ("打开文件 open", ["打开文件", "open"]),
        ("ﬁle", ["file"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text())
def test_words_depend_on_the_plain_text_alone_and_are_lower_case(text: str) -> None:
    result = words(text)
    assert result == words(fold_variants(text))
    assert all(word == word.lower() and word for word in result)


@given(st.text(), st.text())
def test_other_characters_than_letters_and_digits_only_separate(start: str, right: str) -> None:
    assert words(f"{start} . {right}") == words(start) + words(right)


def test_pieces_are_the_marked_runs_in_order_and_the_same_for_ever() -> None:
    assert len(pieces("cat", 1000)) == 3 + 2 + 1  # <ca cat at> <cat cat> <cat>
    assert pieces("cat", 4096) == [3148, 936, 2396, 703, 1983, 2617]
    assert set(pieces("parser", 1 << 20)) & set(pieces("parsers", 1 << 20))
    assert pieces("x" * 5000, 4096) == pieces("x" * 40, 4096)


@given(st.text(min_size=1), st.integers(1, 1 << 20))
def test_pieces_stay_below_the_buckets(word: str, buckets: int) -> None:
    assert all(0 <= piece < buckets for piece in pieces(word, buckets))
