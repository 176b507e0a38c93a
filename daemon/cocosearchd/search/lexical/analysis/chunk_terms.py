"""Reads terms, definitions and comments that depend on the text of a chunk alone, with a cache.

Most edits change few chunks, so the cache saves most of the work. It also serves moved files,
copies and a switch back to an earlier branch. Some files have no chunk that shows by itself where
comments are: the cache has the comments of such files as well.

If terms, definitions or comments change, raise `segment_files.FORMAT`.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cocosearchd.languages.patterns.comments import extract_comments, extract_local_comments
from cocosearchd.languages.patterns.definition_rules import FUNCTION
from cocosearchd.languages.patterns.definitions import Definition, find_definitions
from cocosearchd.search.lexical.analysis.term_table import LINE_END, TEXT_START, Numbers, WordTable

# Some 70,000 chunks: 5,000 files of 5 kB before and after a checkout, which share most chunks.
LIMIT_BYTES = 48 << 20
# A full cache drops one of so many entries: each time another share. Dropping the oldest entries
# would be worse: a checkout reads all chunks in one order, so with a few chunks too many, each
# entry would be dropped just before it is needed again (measured).
_SHARES = 8
# Measured size of an entry with its key and objects, without the parts that grow with the text.
_ENTRY_BYTES = 220
_DEFINITION_BYTES = 150
_LAST = re.compile(r"\.|::")


class TermChunk(NamedTuple):
    """The text of a chunk to analyse. `new_text` lacks the overlap with the chunk before."""

    text: str
    new_text: str
    language: str
    names: tuple[str, ...]  # from the syntax tree


@dataclass(frozen=True, slots=True)
class ChunkWords:
    """The words, definitions and comments of a chunk. Word numbers are packed as 32-bit integers."""

    body: bytes  # begins with TEXT_START
    definitions: tuple[Definition, ...]
    comments: bytes | None  # None if comments depend on the rest of the file


class ChunkTermCache:
    """A reader of chunks with a cache, keyed by 64-bit hashes of the chunks. Thread-safe."""

    def __init__(self, table: WordTable, limit_bytes: int = LIMIT_BYTES) -> None:
        self.table = table
        self._limit = limit_bytes
        self._entries = dict[int, ChunkWords]()
        self._bytes = self._dropped_shares = 0
        self._lock = threading.Lock()

    @property
    def filled(self) -> bool:
        """True once a chunk is cached."""
        return bool(self._entries)

    def read(self, chunks: Sequence[TermChunk]) -> list[ChunkWords]:
        """Read the words, definitions and comments of chunks, in their order."""
        keys = list(map(hash, chunks))
        words_by_key = {key: words for key in keys if (words := self._entries.get(key)) is not None}
        missing = {
            key: chunk for key, chunk in zip(keys, chunks, strict=True) if key not in words_by_key
        }
        if missing:
            new_words = dict(zip(missing, self._read(list(missing.values())), strict=True))
            self._store(new_words)
            words_by_key |= new_words
        return [words_by_key[key] for key in keys]

    def comment_words(self, language: str, texts: Sequence[str]) -> Numbers:
        """Return the words in the comments of a file. `texts` are its chunks without overlaps."""
        key = hash((language, *texts))
        cached = self._entries.get(key)
        if cached is None:
            (packed,) = _pack_numbers(
                self.table.numbers([extract_comments("\n".join(texts), language)])
            )
            cached = ChunkWords(packed, (), None)
            self._store({key: cached})
        return unpack_numbers([cached.body])

    def _read(self, chunks: Sequence[TermChunk]) -> list[ChunkWords]:
        body = self.table.numbers([chunk.text for chunk in chunks])
        lines = self._keyword_lines(body)
        commented = [extract_local_comments(chunk.new_text, chunk.language) for chunk in chunks]
        words = iter(
            _pack_numbers(self.table.numbers([text for text in commented if text is not None]))
        )
        return [
            ChunkWords(
                packed,
                tuple(_collect_definitions(chunk, keyword_lines)),
                None if text is None else next(words),
            )
            for chunk, packed, keyword_lines, text in zip(
                chunks, _pack_numbers(body), lines, commented, strict=True
            )
        ]

    def _keyword_lines(self, body: Numbers) -> list[list[int]]:
        """Return for each text the numbers, from 0, of the lines with a keyword of definitions."""
        lines = list[list[int]]()
        line = 0
        for mark in body[body < self.table.marks].tolist():
            if mark == LINE_END:
                line += 1
            elif mark == TEXT_START:
                line = 0
                lines.append([])
            elif not lines[-1] or lines[-1][-1] != line:
                lines[-1].append(line)
        return lines

    def _store(self, new_words: dict[int, ChunkWords]) -> None:
        with self._lock:
            for key, words in new_words.items():
                if key not in self._entries:
                    self._entries[key] = words
                    self._bytes += _size(words)
            while self._bytes > self._limit:
                self._dropped_shares += 1
                share = self._dropped_shares % _SHARES
                for key in [key for key in self._entries if key % _SHARES == share]:
                    self._bytes -= _size(self._entries.pop(key))


def unpack_numbers(words: Sequence[bytes]) -> Numbers:
    """Unpack and concatenate packed word numbers."""
    return np.frombuffer(b"".join(words), np.int32).astype(np.int64)


def _pack_numbers(words: Numbers) -> list[bytes]:
    """Pack the word numbers of each text."""
    starts = np.flatnonzero(words == TEXT_START).tolist()
    raw = words.astype(np.int32).tobytes()
    size = np.dtype(np.int32).itemsize
    return [
        raw[start * size : end * size]
        for start, end in zip(starts, [*starts, len(words)][1:], strict=True)
    ]


def _collect_definitions(chunk: TermChunk, lines: list[int]) -> list[Definition]:
    """Collect definitions by regular expressions, then those that only the syntax tree has.

    Definitions from the syntax tree count as functions, at the offset of the name.
    """
    collected = find_definitions(
        chunk.new_text, chunk.language, lines if chunk.new_text is chunk.text else None
    )
    names = {item.name for item in collected}
    for name in chunk.names:
        last = _LAST.split(name)[-1]
        for candidate in dict.fromkeys((name, last)):
            if candidate not in names:
                names.add(candidate)
                collected.append(Definition(candidate, max(chunk.new_text.find(last), 0), FUNCTION))
    return collected


def _size(words: ChunkWords) -> int:
    return (
        _ENTRY_BYTES
        + len(words.body)
        + len(words.comments or b"")
        + _DEFINITION_BYTES * len(words.definitions)
    )
