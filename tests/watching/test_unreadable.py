"""Unreadable files and directories, as another account, since root may read everything."""

import asyncio
import concurrent.futures.thread  # noqa: F401 - asyncio imports it when it is used, which the account may not
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import anyio
import pytest

from cocosearchd.runtime.files.nofollow import opened_directory
from cocosearchd.watching.scans.scan import Scan, ScanResult
from tests.watching.support import BACKENDS, QUICK, digest, following, in_sync, on_disk
from tests.watching.test_watched_root import held, put

NOBODY = 65534


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory of this test's own; the test runs as an account that permissions apply to."""
    home = Path(tempfile.mkdtemp(prefix="cocosearch-test-"))
    root = os.geteuid() == 0
    if root:
        os.chown(home, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield home
    if root:
        os.seteuid(0)
    shutil.rmtree(home)


@pytest.fixture
def root(home: Path) -> Path:
    root = home / "root"
    root.mkdir()
    return root


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111], ids=["closed", "listable", "enterable"])
async def test_a_closed_directory_keeps_its_rows_and_spoils_nothing(
    root: Path, home: Path, backend: str, mode: int
) -> None:
    """Listable and not enterable, or the other way round: names without what they stand for are of
    no use.
    """
    put(root, a="1", b__c="1", b__sub__d="1")
    async with following(root, home / "sync", backend) as (live, index):
        await in_sync(live)
        (root / "b").chmod(mode)
        put(root, a="2")
        await in_sync(live)
        assert held(index) == {"a.py", "b/c.py", "b/sub/d.py"}, "what cannot be seen is not deleted"
        assert index.files["a.py"].content_hash == digest((root / "a.py").read_bytes())
        assert "b/" in live.status().unreadable
        assert "b/" in f"{live.status().reason}/"
        assert live.status().failed == ()
        (root / "b").chmod(0o700)
        put(root, b__c="2", b__e="1")
        (root / "b" / "sub" / "d.py").unlink()
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))
        assert live.status().unreadable == ()
        assert live.status().reason is None


async def test_a_directory_that_was_never_open_is_named(root: Path, home: Path) -> None:
    put(root, a="1", secret__b="1")
    (root / "secret").chmod(0)
    async with following(root, home / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"a.py"}
        assert live.status().unreadable == ("secret/",)
        (root / "secret").chmod(0o700)
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


async def test_a_hint_from_a_directory_that_was_closed_behind_it(root: Path, home: Path) -> None:
    put(root, a="1", b__c="1")
    async with following(root, home / "sync") as (live, index):
        await in_sync(live)
        (root / "b").chmod(0o444)
        live._dirty.mark("b/c.py")
        await in_sync(live)
        assert held(index) == {"a.py", "b/c.py"}
        assert live.status().failed == ()
        (root / "b").chmod(0o700)


async def test_a_closed_directory_is_not_scanned_again_and_again(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that is looked at during a scan is looked at again after it; that look is no reason
    for the next scan.
    """
    put(root, a="1", b__c="1")
    real = Scan.run

    def slow(self: Scan, trees: Iterable[bytes]) -> ScanResult:  # as one of many files is
        time.sleep(0.05)
        return real(self, trees)

    async with following(root, home / "sync") as (live, index):
        await in_sync(live)
        (root / "b").chmod(0o444)
        await in_sync(live)
        monkeypatch.setattr(Scan, "run", slow)
        live.rescan("a test")
        await asyncio.sleep(0.02)
        live._dirty.mark("b/c.py")
        await in_sync(live)
        assert held(index) == {"a.py", "b/c.py"}
        (root / "b").chmod(0o700)
        (root / "b" / "c.py").unlink()
        await in_sync(live)
        assert held(index) == {"a.py"}


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_directory_that_fails_for_now_is_not_taken_for_empty(
    root: Path, home: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file handles left, a network that stumbles: that says nothing of what is there, so nothing
    is fresh.
    """
    put(root, a="1")
    failing = set[bytes]()

    def stumbling(path: bytes) -> AbstractContextManager[int]:
        """Taking the process's last file handle would fail the test's own tools first."""
        if path in failing:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened_directory(path)

    monkeypatch.setattr("cocosearchd.watching.scans.scan.opened_directory", stumbling)
    async with following(root, home / "sync", backend) as (live, index):
        await in_sync(live)
        failing.add(os.fsencode(root / "new"))
        put(root, new__b="1")
        answer = await live.sync(1)
        assert (answer.fresh, answer.pending) == (False, ("new/",))
        assert "new/: Too many open files" in (answer.reason or "")
        failing.clear()
        assert (await live.sync(20)).fresh, "asking looks again"
        assert index.contents() == on_disk(os.fsencode(root))
        failing.add(os.fsencode(root / "other"))
        put(root, other__b="1")
        assert not (await live.sync(1)).fresh
        failing.clear()
        with anyio.fail_after(60):  # time looks again as well, without a question
            while "other/b.py" not in held(index):
                await asyncio.sleep(QUICK.poll_s)


async def test_a_file_that_may_not_be_read_is_named_after_the_next_scan(
    root: Path, home: Path
) -> None:
    put(root, a="1", b="1")
    async with following(root, home / "sync") as (live, index):
        await in_sync(live)
        index.files["b.py"] = index.files["b.py"]._replace(skip_reason="unreadable")
        live.rescan("test")
        await in_sync(live)
        assert live.status().unreadable == ("b.py",)


@pytest.fixture
def mounted(root: Path) -> Iterator[Path]:
    """A directory of the root on which a file system is mounted, of the same account."""
    directory = root / "b"
    directory.mkdir()
    options = f"size=1m,mode=700,uid={os.geteuid()}"
    with mount(directory, "-t", "tmpfs", "-o", options, "none"):
        yield directory


@pytest.fixture
def mounted_file(root: Path, home: Path) -> Iterator[Path]:
    """A file outside of the root that is mounted on `b/c.py`."""
    put(root, b__c="1")
    put(home, outside="2")
    with mount(root / "b" / "c.py", "--bind", str(home / "outside.py")):
        yield home / "outside.py"
        (root / "b").chmod(0o700)


@contextmanager
def mount(directory: Path, *arguments: str) -> Iterator[None]:
    """Mount something, as root; skips where that is not allowed."""
    with as_root():
        done = subprocess.run(["mount", *arguments, str(directory)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        with as_root():
            subprocess.run(["umount", "--lazy", directory], check=True)


@contextmanager
def as_root() -> Iterator[None]:
    """Run as the user that started the tests, if that is root."""
    account = os.geteuid()
    if os.getuid() == 0:
        os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(account)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts on Linux")
@pytest.mark.parametrize("closed_at_first", [False, True])
async def test_a_mounted_directory_that_opens_is_in_the_next_answer(
    root: Path, home: Path, mounted: Path, closed_at_first: bool
) -> None:
    """Its mode makes no event in the directory that it is mounted in."""
    put(root, a="1", b__c="1")
    if closed_at_first:
        mounted.chmod(0)
    async with following(root, home / "sync") as (live, index):
        await in_sync(live)
        assert held(index) == {"a.py"} | (set() if closed_at_first else {"b/c.py"})
        mounted.chmod(0)
        await in_sync(live)
        assert live.status().unreadable == ("b/",)
        mounted.chmod(0o700)
        await in_sync(live)
        assert live.status().unreadable == ()
        put(root, b__c="2", b__sub__d="1")
        await in_sync(live)
        assert index.contents() == on_disk(os.fsencode(root))


@pytest.mark.skipif(sys.platform != "linux", reason="mounts on Linux")
async def test_a_mounted_file_behind_a_directory_that_opens_is_followed(
    root: Path, home: Path, mounted_file: Path
) -> None:
    (root / "b").chmod(0)
    async with following(root, home / "sync") as (live, index):
        await in_sync(live)
        (root / "b").chmod(0o700)
        await in_sync(live)
        for number in range(2):
            mounted_file.write_text(f"changed {number}")
            await in_sync(live)
            assert index.contents() == on_disk(os.fsencode(root))
