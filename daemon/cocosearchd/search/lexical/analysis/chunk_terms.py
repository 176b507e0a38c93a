"""What of a chunk depends on its text alone: words, definitions, comments. Kept, as edits leave
most chunks alone.

So are the comments of files in which no chunk by itself tells what is one.
A branch that is switched back to, a moved file and a copy are counted without being read again.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cocosearchd.search.lexical.analysis.term_table import LINE_END, TEXT_START, Numbers, WordTable
from cocosearchd.search.lexical.analysis.text_definitions import (
    FUNCTION,
    Definition,
    extract_comments,
    extract_local_comments,
    find_definitions,
)

# Some 70,000 chunks: what 5,000 files of 5 kB have on both sides of a checkout, of which they share
# most.
LIMIT_BYTES = 48 << 20
# Without room one of so many entries goes, others each time. A checkout comes by all chunks in one
# order: if the oldest went first, and there were a few too many, each would be gone just before it
# is met again (measured).
_SHARES = 8
# of an entry with its place and objects, without what grows with the text; measured
_ENTRY_BYTES = 220
_DEFINITION_BYTES = 150
_LAST = re.compile(r"\.|::")


class TermChunk(NamedTuple):
    """A chunk, as far as it matters here. `own` is its text without what the chunk before has as
    well.
    """

    text: str
    own: str
    language: str
    names: tuple[str, ...]  # that the syntax tree found


@dataclass(frozen=True, slots=True)
class ChunkWords:
    """Numbers of words are packed, 32 bits each."""

    body: bytes  # begins with TEXT_START
    definitions: tuple[Definition, ...]
    comments: bytes | None  # None: they depend on the rest of the file


class ChunkTermCache:
    """Reads chunks, and keeps what it read last. A chunk is known by 64 bits of its hash. Safe in
    threads.
    """

    def __init__(self, table: WordTable, limit_bytes: int = LIMIT_BYTES) -> None:
        self.table = table
        self._limit = limit_bytes
        self._kept = dict[int, ChunkWords]()
        self._bytes = self._shares_gone = 0
        self._lock = threading.Lock()

    @property
    def filled(self) -> bool:
        """Whether it has read anything."""
        return bool(self._kept)

    def read(self, chunks: Sequence[TermChunk]) -> list[ChunkWords]:
        """What is to be known of chunks, in their order."""
        keys = list(map(hash, chunks))
        found = {key: words for key in keys if (words := self._kept.get(key)) is not None}
        missing = {key: chunk for key, chunk in zip(keys, chunks, strict=True) if key not in found}
        if missing:
            fresh = dict(zip(missing, self._read(list(missing.values())), strict=True))
            self._keep(fresh)
            found |= fresh
        return [found[key] for key in keys]

    def commented(self, language: str, texts: Sequence[str]) -> Numbers:
        """The words of the comments of a file, of which these are the chunks without what they have
        in common.
        """
        key = hash((language, *texts))
        known = self._kept.get(key)
        if known is None:
            (packed,) = _pack_numbers(
                self.table.numbers([extract_comments("\n".join(texts), language)])
            )
            known = ChunkWords(packed, (), None)
            self._keep({key: known})
        return unpack_numbers([known.body])

    def _read(self, chunks: Sequence[TermChunk]) -> list[ChunkWords]:
        body = self.table.numbers([chunk.text for chunk in chunks])
        lines = self._keyword_lines(body)
        commented = [extract_local_comments(chunk.own, chunk.language) for chunk in chunks]
        words = iter(
            _pack_numbers(self.table.numbers([text for text in commented if text is not None]))
        )
        return [
            ChunkWords(
                packed,
                tuple(_collect_definitions(chunk, each)),
                None if text is None else next(words),
            )
            for chunk, packed, each, text in zip(
                chunks, _pack_numbers(body), lines, commented, strict=True
            )
        ]

    def _keyword_lines(self, body: Numbers) -> list[list[int]]:
        """Per text: its lines that have a keyword of definitions, from 0."""
        found, line = list[list[int]](), 0
        for mark in body[body < self.table.marks].tolist():
            if mark == LINE_END:
                line += 1
            elif mark == TEXT_START:
                line = 0
                found.append([])
            elif not found[-1] or found[-1][-1] != line:
                found[-1].append(line)
        return found

    def _keep(self, fresh: dict[int, ChunkWords]) -> None:
        with self._lock:
            for key, words in fresh.items():
                if key not in self._kept:
                    self._kept[key] = words
                    self._bytes += _size(words)
            while self._bytes > self._limit:
                self._shares_gone += 1
                share = self._shares_gone % _SHARES
                for key in [key for key in self._kept if key % _SHARES == share]:
                    self._bytes -= _size(self._kept.pop(key))


def unpack_numbers(words: Sequence[bytes]) -> Numbers:
    """All numbers of several, one after the other."""
    return np.frombuffer(b"".join(words), np.int32).astype(np.int64)


def _pack_numbers(words: Numbers) -> list[bytes]:
    """By text."""
    starts = np.flatnonzero(words == TEXT_START).tolist()
    raw, size = words.astype(np.int32).tobytes(), np.dtype(np.int32).itemsize
    return [
        raw[start * size : end * size]
        for start, end in zip(starts, [*starts, len(words)][1:], strict=True)
    ]


def _collect_definitions(chunk: TermChunk, lines: list[int]) -> list[Definition]:
    """Those the expressions find, then those only the syntax tree knows, as functions at the place
    of the name.
    """
    found = find_definitions(chunk.own, chunk.language, lines if chunk.own is chunk.text else None)
    known = {item.name for item in found}
    for name in chunk.names:
        last = _LAST.split(name)[-1]
        for each in dict.fromkeys((name, last)):
            if each not in known:
                known.add(each)
                found.append(Definition(each, max(chunk.own.find(last), 0), FUNCTION))
    return found


def _size(words: ChunkWords) -> int:
    return (
        _ENTRY_BYTES
        + len(words.body)
        + len(words.comments or b"")
        + _DEFINITION_BYTES * len(words.definitions)
    )
