"""Which chunks of a segment hold definitions of some kinds, or definitions whose names match a glob. Pure."""

import re
import threading
from collections import OrderedDict
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical_segment import Segment
from cocosearchd.search.lexical_terms import term_hash
from cocosearchd.store.globs import symbol_regex

Mask = NDArray[np.bool_]
_Filter = tuple[tuple[str, ...], str | None]  # kinds and name
# Filters by segment, a byte a chunk: a name costs 0.7 to 1 microsecond a symbol, and the next question has the same.
_KEPT = 8


class SymbolMasks:
    """Remembers which chunks passed, for as long as their segment is there. Safe in threads."""

    def __init__(self) -> None:
        self._kept = WeakKeyDictionary[Segment, OrderedDict[_Filter, Mask]]()
        self._lock = threading.Lock()

    def of(self, segment: Segment, kinds: tuple[str, ...], name: str | None) -> Mask:
        """As `symbols_in`. Not to be written to."""
        with self._lock:
            known = self._kept.setdefault(segment, OrderedDict()).pop((kinds, name), None)
        mask = symbols_in(segment, kinds, name) if known is None else known
        mask.flags.writeable = False
        with self._lock:
            kept = self._kept.setdefault(segment, OrderedDict())
            kept[(kinds, name)] = mask
            while len(kept) > _KEPT:
                kept.popitem(last=False)
        return mask


def symbols_in(segment: Segment, kinds: tuple[str, ...], name: str | None) -> Mask:
    """(C,): has a chunk a definition that is of one of the `kinds`, or of any without, and whose name matches the glob.

    As `store.filters` says it in SQL.
    """
    wanted = np.ones(len(segment.symbol_terms), np.bool_)
    if kinds:
        wanted = np.isin(segment.symbol_kinds, np.array([term_hash(kind) for kind in kinds], np.uint64))
    if name:
        some = np.flatnonzero(wanted)
        wanted[some] = _matching(segment, some, name)
    mask = np.zeros(segment.chunk_count, np.bool_)
    mask[segment.posting_symbols[np.repeat(wanted, np.diff(segment.symbol_slices))]] = True
    return mask


def _matching(segment: Segment, symbols: NDArray[np.int64], glob: str) -> Mask:
    """Which of some symbols have a name that matches; one without a name never does."""
    search, raw = re.compile(symbol_regex(glob), re.IGNORECASE).search, segment.symbol_names.tobytes()
    ends = segment.symbol_ends[symbols]
    starts = np.where(symbols > 0, segment.symbol_ends[symbols - 1], 0)
    names = (
        raw[start:end].decode("utf-8", "surrogatepass")
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    return np.fromiter((bool(name) and search(name) is not None for name in names), np.bool_, len(symbols))
