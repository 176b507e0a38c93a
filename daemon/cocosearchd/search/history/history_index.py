"""An immutable index of a repository's history: words of messages, and the files of each commit. Pure.

Commits are numbered from the newest, from 0. Terms of messages are hashes, as in segments.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import Revision
from cocosearchd.search.lexical.array_types import Ints, join_ranges

Numbers = NDArray[np.int32]
# Different terms of one message: a text with more is data.
MAX_MESSAGE_TERMS = 400
# Bounds of the whole index, beside those of the reader: some 6 MB at most. Older commits are left
# out first.
MAX_TERM_ROWS = 400_000
MAX_FILE_ROWS = 100_000
MAX_PATH_CHARACTERS = 2_000_000
_TEXT_BYTES = 50  # sys.getsizeof: a short text without its characters


class MessageTerms(NamedTuple):
    """The terms of the messages of n commits: parallel arrays, one row for a term of a commit."""

    terms: NDArray[np.uint64]  # (R,)
    commits: Numbers  # (R,): numbers of the commits, from 0


@dataclass(frozen=True, eq=False)
class HistoryIndex:
    """N commits with T different terms and P different paths.

    Two indexes with equal digests give equal evidence.
    """

    digest: str
    newest: str  # id of the newest commit that was read; "" for none
    ids: tuple[str, ...] = field(repr=False)  # (N,), newest first
    terms: NDArray[np.uint64] = field(repr=False)  # (T,), ascending
    term_starts: Numbers = field(repr=False)  # (T + 1,): rows of each term in `term_commits`
    term_commits: Numbers = field(repr=False)  # (R,): commits of each term, ascending
    message_lengths: Numbers = field(repr=False)  # (N,): different terms of each message
    paths: tuple[str, ...] = field(repr=False)  # (P,), ascending
    file_starts: Numbers = field(repr=False)  # (N + 1,): rows of each commit in `file_paths`
    file_paths: Numbers = field(repr=False)  # (F,): numbers of paths

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory."""
        arrays = (self.terms, self.term_starts, self.term_commits, self.message_lengths)
        arrays_of_files = (self.file_starts, self.file_paths)
        texts = sum(map(len, self.paths)) + sum(map(len, self.ids))
        texts += (_TEXT_BYTES + 8) * (len(self.paths) + len(self.ids))
        return texts + sum(array.nbytes for array in (*arrays, *arrays_of_files))

    def files_of(self, commits: Ints) -> tuple[Ints, Ints]:
        """Return the paths of some commits, (r,), and for each the position of its commit, (r,)."""
        starts = self.file_starts[commits].astype(np.int64)
        counts = self.file_starts[commits + 1] - starts
        rows = self.file_paths[join_ranges(starts, counts)].astype(np.int64)
        return rows, np.repeat(np.arange(len(commits)), counts)

    def commits_of(self, terms: NDArray[np.uint64]) -> tuple[Ints, Ints]:
        """Return the commits that have some terms, (r,), and for each the position of its term, (r,)."""
        if not len(self.terms):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = self.terms.searchsorted(terms).clip(max=len(self.terms) - 1)
        starts = self.term_starts[rows].astype(np.int64)
        counts = np.where(self.terms[rows] == terms, self.term_starts[rows + 1] - starts, 0)
        commits = self.term_commits[join_ranges(starts, counts)].astype(np.int64)
        return commits, np.repeat(np.arange(len(terms)), counts)


def build_history(
    ids: Sequence[str],
    revisions: Sequence[Revision],
    messages: MessageTerms,
    previous: HistoryIndex | None = None,
) -> HistoryIndex:
    """Build the index of the commits `ids`, newest first.

    `revisions` are commits that `previous` does not have, `messages` the terms of their messages, in
    their order. Commits of `previous` that are not among `ids` are dropped, and those of `ids` that
    neither has are left out.
    """
    earlier = _list_commits(previous)
    terms_of_new = _split_rows(messages, len(revisions))
    rows = earlier | {
        revision.id: _CommitRow(terms, revision.paths)
        for revision, terms in zip(revisions, terms_of_new, strict=True)
    }
    newest = next(iter(ids), "")
    return _assemble(newest, [(commit, rows[commit]) for commit in ids if commit in rows])


class _CommitRow(NamedTuple):
    terms: NDArray[np.uint64]
    paths: tuple[str, ...]


def _list_commits(history: HistoryIndex | None) -> dict[str, _CommitRow]:
    """Return the rows of each commit of an index."""
    if history is None:
        return {}
    counts = np.diff(history.term_starts)
    messages = MessageTerms(np.repeat(history.terms, counts), history.term_commits)
    terms = _split_rows(messages, len(history.ids))
    bounds = history.file_starts.tolist()
    paths = [
        tuple(map(history.paths.__getitem__, history.file_paths[start:end].tolist()))
        for start, end in pairwise(bounds)
    ]
    return dict(zip(history.ids, map(_CommitRow, terms, paths), strict=True))


def _split_rows(messages: MessageTerms, count: int) -> list[NDArray[np.uint64]]:
    """Return the terms of each of `count` commits, ascending, at most `MAX_MESSAGE_TERMS`."""
    order = np.lexsort((messages.terms, messages.commits))
    ends = np.cumsum(np.bincount(messages.commits, minlength=count))[:count]
    parts = np.split(messages.terms[order], ends[:-1]) if count else []
    return [part[:MAX_MESSAGE_TERMS] for part in parts]


def _assemble(newest: str, commits: Sequence[tuple[str, _CommitRow]]) -> HistoryIndex:
    commits = commits[: _count_fitting(commits)]
    paths = sorted(set(chain.from_iterable(row.paths for _, row in commits)))
    numbers = {path: number for number, path in enumerate(paths)}
    lengths = np.array([len(row.terms) for _, row in commits], np.int32)
    all_terms = np.concatenate([np.zeros(0, np.uint64), *(row.terms for _, row in commits)])
    owners = np.repeat(np.arange(len(commits), dtype=np.int32), lengths)
    order = np.argsort(all_terms, kind="stable")
    terms, starts = np.unique(all_terms[order], return_index=True)
    ids = tuple(commit for commit, _ in commits)
    return HistoryIndex(
        digest=hashlib.blake2b("\n".join(ids).encode(), digest_size=16).hexdigest(),
        newest=newest,
        ids=ids,
        terms=terms,
        term_starts=np.append(starts, len(all_terms)).astype(np.int32),
        term_commits=owners[order],
        message_lengths=lengths,
        paths=tuple(paths),
        file_starts=np.cumsum([0, *(len(row.paths) for _, row in commits)], dtype=np.int32),
        file_paths=np.array(
            [numbers[path] for _, row in commits for path in row.paths], dtype=np.int32
        ),
    )


def _count_fitting(commits: Sequence[tuple[str, _CommitRow]]) -> int:
    """Return the number of the newest commits that fit into the bounds of an index."""
    sizes = np.array(
        [(len(row.terms), len(row.paths), sum(map(len, row.paths))) for _, row in commits],
        np.int64,
    ).reshape(-1, 3)
    bounds = np.array([MAX_TERM_ROWS, MAX_FILE_ROWS, MAX_PATH_CHARACTERS])
    fits = (np.cumsum(sizes, axis=0) <= bounds).all(axis=1)
    return int(fits.sum())
