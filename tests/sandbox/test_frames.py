"""A frame carries any bytes; anything else is refused."""

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.sandbox.frames import (
    HEADER_BYTES,
    LARGEST_FRAME_BYTES,
    InvalidFrame,
    encode_frame,
    read_frame,
)


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_bodies_come_back_in_order(bodies: list[bytes]) -> None:
    stream = io.BytesIO(b"".join(map(encode_frame, bodies)))
    assert [read_frame(stream) for _ in bodies] == bodies
    assert read_frame(stream) is None


@given(st.binary(max_size=300), st.data())
def test_a_changed_bit_is_found(body: bytes, data: st.DataObject) -> None:
    message = bytearray(encode_frame(body))
    message[data.draw(st.integers(0, len(message) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        received = read_frame(io.BytesIO(message))
    except InvalidFrame:
        return
    assert received is None, "only a longer length may look like a message that is cut off"


@given(st.binary(max_size=200))
def test_random_bytes_are_no_message(noise: bytes) -> None:
    with contextlib.suppress(InvalidFrame):
        assert read_frame(io.BytesIO(noise)) is None


def test_a_length_above_the_bound_reserves_no_memory() -> None:
    header = (LARGEST_FRAME_BYTES + 1).to_bytes(4) + bytes(HEADER_BYTES - 4)
    with pytest.raises(InvalidFrame):
        read_frame(io.BytesIO(header))
