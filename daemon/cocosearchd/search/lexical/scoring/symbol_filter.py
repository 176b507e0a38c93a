"""Which chunks of a segment hold definitions of some kinds, or definitions whose names match a
glob. Pure.
"""

import re
import threading
from collections import OrderedDict
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.analysis.terms import term_hash
from cocosearchd.search.lexical.segments.segment import Segment
from cocosearchd.store.globs import Matcher, longest_literal, symbol_matcher

Mask = NDArray[np.bool_]
_Filter = tuple[tuple[str, ...], str | None, bool]  # kinds, name, whether its case counts
# Filters by segment, a byte a chunk: a name costs 0.7 to 1 microsecond a symbol, and the next
# question has the same.
_MAX_FILTERS = 8
_ASCII = 0x80  # bytes below it


class SymbolMasks:
    """Remembers which chunks passed, for as long as their segment is there. Safe in threads."""

    def __init__(self) -> None:
        self._kept = WeakKeyDictionary[Segment, OrderedDict[_Filter, Mask]]()
        self._lock = threading.Lock()

    def mask(
        self, segment: Segment, kinds: tuple[str, ...], name: str | None, *, cased: bool = False
    ) -> Mask:
        """As `match_symbols`. Not to be written to."""
        asked = (kinds, name, cased)
        with self._lock:
            known = self._kept.setdefault(segment, OrderedDict()).pop(asked, None)
        mask = match_symbols(segment, kinds, name, cased=cased) if known is None else known
        mask.flags.writeable = False
        with self._lock:
            kept = self._kept.setdefault(segment, OrderedDict())
            kept[asked] = mask
            while len(kept) > _MAX_FILTERS:
                kept.popitem(last=False)
        return mask


def match_symbols(
    segment: Segment, kinds: tuple[str, ...], name: str | None, *, cased: bool = False
) -> Mask:
    """(C,): has a chunk a definition that is of one of the `kinds`, or of any without, and whose
    name matches the glob.

    As `store.filters` says it in SQL; `cased`: in the very case of the glob.
    """
    wanted = np.ones(len(segment.symbol_terms), np.bool_)
    if kinds:
        wanted = np.isin(
            segment.symbol_kinds, np.array([term_hash(kind) for kind in kinds], np.uint64)
        )
    if name:
        some = np.flatnonzero(wanted & _find_names_with(segment, longest_literal(name)))
        wanted = np.zeros(len(wanted), np.bool_)
        wanted[some] = _match_names(segment, some, symbol_matcher(name, cased=cased))
    mask = np.zeros(segment.chunk_count, np.bool_)
    mask[segment.posting_symbols[np.repeat(wanted, np.diff(segment.symbol_slices))]] = True
    return mask


def _find_names_with(segment: Segment, text: str) -> Mask:
    """(S,): the symbols whose names have a text of ASCII in them, in any case, and all that have
    more than ASCII.
    """
    found = np.zeros(len(segment.symbol_terms), np.bool_)
    if not text:
        return ~found
    lowered = segment.symbol_names.tobytes().lower()
    places = [each.start() for each in re.finditer(re.escape(text.lower().encode()), lowered)]
    # A place within two names is one of the first, which does not match then.
    for where in (np.array(places, np.int64), np.flatnonzero(segment.symbol_names >= _ASCII)):
        found[np.searchsorted(segment.symbol_ends, where, side="right")] = True
    return found


def _match_names(segment: Segment, symbols: NDArray[np.int64], matches: Matcher) -> Mask:
    """Which of some symbols have a name that matches; one without a name never does."""
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
