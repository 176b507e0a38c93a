"""Pieces of many words together equal the pieces of each word alone."""

from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.embedding.providers.word_pieces import number_pieces
from cocosearchd.embedding.providers.word_tokens import pieces, words

BUCKETS = 20_011


def check(all_words: list[str]) -> None:
    numbers, sizes = number_pieces(all_words, BUCKETS)
    expected = [pieces(word, BUCKETS) for word in all_words]
    assert sizes.tolist() == [len(numbers_of_word) for numbers_of_word in expected]
    assert numbers.tolist() == [number for of_word in expected for number in of_word]


@given(st.lists(st.text().flatmap(lambda text: st.sampled_from(words(text) or ["a"]))))
def test_words_of_any_text(all_words: list[str]) -> None:
    check(all_words)


def test_many_words_of_all_widths() -> None:
    """Characters of one to four bytes, and words that are shorter and longer than their limit."""
    widths = ["a", "qué", "слово", "关闭套接字", "𐐷𐐷𐐷", "x" * 50, "я" * 41, ""]
    check([f"{word}{number}" if word else word for number in range(200) for word in widths])


def test_no_words_have_no_pieces() -> None:
    check([])
