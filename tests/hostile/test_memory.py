"""Memory that is returned: of cleared indexes, of rare words, of single questions."""

import shutil
import sys
import sysconfig
import time
import weakref
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cocosearchd.model import hash_content
from cocosearchd.search.answers.disk_files import VerifiedFiles
from cocosearchd.search.lexical.analysis.chunk_terms import TermChunk
from cocosearchd.search.lexical.analysis.term_table import LIMIT_BYTES, WordTable
from cocosearchd.search.lexical.analysis.terms import TermCache, term_hash
from cocosearchd.search.lexical.array_types import Mask
from cocosearchd.search.lexical.segments.live_documents import (
    MaskCache,
    collect_live_documents,
)
from tests.daemon import Daemon
from tests.footprint import MB, Footprint, measured_footprint

SETTLED_S = 2.0  # memory that changes by less than a megabyte in this time has settled
BACK_WITHIN_S = 60.0
# Measured: 100 MB more at work, which comes back but for 2 MB; 10 MB if those that analyse stay as
# they are.
SHORT_FILES, SHORT_GROWN_MB, SHORT_LEFT_MB = 60, 60, 30
LONG_ROOTS, LONG_FILES, LONG_LEFT_MB = 12, 6000, 150

linux_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="smaps_rollup is of Linux"
)


def test_masks_of_files_go_with_the_files() -> None:
    living = collect_live_documents((), ())
    gone = weakref.ref(living)
    assert living.masks.mask("key", no_mask).flags.writeable is False
    del living
    assert gone() is None


def test_the_latest_filters_stay_cached() -> None:
    masks, built = MaskCache(entries=2), list[str]()
    for key in ("a", "b", "a", "c", "a", "b"):
        masks.mask(key, partial(made_mask, built, key))
    assert built == ["a", "b", "c", "b"]


def test_words_of_an_index_are_forgotten_and_found_again() -> None:
    terms = TermCache()
    memory = weakref.ref(terms.chunk_cache())
    chunk = TermChunk("def alpha", "def alpha", "python", ())
    previous = terms.chunk_cache().read([chunk])
    terms.forget()
    assert memory() is None
    assert terms.chunk_cache().read([chunk]) == previous


@pytest.mark.parametrize("long", ["aB" * (1 << 19), "x" * (1 << 20), "税" * (1 << 18)])
def test_long_words_and_names_fill_a_table_of_words_by_their_bytes(long: str) -> None:
    table = WordTable(TermCache().split_texts, term_hash, ())
    for number in range(64):
        if table.full:
            break
        table.numbers([f"{long}{number}"])
        table.names([f"{long}{number}"])
    assert table.full
    assert number * len(long) <= LIMIT_BYTES


def test_texts_of_a_root_are_forgotten_with_it(tmp_path: Path) -> None:
    disk, data = VerifiedFiles(), b"text\n" * 1000
    (tmp_path / "a.py").write_bytes(data)
    root = bytes(tmp_path)
    assert disk.verified(root, "a.py", hash_content(data)) is not None
    text = weakref.ref(disk._texts[hash_content(data)].starts)
    disk.forget(root)
    assert text() is None
    assert disk._bytes == 0
    assert disk.verified(root, "a.py", hash_content(data)) is not None


@linux_only
def test_memory_of_an_index_that_is_cleared_comes_back(stopped: Daemon, tmp_path: Path) -> None:
    daemon = stopped
    daemon.start()
    fresh = settled_footprint(daemon)
    (root,) = python_roots(tmp_path / "corpus", 1, SHORT_FILES)
    peak = indexed_and_asked(daemon, root)
    assert peak.total > fresh.total + SHORT_GROWN_MB * MB, (
        f"fresh {fresh}, at work {peak}: too few files to tell"
    )
    previous_status, analysers = daemon.call("status")["worker"], analysis_pids(daemon)
    end = cleared(daemon)
    while (renewed := daemon.call("status")["worker"])["pid"] in (previous_status["pid"], None):
        assert time.monotonic() < end, "the indexing process is not replaced"
        time.sleep(0.2)
    assert (renewed["deaths"], renewed["error"]) == (0, None), "it was told to end"
    remaining = awaited(daemon, fresh.total + SHORT_LEFT_MB * MB, end)
    assert remaining.total < fresh.total + SHORT_LEFT_MB * MB, (
        f"fresh {fresh}, at work {peak}, left {remaining}"
    )
    assert analysers
    assert not analysers & analysis_pids(daemon), (
        "a process that analyses still holds what was cleared"
    )
    daemon.index(root)
    assert daemon.call("search", query="def main", index=root.name)["results"]


@linux_only
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_memory_of_twelve_indexes_that_are_cleared_comes_back(
    stopped: Daemon, tmp_path: Path
) -> None:
    daemon = stopped
    daemon.start()
    fresh = settled_footprint(daemon)
    for root in python_roots(tmp_path / "corpus", LONG_ROOTS, LONG_FILES):
        peak = indexed_and_asked(daemon, root)
    assert peak.total > fresh.total + 2 * LONG_LEFT_MB * MB, (
        f"fresh {fresh}, at work {peak}: too few files to tell"
    )
    end = cleared(daemon)
    remaining = awaited(daemon, fresh.total + LONG_LEFT_MB * MB, end)
    within_s = time.monotonic() - end + BACK_WITHIN_S
    print(f"fresh {fresh}, at work {peak}, left {remaining} after {within_s:.0f} s")
    assert remaining.total < fresh.total + LONG_LEFT_MB * MB, (
        f"fresh {fresh}, at work {peak}, left {remaining}"
    )
    time.sleep(max(0.0, end - time.monotonic()))
    settled = measured_footprint(daemon)
    print(f"left {settled} after {BACK_WITHIN_S:.0f} s")
    assert settled.total < fresh.total + LONG_LEFT_MB * MB, (
        f"fresh {fresh}, at work {peak}, left {settled}"
    )


def no_mask() -> Mask:
    return np.zeros(0, np.bool_)


def made_mask(built: list[str], key: str) -> Mask:
    """A mask; which one was made is noted."""
    built.append(key)
    return no_mask()


def indexed_and_asked(daemon: Daemon, root: Path) -> Footprint:
    """The footprint once a root is searchable and was asked."""
    daemon.ctl("up", str(root), "--wait", limit_s=1200)
    for query in ("parse a file", "lang:python path:**/*.py retry", "sym:function name:main"):
        daemon.call("search", query=query, index=root.name)
    return measured_footprint(daemon)


def settled_footprint(daemon: Daemon) -> Footprint:
    """The memory of a fresh start, once its processes are ready."""
    end = time.monotonic() + BACK_WITHIN_S
    while daemon.call("status")["worker"]["state"] != "running" or not analysis_pids(daemon):
        assert time.monotonic() < end, "its processes do not start"
        time.sleep(0.2)
    previous, current = 0, measured_footprint(daemon)
    while abs(current.total - previous) > MB:
        assert time.monotonic() < end, "its memory does not settle"
        time.sleep(SETTLED_S)
        previous, current = current.total, measured_footprint(daemon)
    return current


def analysis_pids(daemon: Daemon) -> set[int]:
    """The processes of the daemon that analyse texts."""
    workers = daemon.children("cocosearchd.search.lexical.analysis.analysis_worker")
    return {worker.pid for worker in workers}


def cleared(daemon: Daemon) -> float:
    """Forget every index; until when memory is to be back."""
    daemon.clear()
    return time.monotonic() + BACK_WITHIN_S


def awaited(daemon: Daemon, bound: int, end: float) -> Footprint:
    """The footprint when it is below the bound, or at the end."""
    while (footprint := measured_footprint(daemon)).total >= bound and time.monotonic() < end:
        time.sleep(1.0)
    return footprint


def python_roots(folder: Path, roots: int, files: int) -> list[Path]:
    """Directories with as many files of the standard library together."""
    source = Path(sysconfig.get_path("stdlib"))
    paths = [path for path in sorted(source.rglob("*.py")) if "site-packages" not in path.parts]
    for number, path in enumerate(paths[:: max(1, len(paths) // files)][:files]):
        target = folder / f"root{number % roots}" / f"{number}_{path.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return sorted(folder.iterdir())
