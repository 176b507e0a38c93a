"""Packed texts of chunks are unpacked without loss."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.store.chunks.packed_texts import (
    ChunkTexts,
    pack_texts,
    phrase_bits,
    unpack_content,
    unpack_texts,
)

BLOOM_BYTES = 64
# PostgreSQL's texts have no NUL, and no surrogates.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200)
optional = st.none() | texts
CODE = """def find(self, name: str) -> User:
    \"\"\"Find a user by name.\"\"\"
    for user in self.users:
        if user.name == name:
            return user
    raise KeyError(name)
"""


@given(
    path=texts.filter(bool),
    values=st.builds(
        ChunkTexts,
        *(texts, texts, texts, optional, optional, optional, st.lists(texts, max_size=3), texts),
    ),
)
def test_texts_come_back(path: str, values: ChunkTexts) -> None:
    (packed,) = pack_texts(path, [values])
    assert unpack_texts(path, packed) == values
    assert unpack_content(path, packed) == values.content


def holds(packed: bytes, bit: int) -> bool:
    """Tell whether a bit is set, as get_bit of PostgreSQL counts them."""
    return bool(packed[bit // 8] >> bit % 8 & 1)


@given(prefix=texts, phrase=texts, suffix=texts)
def test_the_bits_of_a_phrase_are_set_where_a_text_has_it(
    prefix: str, phrase: str, suffix: str
) -> None:
    content = f"{prefix}{phrase}{suffix}"
    (packed,) = pack_texts("a.py", [texts_of("a.py", content)])
    if phrase.lower() in content.lower():
        assert all(holds(packed, bit) for bit in phrase_bits(phrase))


@given(contents=st.lists(texts, max_size=4))
def test_texts_that_are_packed_together_are_as_alone(contents: list[str]) -> None:
    """No bit of a text comes from trigrams that reach into the next one."""
    chunks = [texts_of("a.py", content) for content in contents]
    alone = [packed for texts in chunks for packed in pack_texts("a.py", [texts])]
    assert pack_texts("a.py", chunks) == alone


def test_most_texts_without_a_phrase_lack_a_bit() -> None:
    phrase = "dependency injection"
    contents = [f"{CODE}\n# number {n * n} of {n}" for n in range(400)]
    packed = pack_texts("a.py", [texts_of("a.py", content) for content in contents])
    passing = [row for row in packed if all(holds(row, bit) for bit in phrase_bits(phrase))]
    assert len(passing) < 8
    assert phrase_bits("ab") == []


def texts_of(path: str, content: str) -> ChunkTexts:
    return ChunkTexts(
        header=f"{path} Users find",
        block_type="method",
        hierarchy="Users > find",
        symbol_type="method",
        symbol_name="Users.find",
        symbol_signature="def find(self, name: str) -> User",
        definitions=["find"],
        content=content,
    )


@pytest.mark.parametrize("path", ["users.py", "deep/" * 900 + "users.py"])
def test_names_cost_little_beside_their_text(path: str) -> None:
    """The path is the dictionary, also where it is longer than the window."""
    (packed,) = pack_texts(path, [texts_of(path, CODE)])
    assert unpack_texts(path, packed) == texts_of(path, CODE)
    assert len(packed) < len(zlib.compress(CODE.encode(), 1)) + 120 + BLOOM_BYTES


def test_a_long_text_comes_back() -> None:
    texts = texts_of("a.py", "".join(f"{n} {n * n}\n" for n in range(20_000)))
    (packed,) = pack_texts("a.py", [texts])
    assert unpack_texts("a.py", packed) == texts


def test_an_older_row_is_plain() -> None:
    names = '["a.py find", "block", "", null, null, null, ["find"]]'
    packed = b"\0" + f"{names}\0{CODE}".encode()
    assert unpack_texts("a.py", packed) == ChunkTexts(
        header="a.py find",
        block_type="block",
        hierarchy="",
        symbol_type=None,
        symbol_name=None,
        symbol_signature=None,
        definitions=["find"],
        content=CODE,
    )


@pytest.mark.parametrize("packed", [b"", b"\x03abc"])
def test_an_unknown_layout_is_an_error(packed: bytes) -> None:
    with pytest.raises(ValueError, match="unknown layout"):
        unpack_texts("a.py", packed)


def test_damaged_texts_are_an_error() -> None:
    packed = bytearray(*pack_texts("a.py", [texts_of("a.py", CODE)]))
    packed[1 + BLOOM_BYTES] ^= 0xFF
    with pytest.raises((ValueError, zlib.error)):
        unpack_texts("a.py", bytes(packed))
    with pytest.raises(ValueError, match="end too early"):
        unpack_texts("a.py", pack_texts("a.py", [texts_of("a.py", CODE)])[0][:-9])
