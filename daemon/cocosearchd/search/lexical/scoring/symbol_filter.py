"""Selects the chunks of a segment that define symbols of given kinds and names. Pure."""

import re
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cocosearchd.filters.conditions import name_matcher
from cocosearchd.filters.globs import longest_literal
from cocosearchd.search.lexical.analysis.terms import term_hash
from cocosearchd.search.lexical.array_types import Mask
from cocosearchd.search.lexical.segments.live_documents import MaskCache
from cocosearchd.search.lexical.segments.segment import Segment

_ASCII = 0x80  # bytes below it


class SymbolMasks:
    """A cache of chunk masks by segment and symbol filter. Thread-safe.

    An entry lives as long as its segment. Matching a name costs one microsecond per symbol
    (`split_mask`: two), and later questions often have the same filter.
    """

    def __init__(self) -> None:
        self._masks = WeakKeyDictionary[Segment, MaskCache]()
        self._lock = threading.Lock()

    def mask(self, segment: Segment, kinds: tuple[str, ...], name: str | None) -> Mask:
        """Return the cached result of `match_symbols`, which is read-only."""
        return self._cached(segment, kinds, name, match_symbols)

    def split_mask(self, segment: Segment, kinds: tuple[str, ...], name: str | None) -> Mask:
        """Return the cached result of `split_matches`, which is read-only."""
        return self._cached(segment, kinds, name, split_matches)

    def _cached(
        self,
        segment: Segment,
        kinds: tuple[str, ...],
        name: str | None,
        match: Callable[[Segment, tuple[str, ...], str | None], Mask],
    ) -> Mask:
        with self._lock:
            masks = self._masks.setdefault(segment, MaskCache())
        return masks.mask((match, kinds, name), lambda: match(segment, kinds, name))


def match_symbols(segment: Segment, kinds: tuple[str, ...], name: str | None) -> Mask:
    """Mark the chunks that define a symbol with a matching kind and name, (C,).

    `name` is a glob. Without `kinds`, any kind matches. The SQL form is in `filters.conditions`.
    """
    return _chunks_with(segment, _matching_symbols(segment, kinds, name))


def split_matches(segment: Segment, kinds: tuple[str, ...], name: str | None) -> Mask:
    """Split the result of `match_symbols` in two, (2, C): names as written in the glob, and others.

    "As written" means that case and leading underscores count. A chunk may be in both rows.
    """
    matching = _matching_symbols(segment, kinds, name)
    written = matching.copy()
    if name:
        possible = np.flatnonzero(matching)
        written[possible] = _match_names(segment, possible, name_matcher(name, as_written=True))
    return np.stack([_chunks_with(segment, written), _chunks_with(segment, matching & ~written)])


def _chunks_with(segment: Segment, symbols: Mask) -> Mask:
    mask = np.zeros(segment.chunk_count, np.bool_)
    mask[segment.posting_symbols[np.repeat(symbols, np.diff(segment.symbol_slices))]] = True
    return mask


def _matching_symbols(segment: Segment, kinds: tuple[str, ...], name: str | None) -> Mask:
    """Mark the symbols that pass a filter, (S,)."""
    matching = np.ones(len(segment.symbol_terms), np.bool_)
    if kinds:
        matching = np.isin(
            segment.symbol_kinds, np.array([term_hash(kind) for kind in kinds], np.uint64)
        )
    if name:
        possible = np.flatnonzero(matching & _find_names_with(segment, longest_literal(name)))
        matching = np.zeros(len(matching), np.bool_)
        matching[possible] = _match_names(segment, possible, name_matcher(name))
    return matching


def _find_names_with(segment: Segment, text: str) -> Mask:
    """Mark the names that contain an ASCII text in any case, and all non-ASCII names, (S,)."""
    marked = np.zeros(len(segment.symbol_terms), np.bool_)
    if not text:
        return ~marked
    lowered = segment.symbol_names.tobytes().lower()
    offsets = [match.start() for match in re.finditer(re.escape(text.lower().encode()), lowered)]
    # A match across two names marks the first name; the matcher rejects it later.
    for positions in (np.array(offsets, np.int64), np.flatnonzero(segment.symbol_names >= _ASCII)):
        marked[np.searchsorted(segment.symbol_ends, positions, side="right")] = True
    return marked


def _match_names(
    segment: Segment, symbols: NDArray[np.int64], matches: Callable[[str, str], bool]
) -> Mask:
    """Mark the symbols with a matching name. A symbol without a name never matches."""
    raw = segment.symbol_names.tobytes()
    ends = segment.symbol_ends[symbols]
    starts = np.where(symbols > 0, segment.symbol_ends[symbols - 1], 0)
    names = (
        raw[start:end].decode("utf-8", "surrogatepass")
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    kind_hashes = segment.symbol_kinds[symbols].tolist()
    hash_cache = dict[str, int]()  # many names begin with the same class
    return np.fromiter(
        (
            bool(name) and matches(_kind_in(name, kind_hash, hash_cache), name)
            for name, kind_hash in zip(names, kind_hashes, strict=True)
        ),
        np.bool_,
        len(symbols),
    )


def _kind_in(name: str, kind_hash: int, hash_cache: dict[str, int]) -> str:
    """Return the first part of a qualified name if it is the symbol's kind, else "".

    A segment stores only the hash of the kind.
    """
    first, dot, _ = name.partition(".")
    if not dot:
        return ""
    first_hash = hash_cache.get(first)
    if first_hash is None:
        first_hash = hash_cache[first] = term_hash(first)
    return first if first_hash == kind_hash else ""
