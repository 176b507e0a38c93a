"""Histories from short descriptions, for tests."""

import random
from collections.abc import Sequence
from itertools import chain

import numpy as np

from cocosearchd.model import Revision
from cocosearchd.search.history.history_index import HistoryIndex, MessageTerms, build_history
from cocosearchd.search.lexical.analysis.terms import TermCache, term_hash

WORDS = ("parse", "header", "socket", "cookie", "redirect", "timeout", "proxy", "encode")


def split_messages(revisions: Sequence[Revision]) -> MessageTerms:
    """Split messages into terms, as the worker process does."""
    cache = TermCache()
    rows = [
        [term_hash(term) for term in dict.fromkeys(cache.split_text(revision.message))]
        for revision in revisions
    ]
    owners = np.repeat(np.arange(len(rows), dtype=np.int32), list(map(len, rows)))
    return MessageTerms(np.array(list(chain.from_iterable(rows)), np.uint64), owners)


def make_history(
    revisions: Sequence[Revision], previous: HistoryIndex | None = None
) -> HistoryIndex:
    """Build the index of commits, newest first."""
    indexed = set(previous.ids) if previous is not None else set[str]()
    new = [revision for revision in revisions if revision.id not in indexed]
    ids = [revision.id for revision in revisions]
    return build_history(ids, new, split_messages(new), previous)


def random_revisions(
    rng: random.Random, count: int, paths: Sequence[str], words: Sequence[str] = WORDS
) -> list[Revision]:
    """Make commits with random messages and files."""
    return [
        Revision(
            f"{number:040x}",
            " ".join(rng.choices(words, k=rng.randint(0, 6))),
            tuple(rng.sample(list(paths), rng.randint(1, min(5, len(paths))))),
        )
        for number in rng.sample(range(10_000), count)
    ]
