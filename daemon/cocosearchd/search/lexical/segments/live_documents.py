"""The live files of a snapshot, numbered across its views, with the signals of their paths."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, compress, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical import ranking_signals
from cocosearchd.search.lexical.array_types import Floats, Ints, Mask
from cocosearchd.search.lexical.segments.path_names import PathNames
from cocosearchd.search.lexical.segments.segment import SegmentView

# Sampled files: their cosines estimate the mean and the deviation of the index. The estimated mean
# is off by 0.03 deviations, equally for all files.
SAMPLE = 1024
MASKS = 8  # cached filters on files: computing a mask costs half a microsecond per file


class MaskCache:
    """A least-recently-used cache of masks by filter. Thread-safe."""

    def __init__(self, entries: int = MASKS) -> None:
        self._entries = entries
        self._masks = OrderedDict[Hashable, Mask]()
        self._lock = threading.Lock()

    def mask(self, key: Hashable, compute: Callable[[], Mask]) -> Mask:
        """Return the mask of a key; compute it on a miss. The mask is read-only."""
        with self._lock:
            mask = self._masks.pop(key, None)
        if mask is None:
            mask = compute()
            mask.flags.writeable = False
        with self._lock:
            self._masks[key] = mask
            while len(self._masks) > self._entries:
                self._masks.popitem(last=False)
        return mask


@dataclass(frozen=True, eq=False)
class LiveDocuments:
    """The F live files of a snapshot, numbered in the order of the views.

    Objects are compared by identity.
    """

    paths: tuple[str, ...]  # (F,)
    languages: tuple[str, ...]  # (F,)
    # by view: the numbers of its live files in its segment, ascending
    segment_files: tuple[Ints, ...]
    ends: Ints  # by view: the number after its last live file
    sample: Ints  # about `SAMPLE` files at most, chosen by the hashes of their paths
    file_signals: dict[str, Floats]  # test, aside, prose, reexporter, depth, log_size: (F,)
    # freed with the snapshot, because nothing else refers to the masks
    masks: MaskCache = field(default_factory=MaskCache, repr=False)

    @cached_property
    def path_set(self) -> frozenset[str]:
        """The paths as a set, made at the first lookup: some 10 ms for 100,000 paths."""
        return frozenset(self.paths)

    @cached_property
    def stem_set(self) -> frozenset[str]:
        """The file names without suffix as a set, made when a report first needs it."""
        return frozenset(map(ranking_signals.file_stem, self.paths))

    def by_segment(self, files: Ints) -> list[Ints]:
        """Convert ascending numbers of live files to numbers in the segment of each view."""
        bounds = [0, *files.searchsorted(self.ends).tolist()]
        return [
            segment_files.take(files[first:last] - start)
            for segment_files, start, (first, last) in zip(
                self.segment_files, self.starts, pairwise(bounds), strict=True
            )
        ]

    @cached_property
    def starts(self) -> list[int]:
        """By view: the number of its first live file."""
        return [0, *self.ends.tolist()][: len(self.ends)]


# Returns (F,): the files that may be shown; None for all
FileFilter = Callable[[LiveDocuments], Mask | None]


def collect_live_documents(
    views: Sequence[SegmentView], names: Sequence[PathNames]
) -> LiveDocuments:
    """Collect the live files of views. `names` are the path names of their segments."""
    hashes = select_live(views, [view.path_hashes for view in names])
    segment_files = tuple(np.arange(view.segment.file_count)[view.live_files] for view in views)
    return LiveDocuments(
        paths=_live_texts(views, [view.paths for view in names]),
        languages=_live_texts(views, [view.languages for view in names]),
        segment_files=segment_files,
        ends=np.cumsum([len(files) for files in segment_files], dtype=np.int64),
        sample=np.flatnonzero(hashes <= SAMPLE / max(len(hashes), 1)),
        file_signals=_file_signals(views, names),
    )


def _file_signals(views: Sequence[SegmentView], names: Sequence[PathNames]) -> dict[str, Floats]:
    signals = {
        name: select_live(views, [getattr(view, name) for view in names])
        for name in ("test", "aside", "prose", "reexporter", "depth")
    }
    sizes = [np.log1p(view.segment.characters).astype(np.float32) for view in views]
    signals["depth"] = ranking_signals.relative_depths(signals["depth"])
    signals["log_size"] = ranking_signals.standardise(select_live(views, sizes))
    return signals


def select_live(views: Sequence[SegmentView], arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Select the values of the live files: (F,). `arrays` have the values of all files, by view."""
    return join_arrays([array[view.live_files] for view, array in zip(views, arrays, strict=True)])


def files_with_chunks(views: Sequence[SegmentView], chunks: Sequence[Mask]) -> Mask:
    """Mark the live files with at least one marked chunk: (F,). `chunks` are masks by view, (C,)."""
    files = [
        np.logical_or.reduceat(mask, view.segment.chunk_starts)
        for view, mask in zip(views, chunks, strict=True)
    ]
    marked: Mask = select_live(views, files)
    return marked


def join_arrays(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays; without arrays, return an empty float32 array."""
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays) if arrays else np.zeros(0, np.float32)


def _live_texts(views: Sequence[SegmentView], texts: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(
        chain.from_iterable(
            texts_of_view if view.alive is None else compress(texts_of_view, view.alive)
            for view, texts_of_view in zip(views, texts, strict=True)
        )
    )
