"""The dirty set alone: order, compare-and-remove, retries, collapse, and the condition of `sync`."""

import asyncio
import math
import random

import pytest

from cocosearchd.config.settings import WatchingSettings
from cocosearchd.watching import dirty_set
from cocosearchd.watching.dirty_records import PickedPaths
from cocosearchd.watching.dirty_set import DirtySet

SETTINGS = WatchingSettings(retry_base_s=1, retry_max_s=8)


@pytest.fixture
def dirty() -> DirtySet:
    return DirtySet(SETTINGS)


def take(dirty: DirtySet, limit: int = 10) -> PickedPaths:
    picked = dirty.take(limit)
    assert picked is not None
    return picked


def paths(dirty: DirtySet, limit: int = 10) -> list[str]:
    return list(take(dirty, limit).seqs)


async def test_edits_overtake_bulk(dirty: DirtySet) -> None:
    for number in range(5):
        dirty.mark(f"bulk{number}", urgent=False)
    dirty.mark("edit")
    dirty.mark("bulk3")
    assert paths(dirty) == ["edit", "bulk3"]
    assert paths(dirty, 2) == ["bulk0", "bulk1"]


async def test_thousands_of_hints_are_bulk_and_the_next_edit_is_not_behind_them(
    dirty: DirtySet,
) -> None:
    for number in range(1000):
        dirty.mark(f"checkout{number}")
    first = take(dirty, 1000)
    assert len(first.seqs) == dirty_set.URGENT_LIMIT
    dirty.mark("edit")
    assert paths(dirty) == ["edit"]


async def test_a_path_is_clean_only_if_it_did_not_change_meanwhile(dirty: DirtySet) -> None:
    dirty.mark("a")
    dirty.mark("b")
    first = take(dirty)
    dirty.mark("a")
    dirty.settle(first.id, {}, now=0)
    assert paths(dirty) == ["a"]


async def test_a_path_is_never_handed_out_twice_at_once(dirty: DirtySet) -> None:
    dirty.mark("a")
    first = take(dirty)
    dirty.mark("a")
    assert dirty.take(10) is None
    dirty.settle(first.id, {}, now=0)
    assert paths(dirty) == ["a"]


async def test_returned_paths_are_handed_out_again(dirty: DirtySet) -> None:
    dirty.mark("a")
    first = take(dirty)
    dirty.give_back(first.id)
    dirty.settle(first.id, {}, now=0)  # too late: it was given back
    assert paths(dirty) == ["a"]


async def test_failures_back_off_and_never_beyond_the_limit(dirty: DirtySet) -> None:
    dirty.mark("a")
    now, waits = 0.0, list[float]()
    for _ in range(6):
        dirty.settle(take(dirty).id, {"a": "broken"}, now)
        (failed,) = dirty.failures.listed(now)
        assert failed.retry_in_s is not None
        waits.append(failed.retry_in_s)
        dirty.retry_due(now + failed.retry_in_s - 0.1)
        assert dirty.take(10) is None
        now += failed.retry_in_s
        dirty.retry_due(now)
    assert waits == [1, 2, 4, 8, 8, 8]


async def test_some_of_many_failures_are_named_and_each_is_retried_when_due(
    dirty: DirtySet,
) -> None:
    names = [f"{number:03}" for number in range(100)]
    for now, name in enumerate(names):
        dirty.mark(name)
        dirty.settle(take(dirty).id, {name: "no model"}, now)
    assert len(dirty.failures) == len(names)
    assert [file.path for file in dirty.failures.listed(0, 3)] == names[:3], "the oldest"
    assert [file.path for file in dirty.failures.listed(0)] == names
    again = list[str]()
    for now in range(len(names) + 1):
        dirty.retry_due(now)
        while picked := dirty.take(10):
            again += picked.seqs
            dirty.settle(picked.id, {}, now)
    assert again == names
    assert len(dirty.failures) == 0


async def test_a_change_is_a_new_chance(dirty: DirtySet) -> None:
    dirty.mark("a")
    dirty.settle(take(dirty).id, {"a": "broken"}, now=0)
    dirty.mark("a")
    assert paths(dirty) == ["a"]
    assert dirty.failures.listed(0) == ()


async def test_an_outage_ends_for_all_at_the_first_success(dirty: DirtySet) -> None:
    for name in "abc":
        dirty.mark(name)
    dirty.settle(take(dirty).id, dict.fromkeys("abc", "no connection"), now=0)
    assert dirty.pending() == 0
    dirty.mark("d")
    dirty.settle(take(dirty).id, {}, now=0.1)
    assert sorted(paths(dirty)) == ["a", "b", "c"]


async def test_a_path_that_is_set_aside_comes_back_with_a_change_only(dirty: DirtySet) -> None:
    dirty.mark("a")
    dirty.settle(take(dirty).id, {}, now=0)
    dirty.set_aside("a", "it kills")
    dirty.retry_due(math.inf)
    assert dirty.take(10) is None
    assert [(f.path, f.retry_in_s) for f in dirty.failures.listed(0)] == [("a", None)]
    dirty.mark("a")
    assert paths(dirty) == ["a"]


async def test_a_path_that_changed_while_it_did_harm_is_not_set_aside(dirty: DirtySet) -> None:
    """It was not applied either, so a question from before the second change still waits for it."""
    dirty.mark("a")
    waiting = asyncio.ensure_future(dirty.clock.wait(dirty.clock.seq))
    first = take(dirty)
    dirty.mark("a")
    dirty.settle(first.id, {"a": "it kills"}, now=0)
    dirty.set_aside("a", "it kills")
    second = take(dirty)
    assert list(second.seqs) == ["a"]
    await asyncio.sleep(0)
    assert not waiting.done()
    dirty.settle(second.id, {}, now=0)
    await asyncio.wait_for(waiting, 60)


async def test_paths_that_did_harm_together_are_not_taken_for_an_outage(dirty: DirtySet) -> None:
    for name in "ab":
        dirty.mark(name)
    dirty.settle(take(dirty).id, dict.fromkeys("ab", "it kills"), now=0)
    for name in "ab":
        dirty.set_aside(name, "it kills")
    assert [failed.tries for failed in dirty.failures.listed(0)] == [1, 1]
    dirty.mark("c")
    dirty.settle(take(dirty).id, {}, now=0)
    dirty.retry_due(math.inf)
    assert dirty.take(10) is None


async def test_batches_are_forced_or_not(dirty: DirtySet) -> None:
    dirty.mark("a", force=True)
    dirty.mark("b")
    dirty.mark("c", force=True)
    picked = [take(dirty) for _ in range(3)]
    assert [(list(p.seqs), p.force) for p in picked] == [
        (["a"], True),
        (["b"], False),
        (["c"], True),
    ]


async def test_a_path_forced_in_flight_is_forced_afterwards(dirty: DirtySet) -> None:
    dirty.mark("a")
    picked = take(dirty)
    dirty.mark("a", force=True)
    dirty.settle(picked.id, {}, now=0)
    picked = take(dirty)
    assert picked.force
    dirty.give_back(picked.id)
    picked = take(dirty)
    assert picked.force
    dirty.settle(picked.id, {"a": "no"}, now=0)
    dirty.retry_due(math.inf)
    picked = take(dirty)
    assert picked.force
    dirty.mark("a")
    dirty.settle(picked.id, {}, now=0)
    assert not take(dirty).force  # once is enough


async def test_a_sync_waits_for_what_was_before_it_alone(dirty: DirtySet) -> None:
    dirty.mark("before")
    target = dirty.clock.seq
    dirty.mark("after")
    waiting = asyncio.ensure_future(dirty.clock.wait(target))
    first = take(dirty, 1)
    await asyncio.sleep(0)
    assert not waiting.done()
    dirty.settle(first.id, {}, now=0)
    await asyncio.wait_for(waiting, 60)
    assert dirty.clock.applied_seq() == target


async def test_a_sync_waits_for_what_a_scan_finds(dirty: DirtySet) -> None:
    dirty.mark_tree("src")
    waiting = asyncio.ensure_future(dirty.clock.wait(dirty.clock.seq))
    trees = dirty.begin_scan()
    await asyncio.sleep(0)
    assert not waiting.done()
    dirty.finish_scan(trees, ["src/a"])
    await asyncio.sleep(0)
    assert not waiting.done(), "a scan's findings are as old as the mark of its tree"
    dirty.settle(take(dirty).id, {}, now=0)
    await asyncio.wait_for(waiting, 60)


async def test_a_sync_does_not_wait_for_what_failed(dirty: DirtySet) -> None:
    dirty.mark("a")
    waiting = asyncio.ensure_future(dirty.clock.wait(dirty.clock.seq))
    dirty.settle(take(dirty).id, {"a": "broken"}, now=0)
    await asyncio.wait_for(waiting, 60)


async def test_a_sync_that_gives_up_leaves_nothing(dirty: DirtySet) -> None:
    """Nothing may be applied for hours, for example without an embedder."""
    dirty.mark("a")
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(dirty.clock.wait(dirty.clock.seq), 0.01)
    assert not dirty.clock._waiting


@pytest.mark.parametrize("how", ["its time has come", "it changed", "the outage is over"])
async def test_a_sync_waits_for_what_failed_and_was_taken_up_again_before_it_was_awake(
    dirty: DirtySet, how: str
) -> None:
    """Both may come in one turn of the event loop; then nothing says any more that it has
    failed.
    """
    for name in "ab":
        dirty.mark(name)
    waiting = asyncio.ensure_future(dirty.clock.wait(dirty.clock.seq))
    first = take(dirty)
    dirty.mark("other")
    second = take(dirty)
    await asyncio.sleep(0)
    dirty.settle(first.id, dict.fromkeys("ab", "no connection"), now=0)
    if how == "its time has come":
        dirty.retry_due(now=8)
    elif how == "it changed":
        dirty.mark("a")
        dirty.mark("b")
    else:
        dirty.settle(second.id, {}, now=0)
    assert not dirty.failures
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    dirty.settle(take(dirty).id, {}, now=8)
    await asyncio.wait_for(waiting, 60)


async def test_a_sync_that_is_interrupted_before_it_is_awake_ends(dirty: DirtySet) -> None:
    """Its root went in the turn of the event loop in which the last path failed."""
    dirty.mark("a")
    waiting = asyncio.ensure_future(dirty.clock.wait(dirty.clock.seq))
    batch = take(dirty)
    await asyncio.sleep(0)
    dirty.settle(batch.id, {"a": "no connection"}, now=0)
    dirty.retry_due(now=8)
    dirty.clock.interrupt()
    await asyncio.wait_for(waiting, 60)
    assert not dirty.clock.is_applied


async def test_a_changed_path_holds_a_sync_only_for_its_older_change(dirty: DirtySet) -> None:
    dirty.mark("a")
    target = dirty.clock.seq
    first = take(dirty)
    dirty.mark("a")
    waiting = asyncio.ensure_future(dirty.clock.wait(target))
    dirty.settle(first.id, {}, now=0)
    await asyncio.wait_for(waiting, 60)
    assert dirty.clock.applied_seq() == target


async def test_trees_hold_no_tree_of_their_own(dirty: DirtySet) -> None:
    for tree in ("a/b", "a/b/c", "d", "a", "ab"):
        dirty.mark_tree(tree)
    assert sorted(tree.path for tree in dirty.begin_scan()) == ["a", "ab", "d"]


async def test_a_tree_marked_during_its_scan_is_scanned_again(dirty: DirtySet) -> None:
    dirty.mark_tree("")
    trees = dirty.begin_scan()
    dirty.mark_tree("a")
    dirty.finish_scan(trees, [])
    assert [tree.path for tree in dirty.begin_scan()] == ["a"]


async def test_a_scan_that_failed_is_still_to_be_done(dirty: DirtySet) -> None:
    dirty.mark_tree("a")
    since = dirty.clock.seq
    dirty.fail_scan(dirty.begin_scan())
    assert dirty.clock.find_oldest() == since
    assert dirty.scans.ready.is_set()


async def test_paths_in_flight_during_a_scan_are_compared_again(dirty: DirtySet) -> None:
    """Its commit may be younger than what the scan knew of the store."""
    dirty.mark("in/a")
    flying = take(dirty)
    dirty.mark("in/b")
    dirty.mark("out")
    dirty.mark_tree("in")
    trees = dirty.begin_scan()
    dirty.settle(flying.id, {}, now=0)
    dirty.settle(take(dirty).id, {}, now=0)
    dirty.finish_scan(trees, [])
    assert sorted(paths(dirty)) == ["in/a", "in/b"]


async def test_too_many_hints_become_one_scan(
    dirty: DirtySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dirty_set, "MAX_HINTED", 100)
    dirty.mark("first")
    since = dirty.clock.find_oldest()
    for number in range(200):
        dirty.mark(f"f{number}")
    assert [tree.path for tree in dirty.begin_scan()] == [""]
    assert dirty.clock.find_oldest() == since
    assert dirty.pending() < 101


async def test_too_many_trees_become_one_scan(dirty: DirtySet) -> None:
    for number in range(dirty_set.MAX_TREES + 1):
        dirty.mark_tree(f"t{number}")
    assert [tree.path for tree in dirty.begin_scan()] == [""]


class Model:
    """The expected state, without sets of numbers: per path, whether the last change has been
    applied.
    """

    def __init__(self) -> None:
        self.version, self.applied = dict[str, int](), dict[str, int]()


async def test_random_runs_end_with_everything_applied() -> None:
    for seed in range(40):
        rng, dirty, model = random.Random(seed), DirtySet(SETTINGS), Model()
        flying = list[tuple[PickedPaths, dict[str, int]]]()
        now = 0.0
        for step in range(400):
            now += 0.5
            what = rng.random()
            path = f"f{rng.randrange(12)}"
            if what < 0.4:
                model.version[path] = step
                dirty.mark(
                    path,
                    urgent=rng.random() < 0.5,
                    may_be_stored=rng.random() < 0.5,
                    force=rng.random() < 0.1,
                )
            elif what < 0.7:
                picked = dirty.take(rng.randrange(1, 6))
                if picked is not None:
                    busy = {p for batch, _ in flying for p in batch.seqs}
                    assert not busy & picked.seqs.keys()
                    flying.append((picked, {p: model.version[p] for p in picked.seqs}))
            elif flying:
                apply(rng, dirty, model, flying, now)
            dirty.retry_due(now)
            clean = {p for p, v in model.version.items() if model.applied.get(p) == v}
            if dirty.clock.find_oldest() == math.inf and not dirty.failures.listed(now):
                assert clean == set(model.version), f"seed {seed}"
        while flying or dirty.pending() or dirty.failures.listed(now):
            now += 100
            dirty.retry_due(now)
            while (picked := dirty.take(4)) is not None:
                flying.append((picked, {p: model.version[p] for p in picked.seqs}))
            while flying:
                apply(rng, dirty, model, flying, now)
        assert model.applied == model.version, f"seed {seed}"
        assert dirty.clock.applied_seq() == dirty.clock.seq


def apply(
    rng: random.Random,
    dirty: DirtySet,
    model: Model,
    flying: list[tuple[PickedPaths, dict[str, int]]],
    now: float,
) -> None:
    picked, read = flying.pop(rng.randrange(len(flying)))
    if rng.random() < 0.1:
        dirty.give_back(picked.id)
        return
    failed = {p: "broken" for p in picked.seqs if rng.random() < 0.15}
    model.applied |= {p: v for p, v in read.items() if p not in failed}
    dirty.settle(picked.id, failed, now)


async def test_an_old_change_that_waits_keeps_no_numbers_of_later_ones(dirty: DirtySet) -> None:
    """Bulk work waits for hours on battery, while people save."""
    dirty.mark("bulk.py", urgent=False, may_be_stored=True)
    for _ in range(3 * dirty_set.SPARSE_HEAP):
        dirty.mark("saved.py")
        dirty.settle(take(dirty, 1).id, {}, now=0)
        assert dirty.clock.applied_seq() == 0
    assert len(dirty.clock._heap) <= dirty_set.SPARSE_HEAP + 10
    dirty.mark("failing.py")
    dirty.settle(take(dirty, 1).id, {"failing.py": "error"}, now=0)
    dirty.settle(take(dirty, 1).id, {}, now=0)
    assert dirty.clock.is_applied
    dirty.retry_due(math.inf)
    assert not dirty.clock.is_applied
