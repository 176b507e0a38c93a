"""Texts of chunks come back as they were packed."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.store.chunks.packed_texts import (
    ChunkTexts,
    pack_texts,
    unpack_content,
    unpack_texts,
)

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
    packed = pack_texts(path, values)
    assert unpack_texts(path, packed) == values
    assert unpack_content(path, packed) == values.content


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
    packed = pack_texts(path, texts_of(path, CODE))
    assert unpack_texts(path, packed) == texts_of(path, CODE)
    assert len(packed) < len(zlib.compress(CODE.encode(), 1)) + 120


def test_a_long_text_comes_back() -> None:
    texts = texts_of("a.py", "".join(f"{n} {n * n}\n" for n in range(20_000)))
    assert unpack_texts("a.py", pack_texts("a.py", texts)) == texts


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


@pytest.mark.parametrize("packed", [b"", b"\x02abc"])
def test_an_unknown_layout_is_an_error(packed: bytes) -> None:
    with pytest.raises(ValueError, match="unknown layout"):
        unpack_texts("a.py", packed)


def test_damaged_texts_are_an_error() -> None:
    packed = bytearray(pack_texts("a.py", texts_of("a.py", CODE)))
    packed[1] ^= 0xFF
    with pytest.raises((ValueError, zlib.error)):
        unpack_texts("a.py", bytes(packed))
    with pytest.raises(ValueError, match="end too early"):
        unpack_texts("a.py", pack_texts("a.py", texts_of("a.py", CODE))[:-9])
