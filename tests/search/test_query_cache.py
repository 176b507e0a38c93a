"""Both levels of the query cache, and known mistakes of such caches."""

import dataclasses
import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.model import Hit
from cocosearchd.search.listing.list_cursor import ListCursor, ListPosition
from cocosearchd.search.plan import Plan
from cocosearchd.search.query_cache import MIN_SIMILARITY, QueryCache, RankedHits
from cocosearchd.search.reports.report import read_report
from cocosearchd.store.reads.file_states import FileState

PLAN = Plan("read a file", Filter(), "code", 10, 100, True, (), "disabled", 0.0, False, False)
MEGABYTE = 1 << 20


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def hit(path: str = "a.py", content: str = "text") -> Hit:
    return Hit("code", path, 0, 4, 1, 1, "python", 1.0, "both", "", "", None, None, None, content)


def found(generation: int = 1, path: str = "a.py", content: str = "text") -> RankedHits:
    return RankedHits(generation, (hit(path, content),), (FileState(path, b"hash", generation),))


def unit(*values: float) -> NDArray[np.float32]:
    vector = np.array(values, dtype=np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def said(number: int) -> Plan:
    """The question in other words that tell nothing."""
    return replace(PLAN, text="how is the file read" + " by the" * number)


def new_cache(max_bytes: int = MEGABYTE, clock: Clock | None = None) -> QueryCache:
    return QueryCache(max_bytes, 60.0, clock or Clock())


def test_an_equal_plan_at_the_same_generation_is_found() -> None:
    cache = new_cache()
    cache.put(1, PLAN, None, found())
    assert cache.exact(1, (1, 0, ""), replace(PLAN)) == found()
    assert cache.exact(1, (2, 0, ""), PLAN) is None
    assert cache.exact(2, (1, 0, ""), PLAN) is None


def test_another_history_misses() -> None:
    cache = new_cache()
    ranked = replace(found(), history="digest")
    cache.put(1, PLAN, unit(1, 0), ranked)
    for history, expected in (("digest", ranked), ("", None), ("other", None)):
        assert cache.exact(1, (1, 0, history), PLAN) == expected
        assert cache.similar(1, (1, 0, history), PLAN, unit(1, 0)) == expected
    assert cache.latest(1, PLAN) == ranked


def test_any_other_field_misses() -> None:
    cache = new_cache()
    cache.put(1, PLAN, None, found())
    changed = Plan(
        "x",
        Filter(("go",)),
        "classic",
        11,
        99,
        False,
        ("a",),
        "auto",
        0.1,
        True,
        True,
        True,
        "d",
        0.5,
        True,
        ListCursor("code", ListPosition(False, False, "a.py", 0, "name"), 1),
        read_report("a report"),
        True,
    )
    for field in fields(Plan):
        assert (
            cache.exact(1, (1, 0, ""), replace(PLAN, **{field.name: getattr(changed, field.name)}))
            is None
        ), field.name


def test_a_similar_question_is_found_from_the_threshold_on() -> None:
    cache = new_cache()
    cache.put(1, PLAN, unit(1, 0), found())
    changed = replace(PLAN, text="reading files")
    assert (
        cache.similar(
            1,
            (1, 0, ""),
            changed,
            unit(MIN_SIMILARITY + 0.001, (1 - (MIN_SIMILARITY + 0.001) ** 2) ** 0.5),
        )
        == found()
    )
    assert (
        cache.similar(
            1,
            (1, 0, ""),
            changed,
            unit(MIN_SIMILARITY - 0.001, (1 - (MIN_SIMILARITY - 0.001) ** 2) ** 0.5),
        )
        is None
    )


def test_the_most_similar_question_answers() -> None:
    cache = new_cache()
    for number, angle in enumerate((0.0, 0.1, 0.2, 0.3)):
        vector = unit(np.cos(angle), np.sin(angle))
        cache.put(1, said(number), vector, found(path=f"{number}.py"))
    near = cache.similar(1, (1, 0, ""), PLAN, unit(np.cos(0.21), np.sin(0.21)))
    assert near is not None
    assert near.hits[0].path == "2.py"


@pytest.mark.parametrize(
    "changed",
    [
        replace(PLAN, where=Filter(languages=("go",))),
        replace(PLAN, profile="classic"),
        replace(PLAN, identifiers=("getUser",)),
        replace(PLAN, limit=11),
        replace(PLAN, min_relevance=0.2),
    ],
)
def test_a_similar_question_with_other_filters_is_another_question(changed: Plan) -> None:
    cache = new_cache()
    cache.put(1, PLAN, unit(1, 0), found())
    assert cache.similar(1, (1, 0, ""), changed, unit(1, 0)) is None


def test_a_similar_question_of_another_generation_or_index_is_not_answered() -> None:
    cache = new_cache()
    cache.put(1, PLAN, unit(1, 0), found(generation=1))
    assert cache.similar(1, (2, 0, ""), PLAN, unit(1, 0)) is None
    assert cache.similar(2, (1, 0, ""), PLAN, unit(1, 0)) is None


def test_vectors_of_another_length_and_zero_vectors_match_nothing() -> None:
    cache = new_cache()
    cache.put(1, PLAN, unit(1, 0), found())
    cache.put(1, replace(PLAN, text="zero"), np.zeros(2, np.float32), found(path="zero.py"))
    assert cache.similar(1, (1, 0, ""), PLAN, unit(1, 0, 0)) is None
    assert cache.similar(1, (1, 0, ""), PLAN, np.zeros(2, np.float32)) is None


def test_answers_cannot_be_changed_by_who_gets_them() -> None:
    cache = new_cache()
    cache.put(1, PLAN, None, found())
    cached = cache.exact(1, (1, 0, ""), PLAN)
    assert cached is not None
    hash(cached)  # frozen all the way down
    with pytest.raises(dataclasses.FrozenInstanceError):
        cached.hits[0].content = "changed"  # type: ignore[misc]
    with pytest.raises(TypeError):
        cached.hits[0] = hit("b.py")  # type: ignore[index]


def test_answers_age() -> None:
    clock = Clock()
    cache = new_cache(clock=clock)
    cache.put(1, PLAN, unit(1, 0), found())
    clock.now = 59.9
    assert cache.exact(1, (1, 0, ""), PLAN) is not None
    clock.now = 60.0
    assert cache.exact(1, (1, 0, ""), PLAN) is None
    assert cache.similar(1, (1, 0, ""), PLAN, unit(1, 0)) is None
    assert cache.latest(1, PLAN) is None
    assert cache.statistics().entries == cache.statistics().bytes == 0


def test_the_least_recently_used_answer_goes_first() -> None:
    cache = new_cache(max_bytes=30_000)
    plans = [replace(PLAN, text=str(number)) for number in range(20)]
    for plan in plans:
        cache.put(1, plan, unit(1, 0), found(content="x" * 1000))
        cache.exact(1, (1, 0, ""), plans[0])
    statistics = cache.statistics()
    assert statistics.bytes <= 30_000
    assert 0 < statistics.entries < 20
    assert cache.exact(1, (1, 0, ""), plans[0]) is not None
    assert cache.exact(1, (1, 0, ""), plans[1]) is None
    assert cache.exact(1, (1, 0, ""), plans[19]) is not None


def test_one_huge_answer_does_not_empty_the_cache() -> None:
    cache = new_cache(max_bytes=30_000)
    cache.put(1, PLAN, None, found())
    cache.put(1, replace(PLAN, text="huge"), None, found(content="x" * 29_000))
    assert cache.exact(1, (1, 0, ""), PLAN) is not None
    assert cache.statistics().entries == 1


def test_a_new_answer_takes_the_place_of_the_old_one() -> None:
    cache = new_cache()
    cache.put(1, PLAN, unit(1, 0), found(generation=1))
    size = cache.statistics().bytes
    cache.put(1, PLAN, unit(1, 0), found(generation=2))
    assert cache.statistics().bytes == size
    assert cache.exact(1, (1, 0, ""), PLAN) is None
    assert cache.similar(1, (1, 0, ""), PLAN, unit(1, 0)) is None
    assert cache.exact(1, (2, 0, ""), PLAN) == found(generation=2)


def test_forgetting_one_index_leaves_the_others() -> None:
    cache = new_cache()
    for index in (1, 2):
        cache.put(index, PLAN, unit(1, 0), found())
    cache.forget(1)
    assert cache.exact(1, (1, 0, ""), PLAN) is None
    assert cache.similar(1, (1, 0, ""), PLAN, unit(1, 0)) is None
    assert cache.exact(2, (1, 0, ""), PLAN) is not None
    assert cache.similar(2, (1, 0, ""), PLAN, unit(1, 0)) is not None


def test_an_older_answer_is_kept_for_when_the_store_is_away() -> None:
    cache = new_cache()
    cache.put(1, PLAN, None, found(generation=1))
    assert cache.exact(1, (2, 0, ""), PLAN) is None
    assert cache.latest(1, PLAN) == found(generation=1)


def test_many_questions_of_one_kind_find_each_other_and_leave_no_trace() -> None:
    cache = new_cache()
    rng = np.random.default_rng(5)
    vectors = [unit(*rng.standard_normal(16)) for _ in range(50)]
    for number, vector in enumerate(vectors):
        cache.put(1, said(number), vector, found(path=f"{number}.py"))
    for number, vector in enumerate(vectors):
        near = cache.similar(1, (1, 0, ""), PLAN, vector)
        assert near is not None
        assert near.hits[0].path == f"{number}.py"
    cache.forget(1)
    assert cache.statistics().bytes == 0
    cache.put(1, PLAN, vectors[3], found(path="again.py"))
    near = cache.similar(1, (1, 0, ""), replace(PLAN, text="reading files"), vectors[3])
    assert near is not None
    assert near.hits[0].path == "again.py"


def test_hits_and_misses_are_counted() -> None:
    cache = new_cache()
    cache.put(1, PLAN, unit(1, 0), found())
    cache.exact(1, (1, 0, ""), PLAN)
    cache.similar(1, (1, 0, ""), PLAN, unit(1, 0))
    cache.count_miss()
    statistics = cache.statistics()
    assert (statistics.exact_hits, statistics.semantic_hits, statistics.misses) == (1, 1, 1)


def as_ranked(plain: Hit, number: int) -> Hit:
    """With the names and scores that a hit of a real search has."""
    name = f"Repository{number}.save_all"
    scores = tuple((signal, number + 0.5 + offset) for offset, signal in enumerate("abcdefghijkl"))
    return replace(
        plain,
        symbol_type="method",
        symbol_name=name,
        hierarchy=name + "",
        symbol_signature=f"def {name}",
        signals=scores,
    )


def test_the_estimate_of_bytes_is_not_far_off() -> None:
    cache = new_cache(max_bytes=64 * MEGABYTE)
    tracemalloc.start()
    old_size = tracemalloc.get_traced_memory()[0]
    for number in range(200):
        text = f"{number} " + "x" * 900
        hits = tuple(
            as_ranked(hit(f"dir{number}/file{n}.py", f"{text}{n}"), number) for n in range(10)
        )
        files = tuple(
            FileState(hit.path, bytes([n] * 16), 1, bytes(100)) for n, hit in enumerate(hits)
        )
        cache.put(
            1, replace(PLAN, text=str(number)), unit(*np.ones(256)), RankedHits(1, hits, files)
        )
    used = tracemalloc.get_traced_memory()[0] - old_size
    tracemalloc.stop()
    assert 0.8 * used < cache.statistics().bytes < 1.25 * used
