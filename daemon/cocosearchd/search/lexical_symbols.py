"""Which chunks of a segment hold definitions of some kinds, or definitions whose names match a glob. Pure."""

import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical_segment import Segment
from cocosearchd.search.lexical_terms import term_hash
from cocosearchd.store.globs import symbol_regex

Mask = NDArray[np.bool_]
# Masks, a byte a chunk, of segments and filters: a name costs 0.3 microseconds a symbol, and the next question has the
# same. Few, as each keeps its segment although it may be merged away.
_KEPT = 16


@lru_cache(maxsize=_KEPT)
def symbols_in(segment: Segment, kinds: tuple[str, ...], name: str | None) -> Mask:
    """(C,): has a chunk a definition that is of one of the `kinds`, or of any without, and whose name matches the glob.

    As `store.filters` says it in SQL. Not to be written to: it is kept for the next question.
    """
    wanted = np.ones(len(segment.symbol_terms), np.bool_)
    if kinds:
        wanted = np.isin(segment.symbol_kinds, np.array([term_hash(kind) for kind in kinds], np.uint64))
    if name:
        some = np.flatnonzero(wanted)
        wanted[some] = _matching(segment, some, name)
    mask = np.zeros(segment.chunk_count, np.bool_)
    mask[segment.posting_symbols[np.repeat(wanted, np.diff(segment.symbol_slices))]] = True
    mask.flags.writeable = False
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
