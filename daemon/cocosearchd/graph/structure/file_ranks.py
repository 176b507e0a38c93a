"""Computes PageRank of files, over the names that they define and use, and of definitions. Pure.

A file passes its rank to the names that it uses; rare names get more. A name passes its rank to the
files that define it. No edges between files are built, so a step is linear in the number of pairs
of name and file.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cocosearchd.graph.code_files import NameFiles, NameGraph

DAMPING = 0.85  # from the paper (Brin and Page, 1998)
TOLERANCE = 1e-6  # the iteration ends if the sum of all changes is smaller
MAX_STEPS = 50  # 0.85 ** 50 = 0.0003
# If more files define a name, such as `get`, it says little about the code that its users call.
MAX_DEFINING_FILES = 8
MAX_SAMPLE = 8  # sampled files that use a name

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RankedName:
    """A name in a file that defines it, with its share of the total rank."""

    path: str
    name: int  # hash, as in `NameFiles`
    rank: float
    users: tuple[str, ...]  # some of the files that use the name


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks of the files of a graph, in the order of its paths, and of names in files."""

    files: Floats  # (files,), sum 1
    names: Floats  # (definitions,), parallel to `NameLinks.defining_names`


class NameLinks:
    """The links of a name graph: the files that use and define linking names.

    A name links files if few files define it and another file uses it.
    """

    def __init__(self, graph: NameGraph) -> None:
        self.paths = graph.paths
        names, definition_rows, use_rows = _common_names(graph.definitions, graph.uses)
        self._definition_counts = np.diff(graph.definitions.starts)[definition_rows]
        self.defining_names, self.defining_files = _pairs(graph.definitions, definition_rows)
        using_names, using_files = _pairs(graph.uses, use_rows)
        outside = _mark_outside_uses(
            using_names, using_files, self.defining_names, self.defining_files, len(self.paths)
        )
        self.using_names, self.using_files = using_names[outside], using_files[outside]
        self.names = names  # hashes

    def rank(self, preferred: Collection[int] = ()) -> Ranks:
        """Rank files.

        `preferred` are positions of files for the random restart; empty for all files.
        """
        count = len(self.paths)
        if not count:
            return Ranks(np.zeros(0), np.zeros(len(self.defining_names)))
        restart = np.zeros(count)
        restart[list(preferred) or slice(None)] = 1.0
        restart /= restart.sum()
        ranks = restart
        for _ in range(MAX_STEPS):
            linked = self._step(ranks)
            # files without links give their rank to the random restart
            following = DAMPING * linked + (1 - DAMPING * linked.sum()) * restart
            change = float(np.abs(following - ranks).sum())
            ranks = following
            if change < TOLERANCE:
                break
        return Ranks(ranks, self._definition_ranks(ranks))

    def best_names(
        self, ranks: Ranks, count: int, selected_paths: Collection[str]
    ) -> Iterator[RankedName]:
        """Yield the definitions with the highest ranks in the selected files, best first."""
        selected = np.fromiter((path in selected_paths for path in self.paths), np.bool_)
        values = np.where(selected[self.defining_files], ranks.names, 0.0)
        for position in _largest(values, count):
            if values[position] <= 0:
                return
            yield RankedName(
                self.paths[self.defining_files[position]],
                int(self.names[self.defining_names[position]]),
                float(ranks.names[position]),
                tuple(self._sample_users(int(self.defining_names[position]))),
            )

    @cached_property
    def _shares(self) -> Floats:
        """For each use, its share of its file's rank: larger for a rarer name."""
        users = np.bincount(self.using_names, minlength=len(self.names))
        weights = np.log1p(len(self.paths) / np.maximum(users, 1))[self.using_names]
        totals = _sum_by(self.using_files, weights, len(self.paths))
        return np.asarray(weights / totals[self.using_files])

    def _definition_ranks(self, ranks: Floats) -> Floats:
        passed = ranks[self.using_files] * self._shares
        shares = _sum_by(self.using_names, passed, len(self.names)) / self._definition_counts
        return shares[self.defining_names]

    def _sample_users(self, name: int) -> Iterator[str]:
        """Yield an evenly spaced sample of the files that use a name."""
        first, last = np.searchsorted(self.using_names, [name, name + 1])
        for position in np.unique(np.linspace(first, last - 1, MAX_SAMPLE).astype(np.int64)):
            yield self.paths[self.using_files[position]]

    def _step(self, ranks: Floats) -> Floats:
        return _sum_by(self.defining_files, self._definition_ranks(ranks), len(self.paths))


def _sum_by(groups: Positions, values: Floats, count: int) -> Floats:
    """Sum the values of each group."""
    # without values, `bincount` returns integers
    return np.bincount(groups, weights=values, minlength=count).astype(np.float64)


def _common_names(
    definitions: NameFiles, uses: NameFiles
) -> tuple[NDArray[np.uint32], Positions, Positions]:
    """Return the names that few files define and at least one file uses, with their rows in both."""
    few = np.flatnonzero(np.diff(definitions.starts) <= MAX_DEFINING_FILES)
    names, defined, used = np.intersect1d(
        definitions.names[few], uses.names, assume_unique=True, return_indices=True
    )
    return names, few[defined], used


def _pairs(postings: NameFiles, rows: Positions) -> tuple[Positions, Positions]:
    """Return the pairs of name (as position in `rows`) and file, ordered by name and file."""
    starts = postings.starts[rows]
    counts = postings.starts[rows + 1] - starts
    names = np.repeat(np.arange(len(rows)), counts)
    ends = np.cumsum(counts)
    offsets = np.arange(len(names)) - np.repeat(ends - counts, counts)
    return names, postings.files[np.repeat(starts, counts) + offsets].astype(np.int64)


def _mark_outside_uses(
    using_names: Positions,
    using_files: Positions,
    defining_names: Positions,
    defining_files: Positions,
    file_count: int,
) -> NDArray[np.bool_]:
    """Mark the uses in files that do not define the name themselves."""
    uses = using_names * file_count + using_files
    definitions = defining_names * file_count + defining_files  # ascending
    if not len(definitions):
        return np.zeros(len(uses), np.bool_)
    places = np.minimum(np.searchsorted(definitions, uses), len(definitions) - 1)
    return np.asarray(definitions[places] != uses)


def _largest(values: Floats, count: int) -> Positions:
    """Return the positions of the largest values, largest first; ties are ordered by position."""
    if count < len(values):
        threshold = np.partition(values, len(values) - count)[len(values) - count]
        candidates = np.flatnonzero(values >= threshold)
    else:
        candidates = np.arange(len(values))
    order = np.argsort(-values[candidates], kind="stable")
    return candidates[order][:count]
