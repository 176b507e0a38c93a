"""Files that define what the mentioned files use, whatever segments the index has."""

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from cocosearchd.search.lexical.index_snapshot import IndexSnapshot, make_snapshot
from cocosearchd.search.lexical.scoring.corpus import join_corpora
from cocosearchd.search.lexical.segments.segment import SegmentView, build_segment
from cocosearchd.search.reports import linked_files
from cocosearchd.search.reports.linked_files import (
    MAX_DEFINING_FILES,
    MIN_FILES,
    score_linked_files,
)
from tests.search.lexical.toy import DIMENSION, documents

# Files that have no part in what is tested.
FILLERS = {f"src/other_{number}.py": f"value_{number} = 1\n" for number in range(MIN_FILES)}
CALLER = "src/page.py"
FILES = FILLERS | {
    CALLER: "def render_page(text):\n    return escape_markup(text)\n",
    "src/markup.py": "def escape_markup(text):\n    return text\n",
    "tests/test_markup.py": "def escape_markup(text):\n    assert text\n",
    "examples/markup.py": "def escape_markup(text):\n    print(text)\n",
    "src/deeper.py": "def unescape_entities(text):\n    return text\n",
}


def snapshot(files: Mapping[str, str]) -> IndexSnapshot:
    return make_snapshot((SegmentView(build_segment(documents(files), DIMENSION)),), 1)


def linked_paths(state: IndexSnapshot, mentions: Mapping[str, float]) -> dict[str, float]:
    """Return the linked files of one index with their scores, by path."""
    paths = state.corpus.live.paths
    mentioned = np.array([mentions.get(path, 0.0) for path in paths], np.float32)
    scores = score_linked_files(state.corpus, mentioned)
    assert scores.shape == (len(paths),)
    return {path: score for path, score in zip(paths, scores.tolist(), strict=True) if score}


def test_what_a_mentioned_file_calls_is_linked() -> None:
    assert linked_paths(snapshot(FILES), {CALLER: 1.0}) == {"src/markup.py": 1.0}


def test_tests_and_examples_are_not_followed() -> None:
    files = FILES | {"tests/test_page.py": "def test_it():\n    unescape_entities('a')\n"}
    assert linked_paths(snapshot(files), {"tests/test_page.py": 1.0}) == {}


def test_a_file_is_not_linked_by_what_it_defines_itself() -> None:
    assert linked_paths(snapshot(FILES), {"src/markup.py": 1.0}) == {}


def test_a_name_that_many_files_define_links_nothing() -> None:
    definition = "def escape_markup(text):\n    return text\n"
    files = FILES | {f"src/m_{number}.py": definition for number in range(MAX_DEFINING_FILES)}
    assert linked_paths(snapshot(files), {CALLER: 1.0}) == {}


def test_what_more_mentioned_files_use_comes_first() -> None:
    files = FILES | {
        CALLER: "def render_page(text):\n    return escape_markup(unescape_entities(text))\n",
        "src/feed.py": "def render_feed(text):\n    return unescape_entities(text)\n",
    }
    linked = linked_paths(snapshot(files), {CALLER: 1.0, "src/feed.py": 1.0})
    assert linked["src/deeper.py"] == 1.0
    assert 0 < linked["src/markup.py"] < 1.0


@pytest.mark.parametrize("mentions", [{}, {"src/other_1.py": 1.0}])
def test_without_a_mention_or_a_use_nothing_is_linked(mentions: Mapping[str, float]) -> None:
    assert linked_paths(snapshot(FILES), mentions) == {}


def test_a_small_or_empty_index_has_no_links() -> None:
    few = {path: FILES[path] for path in (CALLER, "src/markup.py")}
    assert linked_paths(snapshot(few), {CALLER: 1.0}) == {}
    assert linked_paths(make_snapshot((), 1), {}) == {}


def test_the_terms_that_are_followed_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(3)
    files = random_files(dice, 60)
    mentions = dict.fromkeys(files, 1.0)
    unbounded = linked_paths(snapshot(files), mentions)
    monkeypatch.setattr(linked_files, "MAX_TERMS", 25)
    linked = linked_paths(snapshot(files), mentions)
    assert len(linked) < len(unbounded)
    assert linked_paths(in_segments(files, dice), mentions) == pytest.approx(linked)


def random_files(dice: random.Random, count: int) -> dict[str, str]:
    """Return files that define a name or two, and use some names of others."""
    names = [f"name_{letter}{number}" for letter in "abcdefg" for number in range(6)]
    return {
        f"src/d{dice.randrange(4)}/f{number}.py": "".join(
            f"def {dice.choice(names)}(text):\n    return {' + '.join(dice.sample(names, 5))}\n"
            for _ in range(2)
        )
        for number in range(count)
    }


def in_segments(files: Mapping[str, str], dice: random.Random) -> IndexSnapshot:
    """Return the files in segments of random sizes, some of them with files that are dead now."""
    views = list[SegmentView]()
    rest = list(files)
    dice.shuffle(rest)
    while rest:
        size = dice.randint(1, 12)
        views.append(_with_dead(files, rest[:size], dice))
        rest = rest[size:]
    return make_snapshot(views, 1)


def _with_dead(files: Mapping[str, str], paths: Sequence[str], dice: random.Random) -> SegmentView:
    dead = dict.fromkeys((f"src/dead{number}.py" for number in range(dice.randint(0, 3))), "")
    dead = {path: dice.choice(list(files.values())) for path in dead}
    rows = documents(dead | {path: files[path] for path in paths})
    view = SegmentView(build_segment(rows, DIMENSION))
    return view.with_deleted(list(range(len(dead)))) if dead else view


@pytest.mark.parametrize("seed", range(12))
def test_links_do_not_depend_on_segments_and_dead_files(seed: int) -> None:
    dice = random.Random(seed)
    files = random_files(dice, 60)
    mentions = {path: dice.random() for path in dice.sample(list(files), 15)}
    linked = linked_paths(snapshot(files), mentions)
    assert linked
    assert linked_paths(in_segments(files, dice), mentions) == pytest.approx(linked)


def test_joined_indexes_are_scored_as_each_alone() -> None:
    dice = random.Random(7)
    states = [in_segments(random_files(dice, count), dice) for count in (40, MIN_FILES, 70)]
    mentioned = [
        np.array([dice.random() for _ in state.corpus.live.paths], np.float32) for state in states
    ]
    alone = [
        score_linked_files(state.corpus, values)
        for state, values in zip(states, mentioned, strict=True)
    ]
    joined = score_linked_files(
        join_corpora([state.corpus for state in states]), np.concatenate(mentioned)
    )
    assert np.array_equal(joined, np.concatenate(alone))
    assert joined.any()
