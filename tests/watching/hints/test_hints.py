"""One contract for every hints backend, the choice between them, and inotify's own promises."""

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cocosearchd.config.settings import WatchingSettings
from cocosearchd.runtime.files.nofollow import open_absolute
from cocosearchd.watching.hints import backend_choice, inotify
from cocosearchd.watching.hints.backend_choice import open_hints
from cocosearchd.watching.hints.base import (
    Cookie,
    DirtyHint,
    DirtyTreeHint,
    Hints,
    HintsUnavailable,
)
from cocosearchd.watching.hints.inotify import InotifyHints
from cocosearchd.watching.hints.inotify_instances import (
    BURST_READS,
    GATHER_S,
    Burst,
    InotifyInstances,
)
from cocosearchd.watching.hints.mounts import file_system, inexact_below
from cocosearchd.watching.hints.watchfiles import PROBE
from tests.watching.hints.heard import Heard, dirty_files, watch_all
from tests.watching.support import BACKENDS, QUICK

linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify exists on Linux only")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """With a folder and two files."""
    root = tmp_path / "root"
    (root / "old").mkdir(parents=True)
    (root / "old" / "kept.py").write_text("1")
    (root / "top.py").write_text("1")
    return root


@contextlib.contextmanager
def opened(root: Path, backend: str) -> Iterator[tuple[Hints, Heard]]:
    heard = Heard()
    settings = replace(QUICK, backend=backend)  # type: ignore[arg-type]
    hints, _ = open_hints(os.fsencode(root), os.fsencode(root.parent / "sync"), settings, heard)
    watch_all(hints, root)
    try:
        yield hints, heard
    finally:
        heard.stopped.set()
        hints.close()
        hints.close()


def drop(root: Path, name: str) -> None:
    (root.parent / "sync" / name).touch()


CHANGES: dict[str, tuple[Callable[[Path], object], list[bytes]]] = {
    "write": (lambda root: (root / "top.py").write_text("22"), [b"top.py"]),
    "create": (lambda root: (root / "old" / "new.py").write_text("1"), [b"old/new.py"]),
    "delete": (lambda root: (root / "old" / "kept.py").unlink(), [b"old/kept.py"]),
    "rename": (
        lambda root: (root / "top.py").rename(root / "old" / "there.py"),
        [b"top.py", b"old/there.py"],
    ),
    "mode": (lambda root: (root / "top.py").chmod(0o600), [b"top.py"]),
    "new folder": (lambda root: (root / "n").mkdir(), [b"n"]),
    "moved folder": (
        lambda root: (root / "old").rename(root / "n"),
        [b"old/kept.py", b"n/kept.py"],
    ),
    "removed folder": (lambda root: shutil.rmtree(root / "old"), [b"old", b"old/kept.py"]),
    "odd name": (lambda root: (root / "new\nline.py").write_text("1"), [b"new\nline.py"]),
    "link": (lambda root: (root / "link").symlink_to("old"), [b"link"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_covered_by_what_is_said(root: Path, backend: str, change: str) -> None:
    make, paths = CHANGES[change]
    with opened(root, backend) as (hints, heard):
        make(root)
        if hints.unwatched() == (b"",):
            return  # it says so: everything is scanned
        heard.wait(lambda _: all(heard.covers(path) for path in paths))


def test_a_cookie_comes_after_what_was_before_it(root: Path, backend: str) -> None:
    with opened(root, backend) as (hints, heard):
        if not hints.exact:
            pytest.skip("not promised: a sync scans")
        for number in range(200):
            (root / "old" / f"{number}.py").write_text("1")
            drop(root, f"c{number}")
            heard.wait(lambda hints, n=number: Cookie(b"c%d" % n) in hints)  # type: ignore[misc]
            assert heard.covers(b"old/%d.py" % number)


def test_a_known_number_of_batches_has_every_earlier_change(root: Path, backend: str) -> None:
    """A question that has absorbed so many batches knows all that was before it, without a cookie."""
    with opened(root, backend) as (hints, heard):
        if hints.batches_sent() is None and backend != "inotify":
            pytest.skip("not promised: a question drops a cookie")
        counted = 0
        for number in range(300):
            (root / "old" / f"{number}.py").write_text("1")
            if number % 2:  # one is asked about at once, the next one when it has been heard
                heard.wait(lambda _, n=number: heard.covers(b"old/%d.py" % n))  # type: ignore[misc]
            sent = hints.batches_sent()
            if sent == heard.batches:
                counted += 1
                assert heard.covers(b"old/%d.py" % number)
        assert counted > 50


@linux
def test_a_batch_on_its_way_is_counted(root: Path) -> None:
    with opened(root, "inotify") as (hints, heard):
        heard.stopped.clear()
        (root / "top.py").write_text("22")
        assert heard.blocked.wait(60)  # read from the kernel, and not taken in yet
        assert hints.batches_sent() in {None, heard.batches + 1}
        heard.stopped.set()
        heard.wait(lambda _: heard.covers(b"top.py"))
        hints.close()
        assert hints.batches_sent() is None, "nothing is known of an end"


@linux
def test_a_mount_is_heard_before_a_number_is_known(root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    with opened(root, "inotify") as (hints, heard):
        assert wait_for_number(hints) == 0
        if subprocess.run(["mount", "-t", "tmpfs", "none", root / "old"], check=False).returncode:
            pytest.skip("mounting is not allowed here")
        try:
            assert hints.batches_sent() in {None, 1}
            heard.wait(lambda _: bool(heard.losses()))
            assert wait_for_number(hints) == heard.batches
        finally:
            subprocess.run(["umount", "--lazy", root / "old"], check=True)


def wait_for_number(hints: Hints) -> int:
    """Return the number of batches as soon as it is known."""
    end = time.monotonic() + 60
    while (number := hints.batches_sent()) is None:
        assert time.monotonic() < end
        time.sleep(0.001)
    return number


def test_reading_says_nothing(root: Path, backend: str) -> None:
    with opened(root, backend) as (hints, heard):
        hear_of_a_change(root, hints, heard, "begin")  # what was made before is told of before it
        heard.hints.clear()
        for _ in range(50):
            (root / "top.py").read_text()
            list((root / "old").iterdir())
        hear_of_a_change(root, hints, heard, "end")
        paths = {hint.path for hint in heard.hints if isinstance(hint, DirtyHint | DirtyTreeHint)}
        assert paths <= {b"begin", b"end"}


def hear_of_a_change(root: Path, hints: Hints, heard: Heard, name: str) -> None:
    """Make a change and wait until the backend tells of it, if it tells of any."""
    if hints.exact:
        drop(root, name)
        heard.wait(lambda hints: Cookie(name.encode()) in hints)
    elif hints.name != "polling":
        (root / name).touch()
        heard.wait(lambda hints: DirtyHint(name.encode()) in hints)


def test_a_closed_backend_says_nothing(root: Path, backend: str) -> None:
    with opened(root, backend) as (hints, heard):
        hints.close()
        hint_count = len(heard.hints)
        (root / "top.py").write_text("3")
        time.sleep(0.1)
        assert len(heard.hints) == hint_count
        hints.watch(b"old")


@linux
def test_names_that_are_no_text(root: Path) -> None:
    with opened(root, "inotify") as (hints, heard):
        os.mkdir(os.fsencode(root) + b"/odd\xff")
        heard.wait(lambda hints: DirtyTreeHint(b"odd\xff") in hints)
        hints.watch(b"odd\xff")
        with open(os.fsencode(root) + b"/odd\xff/\xfe.py", "wb"):
            heard.wait(lambda hints: b"odd\xff/\xfe.py" in dirty_files(hints))


@linux
def test_overflow_is_said(root: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with opened(root, "inotify") as (_, heard):
        heard.stopped.clear()
        (root / "top.py").write_text("2")  # the thread takes this event and waits with it
        assert heard.blocked.wait(60)
        paths = [os.fsencode(root / "old" / name) for name in ("a.py", "b.py")]
        # equal neighbours are merged by the kernel, so two names take turns
        for number in range(limit + 100):
            os.close(os.open(paths[number % 2], os.O_CREAT | os.O_WRONLY))
        heard.stopped.set()
        heard.wait(lambda _: bool(heard.losses()))
        assert "overflow" in heard.losses()[0]


@linux
@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_a_root_that_goes_is_said(root: Path, how: str) -> None:
    with opened(root, "inotify") as (_, heard):
        if how == "removed":
            shutil.rmtree(root)
        elif how == "moved":
            root.rename(root.parent / "elsewhere")
        else:
            (root.parent / "other").mkdir()
            root.rename(root.parent / "elsewhere")
            (root.parent / "other").rename(root)
        heard.wait(lambda _: bool(heard.losses()))


@linux
@pytest.mark.parametrize("above", [0, 1])
def test_a_directory_above_the_root_that_goes_is_said(tmp_path: Path, above: int) -> None:
    root = tmp_path / "some" / "where" / "root"
    root.mkdir(parents=True)
    sync, heard = tmp_path / "sync", Heard()
    sync.mkdir()
    hints = InotifyHints(os.fsencode(root), os.fsencode(sync))
    hints.start(heard)
    parent = root.parents[above]
    parent.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").rename(parent)
    heard.wait(lambda _: bool(heard.losses()))
    hints.close()


@linux
@pytest.mark.parametrize("above", [0, 1, 2])
def test_a_start_behind_a_link_is_said(tmp_path: Path, above: int) -> None:
    """The watches would be those of other directories, which hear nothing of the root's."""
    root, outside = tmp_path / "some" / "where" / "root", tmp_path / "outside"
    (outside / "where" / "root").mkdir(parents=True)
    root.mkdir(parents=True)
    sync, heard = tmp_path / "sync", Heard()
    sync.mkdir()
    replaced = (root, *root.parents)[above]
    replaced.rename(tmp_path / "away")
    replaced.symlink_to(outside / "where" / "root" if above == 0 else outside)
    if above == 1:
        (outside / "root").mkdir()
    hints = InotifyHints(os.fsencode(root), os.fsencode(sync))
    hints.start(heard)
    heard.wait(lambda _: bool(heard.losses()))
    hints.close()


@linux
@pytest.mark.parametrize("above", [0, 1, 2])
def test_a_link_in_the_middle_of_a_start_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: int
) -> None:
    """A directory is another one after its watch, so its next move would not be heard."""
    root = tmp_path / "some" / "where" / "root"
    root.mkdir(parents=True)
    sync, heard = tmp_path / "sync", Heard()
    sync.mkdir()
    replaced = (root, *root.parents)[above]

    def open_replaced(path: bytes, flags: int) -> int:
        """Open a directory and replace it before its watch begins."""
        handle = open_absolute(path, flags)
        if path == os.fsencode(replaced):
            monkeypatch.undo()
            replaced.rename(tmp_path / "away")
            root.mkdir(parents=True)
        return handle

    monkeypatch.setattr(inotify, "open_absolute", open_replaced)
    hints = InotifyHints(os.fsencode(root), os.fsencode(sync))
    hints.start(heard)
    heard.wait(lambda _: bool(heard.losses()))
    hints.close()


@linux
@pytest.mark.parametrize("above", [1, 2])
def test_a_directory_that_is_away_whenever_a_start_opens_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: int
) -> None:
    """It is back each time, without a watch: its next move would not be heard."""
    root = tmp_path / "some" / "where" / "root"
    root.mkdir(parents=True)
    sync, heard = tmp_path / "sync", Heard()
    sync.mkdir()
    swapped = (root, *root.parents)[above]

    def open_away(path: bytes, flags: int) -> int:
        """Open a directory; the swapped one is a link at that moment."""
        if path != os.fsencode(swapped):
            return open_absolute(path, flags)
        away = swapped.rename(tmp_path / "away")
        swapped.symlink_to(away)
        try:
            return open_absolute(path, flags)
        finally:
            swapped.unlink()
            away.rename(swapped)

    monkeypatch.setattr(inotify, "open_absolute", open_away)
    hints = InotifyHints(os.fsencode(root), os.fsencode(sync))
    hints.start(heard)
    heard.wait(lambda _: bool(heard.losses()))
    hints.close()


@linux
def test_the_sync_directory_going_is_said(root: Path) -> None:
    with opened(root, "inotify") as (_, heard):
        shutil.rmtree(root.parent / "sync")
        heard.wait(lambda _: bool(heard.losses()))


@linux
def test_a_moved_folder_is_known_by_its_new_name(root: Path) -> None:
    (root / "old" / "deep").mkdir()
    with opened(root, "inotify") as (hints, heard):
        (root / "old").rename(root / "new")
        heard.wait(lambda hints: {DirtyTreeHint(b"old"), DirtyTreeHint(b"new")} <= set(hints))
        for folder in (b"new", b"new/deep"):
            hints.watch(folder)
        heard.hints.clear()
        (root / "new" / "deep" / "x.py").write_text("1")
        (root / "new" / "kept.py").write_text("2")
        heard.wait(lambda hints: {b"new/deep/x.py", b"new/kept.py"} <= dirty_files(hints))
        (root / "old").mkdir()
        hints.watch(b"old")
        (root / "old" / "y.py").write_text("1")
        heard.wait(lambda hints: b"old/y.py" in dirty_files(hints))


@linux
def test_a_folder_moved_away_is_not_watched_any_more(root: Path) -> None:
    with opened(root, "inotify") as (_, heard):
        (root / "old").rename(root.parent / "away")
        heard.wait(lambda hints: DirtyTreeHint(b"old") in hints)
        heard.hints.clear()
        (root.parent / "away" / "kept.py").write_text("5")
        drop(root, "end")
        heard.wait(lambda hints: Cookie(b"end") in hints)
        assert heard.hints == [Cookie(b"end")]


@linux
def test_directories_without_a_watch_are_named_with_the_remedy(root: Path) -> None:
    (root / "second").mkdir()
    (root.parent / "sync").mkdir()
    instances = InotifyInstances()
    hints = InotifyHints(os.fsencode(root), os.fsencode(root.parent / "sync"), instances)
    hints.start(Heard())
    instances.budget = instances.watch_count + 1  # the root has its watch already
    watch_all(hints, root)
    unwatched = hints.unwatched()
    assert len(unwatched) == 1
    assert "sysctl fs.inotify.max_user_watches=" in (hints.trouble or "")
    shutil.rmtree(root / os.fsdecode(unwatched[0]))
    deadline = time.monotonic() + 60
    while hints.unwatched() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert hints.unwatched() == ()
    hints.close()


@linux
@pytest.mark.parametrize("is_watched", [True, False])
@pytest.mark.parametrize("is_moved", [True, False])
def test_directories_without_a_watch_are_forgotten_with_those_above(
    root: Path, is_moved: bool, is_watched: bool
) -> None:
    """No event names them: a compiler that makes and removes directories would fill the memory."""
    (root / "made" / "x" / "y").mkdir(parents=True)
    (root.parent / "sync").mkdir()
    instances = InotifyInstances()
    hints = InotifyHints(os.fsencode(root), os.fsencode(root.parent / "sync"), instances)
    hints.start(Heard())
    hints.watch(b"")
    instances.budget = instances.watch_count + is_watched
    for directory in (b"made", b"made/x", b"made/x/y"):
        hints.watch(directory)
    assert len(hints.unwatched()) == 3 - is_watched
    if is_moved:
        (root / "made").rename(root.parent / "moved")
    else:
        shutil.rmtree(root / "made")
    deadline = time.monotonic() + 10
    while hints.unwatched() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert hints.unwatched() == ()
    assert hints.trouble is None
    hints.close()


@linux
def test_mounts_that_make_no_events_are_named(root: Path) -> None:
    (root.parent / "sync").mkdir()
    hints = InotifyHints(os.fsencode(root), os.fsencode(root.parent / "sync"), unseen=(b"old",))
    heard = Heard()
    hints.start(heard)
    watch_all(hints, root)
    assert hints.unwatched() == (b"old",)
    (root / "old" / "kept.py").write_text("2")
    drop(root, "end")
    heard.wait(lambda hints: Cookie(b"end") in hints)
    assert not heard.covers(b"old/kept.py")
    hints.close()


def test_without_a_sync_directory_everything_is_polled(root: Path) -> None:
    (root.parent / "file").touch()
    hints, reason = open_hints(
        os.fsencode(root), os.fsencode(root.parent / "file" / "x"), QUICK, Heard()
    )
    assert (hints.name, "cannot be made" in (reason or "")) == ("polling", True)


def test_a_sync_directory_that_takes_no_file_ends_what_began(root: Path) -> None:
    """A full disk, say: nothing is left running, however often it is tried again, and the root is
    polled.
    """
    sync_dir = root.parent / "sync"
    (sync_dir / os.fsdecode(PROBE)).mkdir(parents=True)
    thread_count = threading.active_count()
    hints, reason = open_hints(
        os.fsencode(root), os.fsencode(sync_dir), replace(QUICK, backend="watchfiles"), Heard()
    )
    assert (hints.name, "no file can be made" in (reason or "")) == ("polling", True)
    assert threading.active_count() == thread_count


@linux
def test_no_more_instances(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit belongs to the whole user, so taking what is left would fail other programs on this
    # machine.
    def refuse(**_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("cocosearchd.watching.hints.inotify_instances.INotify", refuse)
    with pytest.raises(HintsUnavailable, match=r"sysctl fs\.inotify\.max_user_instances=\d+"):
        InotifyHints(os.fsencode(root), os.fsencode(root.parent)).start(Heard())
    with opened(root, "inotify") as (hints, _):
        assert hints.name == "polling"
    _, reason = open_hints(os.fsencode(root), os.fsencode(root.parent / "sync"), QUICK, Heard())
    assert "max_user_instances" in (reason or "")


@linux
def test_no_file_handles_are_not_taken_for_no_instances(root: Path) -> None:
    previous_limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    hints = InotifyHints(os.fsencode(root), os.fsencode(root.parent))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, previous_limits[1]))
    try:
        with pytest.raises(HintsUnavailable, match="no file handles are left"):
            hints.start(lambda _: None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, previous_limits)


def test_the_kind_of_a_file_system_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "22 21 0:40 / /srv/my\\040share rw,relatime shared:1 - nfs4 server:/x rw\n"
        "23 21 0:41 / /srv/my rw - tmpfs none rw\n"
    )
    assert file_system(b"/srv/my share/project", mounts) == "nfs4"
    assert file_system(b"/srv/my/project", mounts) == "tmpfs"
    assert file_system(b"/srv/other", mounts) == "ext4"
    assert file_system(b"/x", tmp_path / "none") == ""
    assert inexact_below(b"/srv", mounts) == (b"my share",)
    assert inexact_below(b"/srv/my share", mounts) == ()
    monkeypatch.setattr("cocosearchd.watching.hints.backend_choice.file_system", lambda _: "nfs4")
    hints, reason = open_hints(
        os.fsencode(tmp_path), os.fsencode(tmp_path / "sync"), WatchingSettings(), Heard()
    )
    assert (hints.name, reason) == ("polling", "nfs4 may not report changes made elsewhere")


def test_a_mount_point_may_have_any_character(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_bytes(
        b"21 1 254:0 / / rw - ext4 /dev/vda rw\n"
        b"22 21 0:40 / /srv/a\rb rw - nfs4 server:/x rw\n"
        b"23 21 0:41 / /srv/\r rw - nfs4 server:/y rw\n"
        b"24 21 0:42 / /srv/a\\012b\\134040 rw - tmpfs none rw\n"
    )
    assert file_system(b"/srv/a\rb/project", mounts) == "nfs4"
    assert file_system(b"/srv/a\nb\\040/project", mounts) == "tmpfs"
    assert file_system(b"/srv/other", mounts) == "ext4"
    assert inexact_below(b"/srv", mounts) == (b"a\rb", b"\r")


UNKNOWN = [
    "9p",
    "beegfs",
    "fakeowner",
    "fuse",
    "fuse.ceph-fuse",
    "fuse.juicefs",
    "fuse.mergerfs",
    "fuse.mountpoint-s3",
    "gfs2",
    "gpfs",
    "nfs",
    "ocfs2",
    "of-tomorrow",
    "wekafs",
]
LOCAL = ["btrfs", "ext4", "fuseblk", "overlay", "tmpfs", "vfat", "xfs", "zfs"]


@linux
@pytest.mark.parametrize(
    ("kind", "backend", "expected"),
    [
        *[(kind, "auto", "polling") for kind in UNKNOWN],
        *[(kind, "auto", "inotify") for kind in LOCAL],
        ("of-tomorrow", "inotify", "inotify"),
    ],
)
def test_a_file_system_is_polled_unless_it_is_known_to_report_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, backend: str, expected: str
) -> None:
    """At and below a root; the setting `inotify` says that it does."""
    mounts = tmp_path / "mountinfo"
    root = os.fsencode(tmp_path / "root")
    (tmp_path / "root").mkdir()
    mounts.write_text(
        f"21 1 254:0 / / rw - ext4 /dev/vda rw\n22 21 0:40 / {os.fsdecode(root)} rw - {kind} x rw\n"
    )
    monkeypatch.setattr(
        backend_choice, "file_system", lambda path: file_system(path, mounts=mounts)
    )
    settings = WatchingSettings(backend=backend)  # type: ignore[arg-type]
    hints, _ = open_hints(root, os.fsencode(tmp_path / "sync"), settings, Heard())
    hints.close()
    assert hints.name == expected
    unheard = (b"root",) if kind in (*UNKNOWN, "of-tomorrow") else ()
    assert inexact_below(os.fsencode(tmp_path), mounts) == unheard


@linux
def test_a_person_who_saves_is_heard_at_once_and_a_checkout_in_lots() -> None:
    burst, now, hints = Burst(), 100.0, [DirtyHint(b"a.py")]
    assert not any(burst.pause(now + number * 1e-4, hints) for number in range(BURST_READS))
    assert burst.pause(now + 1e-2, hints) == GATHER_S
    assert burst.pause(now + 1e-2 + GATHER_S, hints) == GATHER_S, (
        "it lasts as long as events keep coming"
    )
    assert burst.pause(now + 1, hints) == 0, "and ends when they do not"


@linux
def test_hints_tell_the_end_of_a_write_in_place(root: Path) -> None:
    with opened(root, "inotify") as (_, heard):
        with (root / "top.py").open("r+") as file:
            file.write("x = 1")
            file.flush()
            heard.wait(lambda hints: DirtyHint(b"top.py", "write") in hints)
            assert DirtyHint(b"top.py", "close") not in heard.hints
        heard.wait(lambda hints: hints[-1] == DirtyHint(b"top.py", "close"))


@linux
def test_a_new_file_and_a_renamed_one_are_no_write_in_place(root: Path) -> None:
    with opened(root, "inotify") as (_, heard):
        (root / "temporary.py").write_text("x = 1")
        heard.wait(lambda hints: DirtyHint(b"temporary.py", "entry") in hints)
        (root / "temporary.py").replace(root / "top.py")
        heard.wait(lambda hints: DirtyHint(b"top.py", "entry") in hints)


@linux
def test_events_that_are_read_together_give_one_hint_a_file(root: Path) -> None:
    with opened(root, "inotify") as (_, heard):
        heard.stopped.clear()  # what comes now is read at once, after this
        (root / "new.py").write_text("x")
        assert heard.blocked.wait(60)
        (root / "top.py").write_text("x")
        (root / "other.py").write_text("x")
        heard.stopped.set()
        heard.wait(lambda hints: b"other.py" in dirty_files(hints))
        hints = heard.hints[-2:]
    assert hints == [DirtyHint(b"top.py", "close"), DirtyHint(b"other.py", "entry")]


@linux
def test_questions_in_a_row_are_no_checkout() -> None:
    """A cookie each: who asks again within milliseconds is not to wait for others."""
    burst, now = Burst(), 100.0
    assert not any(
        burst.pause(now + number * 1e-3, [Cookie(b"asked")]) for number in range(10 * BURST_READS)
    )
    hints = [DirtyHint(b"a.py")]
    assert not any(burst.pause(now + number * 1e-4, hints) for number in range(BURST_READS))
    assert burst.pause(now + 1e-2, [Cookie(b"asked")]) == 0
    assert burst.pause(now + 1e-2, [*hints, Cookie(b"asked")]) == GATHER_S


@linux
def test_events_gather_while_a_tree_is_rewritten_and_closing_does_not_wait_for_that(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cocosearchd.watching.hints.inotify_instances.BURST_S", 60.0)
    monkeypatch.setattr("cocosearchd.watching.hints.inotify_instances.GATHER_S", 60.0)
    with opened(root, "inotify") as (hints, heard):
        for number in range(BURST_READS + 1):
            (root / "old" / "kept.py").chmod(0o600 + number % 2)  # one event each
            heard.wait(lambda hints: len(hints) > number)  # noqa: B023 - called before the next
        (root / "top.py").unlink()
        time.sleep(0.3)
        assert b"top.py" not in dirty_files(heard.hints)
        began = time.monotonic()
        hints.close()
        assert time.monotonic() - began < 30
