"""Responses of a worker process that a parser's fault took over: read or refused, in little memory.

A frame's sum says that its worker has sent these bytes, not that it meant well.
"""

import marshal
import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline.file_manifest import (
    build_file_manifest,
    pack_manifest,
    unpack_manifest,
)
from cocosearchd.indexing.pipeline.parse_result import (
    CHECKSUM_BYTES,
    add_checksum,
    pack_parsed_file,
    parse_file,
    unpack_parsed_file,
)
from cocosearchd.indexing.pool.bulk_messages import (
    TaskResult,
    pack_task_results,
    unpack_task_results,
)
from cocosearchd.indexing.pool.parse_task import pack_response, unpack_response
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.model import NO_CODE
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.values import read_values
from cocosearchd.sandbox.worker_pool import UNDECODABLE
from cocosearchd.search.classic.word_splitter import unpack_words
from cocosearchd.search.lexical.analysis.analysis_messages import (
    analysis_from_bytes,
    analysis_to_bytes,
)
from cocosearchd.search.lexical.analysis.documents import ChunkText, FileText, analyse
from cocosearchd.search.lexical.analysis.terms import TermCache

CODE = b"class Parser:\n    def parse(self, text: str) -> int:\n        return len(text)\n"
MOST_BYTES = 1 << 20  # of memory for an answer of some kilobytes
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.lists(inner).map(tuple), max_leaves=30
)


@given(values)
def test_values_come_back(value: Any) -> None:
    assert read_values(marshal.dumps(value)) == value


@pytest.mark.parametrize("kind", [b"(", b"[", b"<", b">", b"s", b"u", b"a", b"t", b"l"])
@pytest.mark.parametrize(
    "count", [b"\x00\x01\x00\x00", b"\xff\xff\xff\x05", b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff"]
)
def test_a_length_that_is_not_there_takes_no_memory(kind: bytes, count: bytes) -> None:
    for claim in (
        kind + count,
        kind + count + b"N" * 200,
        b"[\x01\x00\x00\x00" + kind + count,
        (kind + count) * 500,
    ):
        assert within_memory(partial(refused, read_values), claim)


@pytest.mark.parametrize(
    "value", [{"a": 1}, {1}, frozenset({1}), 1j, compile("1", "", "eval"), ...]
)
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(InvalidFrame):
        read_values(marshal.dumps([value]))


def test_values_that_are_nested_without_end_are_refused() -> None:
    with pytest.raises(InvalidFrame):
        read_values(b"[\x01\x00\x00\x00" * 100_000 + b"N")


@given(st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(noise: bytes) -> None:
    for decode in decoders().values():
        within_memory(decode, noise)
        within_memory(decode, add_checksum(noise))


@given(st.data())
def test_changed_answers_are_read_or_refused(data: st.DataObject) -> None:
    name, answer = data.draw(st.sampled_from(sorted(ANSWERS.items())))
    summed_up = name in SUMMED
    body = bytearray(answer[CHECKSUM_BYTES:] if summed_up else answer)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position : position + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        if not body:
            break
    within_memory(decoders()[name], add_checksum(bytes(body)) if summed_up else bytes(body))


@given(values)
def test_values_of_another_shape_are_read_or_refused(value: Any) -> None:
    packed = marshal.dumps(value)
    for decode in decoders().values():
        within_memory(decode, packed)
        within_memory(decode, add_checksum(packed))


def test_answers_as_they_are_sent_are_read() -> None:
    assert all(decode(ANSWERS[name]) for name, decode in decoders().items())


def refused(decode: Callable[[bytes], object], body: bytes) -> bool:
    """Return whether a body is refused by an error that a pool takes for the end of a worker."""
    with suppress(*UNDECODABLE):
        decode(body)
        return False
    return True


def within_memory(work: Callable[[bytes], Any], body: bytes) -> Any:
    """The outcome of work on a body, which takes little memory."""
    tracemalloc.start()
    try:
        return work(body)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MOST_BYTES, f"{peak} bytes for {body[:100]!r}"


def decoders() -> Mapping[str, Callable[[bytes], bool]]:
    """All that read answers, by name: whether one was read. They raise what a lost worker does, and
    nothing else.
    """
    reading: dict[str, Callable[[bytes], object]] = {
        "analysis": partial(analysis_from_bytes, files=FILES),
        "parse": partial(unpack_response, count=1),
        "bulk_task": partial(unpack_task_results, count=1),
        "words": partial(unpack_words, count=1),
    }
    decoders_by_name: dict[str, Callable[[bytes], object]] = {
        "parsed_file": unpack_parsed_file,
        "manifest": unpack_manifest,
    }
    return {name: partial(_read, decode) for name, decode in reading.items()} | {
        name: partial(_whole, decode) for name, decode in decoders_by_name.items()
    }


def _read(decode: Callable[[bytes], object], body: bytes) -> bool:
    return not refused(decode, body)


def _whole(decode: Callable[[bytes], object], body: bytes) -> bool:
    return decode(body) is not None


def answers() -> dict[str, bytes]:
    """Return for each decoder an answer as a worker sends it."""
    parsed_file, lasting = parse_file(
        "a.py", "python", CODE, chunker_limits(IndexingSettings()), ()
    )
    packed_manifest = pack_manifest(
        build_file_manifest(
            parsed_file.chunks("a.py", "python", CODE), "python", parsed_file.report, NO_CODE, None
        )
    )
    packed = pack_parsed_file(parsed_file)
    return {
        "analysis": analysis_to_bytes(analyse(FILES, TermCache().chunk_cache())),
        "parse": pack_response([(packed, lasting)]),
        "bulk_task": pack_task_results([TaskResult(packed_manifest, 1, b"\0" * 512)]),
        "words": marshal.dumps(["class parser"]),
        "parsed_file": packed,
        "manifest": packed_manifest,
    }


FILES = [
    FileText(
        *("a.py", 1, "python"),
        (ChunkText(0, len(CODE), CODE.decode(), ("Parser", "parse"), "Parser"),),
        np.zeros((1, 4), np.float32),
    )
]
ANSWERS = answers()
SUMMED = frozenset({"parsed_file", "manifest"})
