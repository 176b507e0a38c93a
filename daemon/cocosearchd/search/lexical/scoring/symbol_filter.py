"""Selection of the chunks of a segment that define symbols by kind and by name; pure"""

import re
import threading
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cocosearchd.filters.globs import Matcher, longest_literal, symbol_matcher
from cocosearchd.search.lexical.analysis.terms import term_hash
from cocosearchd.search.lexical.segments.live_documents import MaskCache
from cocosearchd.search.lexical.segments.segment import Segment

Mask = NDArray[np.bool_]
_ASCII = 0x80  # bytes below it


class SymbolMasks:
    """Cache of chunk masks by symbol filter, as long as their segment lives; safe in threads.

    A name costs 0.7 to 1 microsecond a symbol, and the next question has the same.
    """

    def __init__(self) -> None:
        self._masks = WeakKeyDictionary[Segment, MaskCache]()
        self._lock = threading.Lock()

    def mask(
        self, segment: Segment, kinds: tuple[str, ...], name: str | None, *, cased: bool = False
    ) -> Mask:
        """Return the result of `match_symbols` from the cache; it is read-only."""
        with self._lock:
            masks = self._masks.setdefault(segment, MaskCache())
        return masks.mask(
            (kinds, name, cased), lambda: match_symbols(segment, kinds, name, cased=cased)
        )


def match_symbols(
    segment: Segment, kinds: tuple[str, ...], name: str | None, *, cased: bool = False
) -> Mask:
    """Mark the chunks that define a symbol of one of the `kinds` whose name matches the glob, (C,).

    Without `kinds`, any kind matches. The SQL form is in `store.filters`. `cased`: the case of
    the glob counts.
    """
    matching = np.ones(len(segment.symbol_terms), np.bool_)
    if kinds:
        matching = np.isin(
            segment.symbol_kinds, np.array([term_hash(kind) for kind in kinds], np.uint64)
        )
    if name:
        possible = np.flatnonzero(matching & _find_names_with(segment, longest_literal(name)))
        matching = np.zeros(len(matching), np.bool_)
        matching[possible] = _match_names(segment, possible, symbol_matcher(name, cased=cased))
    mask = np.zeros(segment.chunk_count, np.bool_)
    mask[segment.posting_symbols[np.repeat(matching, np.diff(segment.symbol_slices))]] = True
    return mask


def _find_names_with(segment: Segment, text: str) -> Mask:
    """Mark the names that contain an ASCII text in any case, and all non-ASCII names, (S,)."""
    marked = np.zeros(len(segment.symbol_terms), np.bool_)
    if not text:
        return ~marked
    lowered = segment.symbol_names.tobytes().lower()
    offsets = [match.start() for match in re.finditer(re.escape(text.lower().encode()), lowered)]
    # A match across two names counts for the first, which the matcher then rejects.
    for positions in (np.array(offsets, np.int64), np.flatnonzero(segment.symbol_names >= _ASCII)):
        marked[np.searchsorted(segment.symbol_ends, positions, side="right")] = True
    return marked


def _match_names(segment: Segment, symbols: NDArray[np.int64], matches: Matcher) -> Mask:
    """Mark the symbols whose name matches; a symbol without a name never does."""
    raw = segment.symbol_names.tobytes()
    ends = segment.symbol_ends[symbols]
    starts = np.where(symbols > 0, segment.symbol_ends[symbols - 1], 0)
    names = (
        raw[start:end].decode("utf-8", "surrogatepass")
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    return np.fromiter(
        (bool(name) and bool(matches(name)) for name in names), np.bool_, len(symbols)
    )
