"""The index of a history: what it holds, how it follows HEAD, and its bounds."""

import random

import numpy as np
import pytest

from cocosearchd.model import Revision
from cocosearchd.search.history import history_index
from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.lexical.analysis.terms import TermCache, term_hash
from tests.search.history.history_cases import make_history, random_revisions

PATHS = tuple(f"src/file{number}.py" for number in range(12))
REVISIONS = (
    Revision("c" * 40, "Fold proxyHeaders", ("src/b.py",)),
    Revision("b" * 40, "Parse headers\n\nof a proxy", ("src/a.py", "src/b.py")),
    Revision("a" * 40, "", ("src/a.py",)),
)


def commits_with(history: HistoryIndex, word: str) -> list[str]:
    """Return the ids of the commits whose message has a word."""
    [term] = TermCache().split_text(word)
    commits, _ = history.commits_of(np.array([term_hash(term)], np.uint64))
    return [history.ids[commit] for commit in commits.tolist()]


def paths_of(history: HistoryIndex, commit: int) -> set[str]:
    rows, _ = history.files_of(np.array([commit], np.int64))
    return {history.paths[row] for row in rows.tolist()}


def test_commits_are_found_by_words_and_parts_of_names() -> None:
    history = make_history(REVISIONS)
    assert history.ids == tuple(revision.id for revision in REVISIONS)
    assert commits_with(history, "headers") == ["c" * 40, "b" * 40]
    assert commits_with(history, "parsing") == ["b" * 40]
    assert commits_with(history, "absent") == []
    assert [paths_of(history, number) for number in range(3)] == [
        set(revision.paths) for revision in REVISIONS
    ]


def test_an_empty_history_answers() -> None:
    history = make_history(())
    assert history.ids == ()
    assert commits_with(history, "proxy") == []
    assert history.nbytes < 1000


@pytest.mark.parametrize("seed", range(20))
def test_an_index_that_follows_is_equal_to_a_new_one(seed: int) -> None:
    rng = random.Random(seed)
    earlier = random_revisions(rng, rng.randint(0, 30), PATHS)
    earlier_ids = {revision.id for revision in earlier}
    new = [
        revision for revision in random_revisions(rng, 20, PATHS) if revision.id not in earlier_ids
    ]
    after = new + rng.sample(earlier, rng.randint(0, len(earlier)))
    rng.shuffle(after)
    followed = make_history(after, make_history(earlier))
    complete = make_history(after)
    assert followed.digest == complete.digest
    assert followed.ids == complete.ids
    assert followed.paths == complete.paths
    for name in ("terms", "term_starts", "term_commits", "message_lengths", "file_starts"):
        assert np.array_equal(getattr(followed, name), getattr(complete, name)), name
    for commit in range(len(after)):
        assert paths_of(followed, commit) == set(after[commit].paths)


def test_other_commits_have_another_digest() -> None:
    digests = {make_history(REVISIONS[start:]).digest for start in range(4)}
    digests.add(make_history(REVISIONS[::-1]).digest)
    assert len(digests) == 5


def test_the_newest_commits_fit_into_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    revisions = random_revisions(rng, 50, PATHS)
    monkeypatch.setattr(history_index, "MAX_FILE_ROWS", 60)
    history = make_history(revisions)
    count = len(history.ids)
    assert 10 < count < 50
    assert history.ids == tuple(revision.id for revision in revisions[:count])
    assert len(history.file_paths) <= 60 < len(history.file_paths) + 5
    monkeypatch.setattr(history_index, "MAX_MESSAGE_TERMS", 2)
    assert make_history(revisions).message_lengths.max() == 2


def test_a_history_at_its_bounds_takes_less_than_ten_megabytes() -> None:
    rng = np.random.default_rng(1)
    paths = [f"{'directory/' * 5}{number:020}.py" for number in range(20_000)]
    revisions = [
        Revision(
            f"{number:040x}",
            " ".join(f"word{word}" for word in rng.integers(0, 1 << 40, 120).tolist()),
            tuple(paths[index] for index in rng.integers(0, len(paths), 25).tolist()),
        )
        for number in range(5_000)
    ]
    history = make_history(revisions)
    assert 1_000 < len(history.ids) < 5_000
    assert 5_000_000 < history.nbytes < 10_000_000
