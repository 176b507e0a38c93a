"""Packed hashes of names: split again as packed; foreign bytes are refused."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.languages import name_hashes

NAMES = st.lists(st.text(max_size=8), max_size=20)


def read(part: bytes) -> list[int]:
    return [number for (number,) in struct.iter_unpack("<I", part)]


@given(NAMES, NAMES)
def test_both_kinds_are_split_again_sorted_and_once(defined: list[str], used: list[str]) -> None:
    packed = name_hashes.pack(defined, map(str.encode, used))
    expected = [sorted(set(map(name_hashes.hash_name, names))) for names in (defined, used)]
    assert [read(part) for part in name_hashes.split(packed)] == expected


def test_a_file_without_names_has_empty_parts() -> None:
    assert name_hashes.split(name_hashes.pack((), ())) == (b"", b"")
    assert name_hashes.split(b"") == (b"", b"")


def test_a_surrogate_has_a_hash() -> None:
    assert name_hashes.pack(["\udce9"], ()) != name_hashes.pack(["e"], ())


def test_the_names_of_a_file_are_bounded() -> None:
    packed = name_hashes.pack(map(str, range(name_hashes.MAX_NAMES + 10)), ())
    assert len(packed) == name_hashes.HASH_BYTES * (1 + name_hashes.MAX_NAMES)


@pytest.mark.parametrize("packed", [b"\1\0\0\0", b"\0", b"\xff\xff\xff\xff" + b"\0" * 8])
def test_foreign_bytes_are_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="hashes of names"):
        name_hashes.split(packed)
