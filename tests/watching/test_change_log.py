"""Applied paths since a clock: all of them, maybe more."""

import os
from pathlib import Path

from cocosearchd.freshness import stale_reason
from cocosearchd.model import Clock
from cocosearchd.watching.change_log import ChangeLog
from tests.watching.support import MemoryIndex, following, in_sync
from tests.watching.test_watched_root import put


def test_each_path_once_with_its_last_number() -> None:
    changes = ChangeLog()
    changes.begin_epoch()
    changes.record(3, ["a", "b"])
    changes.record(5, ["a"])
    assert changes.since(Clock(changes.epoch, 0)) == ("b", "a")
    assert changes.since(Clock(changes.epoch, 3)) == ("a",)
    assert changes.since(Clock(changes.epoch, 5)) == ()


def test_a_forgotten_clock_gives_no_list() -> None:
    changes = ChangeLog(limit=2)
    changes.begin_epoch()
    changes.record(1, ["a"])
    changes.record(2, ["b", "c"])
    changes.record(4, ["d"])
    assert changes.since(Clock(changes.epoch, 1)) is None, (
        "b was applied after it, and is forgotten"
    )
    assert changes.since(Clock(changes.epoch, 2)) == ("d",)


async def test_what_somebody_has_missed(root: Path, tmp_path: Path) -> None:
    put(root, a="1", b="1", c="1")
    async with following(root, tmp_path / "sync") as (live, _):
        await in_sync(live)
        previous = (await live.sync(5)).as_of
        put(root, b="2", d="1")
        (root / "c.py").unlink()
        after = (await live.sync(5)).as_of
        assert set(live.changes.since(previous) or ()) == {"b.py", "c.py", "d.py"}
        assert live.changes.since(after) == ()
        live._end_epoch(stale_reason("root_replaced"))
        await in_sync(live)
        put(root, a="2")
        last = (await live.sync(5)).as_of
        assert last.epoch != previous.epoch
        assert {"a.py", "b.py", "c.py", "d.py"} <= set(live.changes.since(previous) or ()), (
            "epochs of one run have one order"
        )
        assert live.changes.since(Clock("of another run.1", previous.seq)) is None
        assert live.changes.since(Clock("", 0)) is None


async def test_a_file_that_failed_at_first_is_not_left_out(root: Path, tmp_path: Path) -> None:
    index = MemoryIndex(os.fsencode(root))
    index.failing["bad.py"] = "not now"
    async with following(root, tmp_path / "sync", index=index) as (live, _):
        put(root, bad="1", good="1")
        between = (await live.sync(5)).as_of
        assert "bad.py" not in set(live.changes.since(Clock(between.epoch, 0)) or ())
        index.failing.clear()
        await in_sync(live)
        assert "bad.py" in set(live.changes.since(between) or ())
