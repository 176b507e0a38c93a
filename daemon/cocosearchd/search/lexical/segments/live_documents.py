"""The living files of some parts, numbered through: where each is, and what its place says of
it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical import features
from cocosearchd.search.lexical.segments.path_names import PathNames
from cocosearchd.search.lexical.segments.segment import SegmentView

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
# Files whose cosines say how cosines lie in the index: their mean is off by 0.03 deviations, for
# all files alike.
SAMPLE = 1024
MASKS = 8  # filters on files, kept for the next question: one costs half a microsecond a file


class MaskCache:
    """Masks of living files by the filter that they are of; the least recently used goes first.
    Safe in threads.
    """

    def __init__(self, entries: int = MASKS) -> None:
        self._entries, self._masks = entries, OrderedDict[Hashable, Mask]()
        self._lock = threading.Lock()

    def mask(self, key: Hashable, make: Callable[[], Mask]) -> Mask:
        """The mask of a key, made if it is not there. Not to be written to."""
        with self._lock:
            mask = self._masks.pop(key, None)
        if mask is None:
            mask = make()
            mask.flags.writeable = False
        with self._lock:
            self._masks[key] = mask
            while len(self._masks) > self._entries:
                self._masks.popitem(last=False)
        return mask


@dataclass(frozen=True, eq=False)
class LiveDocuments:
    """The living files, parts in order, numbers running through: F files. Compared by identity."""

    paths: tuple[str, ...]  # (F,)
    languages: tuple[str, ...]  # (F,)
    segment_files: tuple[Ints, ...]  # by part: where in its segment each living file is, ascending
    ends: Ints  # by part: the number after its last living file
    sample: Ints  # at most about `SAMPLE` files, chosen by their paths
    path_signals: dict[str, Floats]  # test, prose, hub, depth, lsize: (F,)
    # goes with the files: nothing else holds them
    masks: MaskCache = field(default_factory=MaskCache, repr=False)

    def by_segment(self, files: Ints) -> list[Ints]:
        """Numbers of living files, ascending, as numbers in the segment of each part."""
        cuts = np.searchsorted(files, self.ends[:-1])
        some = np.split(files, cuts) if self.segment_files else []
        return [
            local[each - start]
            for local, start, each in zip(self.segment_files, self.starts, some, strict=True)
        ]

    @property
    def starts(self) -> list[int]:
        """By part: the number of its first living file."""
        return [0, *self.ends.tolist()][: len(self.ends)]


FileFilter = Callable[[LiveDocuments], Mask | None]  # (F,): which files may be shown; None: all


def collect_live_documents(
    parts: Sequence[SegmentView], names: Sequence[PathNames]
) -> LiveDocuments:
    """The living files of parts; `names`: of their segments."""
    files = [_live_mask(each) for each in parts]
    sizes = [np.log1p(each.segment.characters).astype(np.float32) for each in parts]
    draws = select_live(parts, [each.path_hashes for each in names])
    local = tuple(
        np.arange(each.segment.file_count)[mask] for each, mask in zip(parts, files, strict=True)
    )
    return LiveDocuments(
        paths=_live_texts([each.paths for each in names], files),
        languages=_live_texts([each.languages for each in names], files),
        segment_files=local,
        ends=np.cumsum([len(each) for each in local], dtype=np.int64),
        sample=np.flatnonzero(draws <= SAMPLE / max(len(draws), 1)),
        path_signals={
            "test": select_live(parts, [each.test for each in names]),
            "prose": select_live(parts, [each.prose for each in names]),
            "hub": select_live(parts, [each.hub for each in names]),
            "depth": features.relative_depths(select_live(parts, [each.depth for each in names])),
            "lsize": features.standardise(select_live(parts, sizes)),
        },
    )


def select_live(parts: Sequence[SegmentView], arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Values of the files of each part, as (F,) of the living ones."""
    return concatenate([array[_live_mask(part)] for part, array in zip(parts, arrays, strict=True)])


def files_with_chunks(parts: Sequence[SegmentView], chunks: Sequence[Mask]) -> Mask:
    """(F,): the living files that have some of the chunks, by part (C,)."""
    having = [
        np.logical_or.reduceat(mask, each.segment.chunk_starts)
        for each, mask in zip(parts, chunks, strict=True)
    ]
    found: Mask = select_live(parts, having)
    return found


def concatenate(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """One after the other."""
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays) if arrays else np.zeros(0, np.float32)


def _live_mask(part: SegmentView) -> slice | Mask:
    return slice(0, part.segment.file_count) if part.alive is None else part.alive


def _live_texts(texts: Sequence[tuple[str, ...]], masks: Sequence[slice | Mask]) -> tuple[str, ...]:
    found: list[str] = []
    for each, mask in zip(texts, masks, strict=True):
        found.extend(
            each
            if isinstance(mask, slice)
            else (text for text, ok in zip(each, mask, strict=True) if ok)
        )
    return tuple(found)
