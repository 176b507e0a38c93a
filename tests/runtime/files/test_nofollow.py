"""Opening a path without symbolic links in any component, by both system calls."""

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from cocosearchd.runtime.files import nofollow
from cocosearchd.runtime.files.nofollow import (
    FilesBelow,
    directory_identity,
    first_link,
    open_absolute,
    open_below,
    status_of,
)
from tests.hostile.swapper import swapping

LINKED = (errno.ELOOP, errno.ENOTDIR)


@pytest.fixture(params=["openat2", "chain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to open; the second is that of systems without openat2(2)."""
    if request.param == "chain":
        monkeypatch.setattr(nofollow, "_openat2", lambda: None)
    elif nofollow._openat2() is None:
        pytest.skip("this kernel, or a sandbox, has no openat2")
    return str(request.param)


@pytest.fixture
def tree(tmp_path: Path, way: str) -> Path:
    """`real/sub/a.py`, and links to each part of it."""
    tmp_path = tmp_path.resolve()
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "real" / "sub" / "a.py").write_text("real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "relative").symlink_to("sub")
    (tmp_path / "real" / "sub" / "link.py").symlink_to("a.py")
    (tmp_path / "real" / "sub" / "dangling.py").symlink_to("nowhere")
    (tmp_path / "real" / "process").symlink_to("/proc/self")
    return tmp_path


def content(path: Path) -> bytes:
    handle = open_absolute(bytes(path), os.O_RDONLY)
    try:
        return os.read(handle, 100)
    finally:
        os.close(handle)


def content_below(path: Path) -> bytes:
    """The content of a file that is opened after another one of its directory."""
    folder = os.open("/", os.O_RDONLY)
    files = FilesBelow(folder)
    try:
        with suppress(OSError):
            files.open(bytes(path.parent / "no such file").lstrip(b"/"))
        handle = files.open(bytes(path).lstrip(b"/"))
        try:
            return os.read(handle, 100)
        finally:
            os.close(handle)
    finally:
        files.close()
        os.close(folder)


def test_files_of_several_directories_are_opened(tree: Path) -> None:
    (tree / "top.py").write_text("top")
    (tree / "real" / "b.py").write_text("b")
    paths = [b"real/sub/a.py", b"real/b.py", b"top.py", b"real/b.py", b"real/sub/a.py"]
    folder = os.open(tree, os.O_RDONLY)
    files = FilesBelow(folder)
    handle_count = len(list(Path("/proc/self/fd").iterdir()))
    contents = []
    for path in paths:
        handle = files.open(path)
        contents.append(os.read(handle, 100))
        os.close(handle)
        for wrong in (b"real/no.py", b"real/sub/..", b"real/../top.py", b"real/sub/a.py/x"):
            with pytest.raises(OSError):
                files.open(wrong)
        with pytest.raises(ValueError):
            files.open(b"real/a\0.py")
    files.close()
    assert contents == [b"real", b"b", b"top", b"b", b"real"]
    assert len(list(Path("/proc/self/fd").iterdir())) == handle_count
    os.close(folder)


def test_a_plain_path_is_opened(tree: Path) -> None:
    assert content(tree / "real/sub/a.py") == b"real"
    assert status_of(bytes(tree / "real/sub/a.py")).st_size == 4
    status = (tree / "real").stat()
    assert directory_identity(bytes(tree / "real")) == (status.st_dev, status.st_ino)
    assert directory_identity(b"/") is not None


@pytest.mark.parametrize(
    "path",
    [
        "link/sub/a.py",
        "real/relative/a.py",
        "real/sub/link.py",
        "real/sub/dangling.py",
        "real/process/status",
        "link",
    ],
)
@pytest.mark.parametrize(
    "use",
    [content, content_below, lambda path: status_of(bytes(path))],
    ids=["open", "open_below", "status"],
)
def test_a_link_anywhere_in_a_path_is_refused(
    tree: Path, path: str, use: Callable[[Path], object]
) -> None:
    with pytest.raises(OSError) as failed:
        use(tree / path)
    assert failed.value.errno in LINKED
    assert directory_identity(bytes(tree / path)) is None


def test_no_path_leads_out_of_a_directory(tree: Path) -> None:
    folder = os.open(tree / "real" / "sub", os.O_RDONLY)
    try:
        os.close(open_below(folder, b"a.py", os.O_RDONLY))
        for path in (b"../sub/a.py", b"link.py"):
            with pytest.raises(OSError):
                open_below(folder, path, os.O_RDONLY)
        with pytest.raises(ValueError):
            open_below(folder, b"a\0.py", os.O_RDONLY)
    finally:
        os.close(folder)


def test_a_pipe_is_not_waited_for(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    os.close(open_absolute(bytes(tree / "pipe"), os.O_RDONLY))


def test_the_outermost_link_is_named(tree: Path) -> None:
    assert first_link(bytes(tree / "link/relative/a.py")) == bytes(tree / "link")
    assert first_link(bytes(tree / "real/sub/a.py")) is None


def test_descriptors_do_not_add_up(tree: Path) -> None:
    handle_count = len(list(Path("/proc/self/fd").iterdir()))
    for path in (
        "real/sub/a.py",
        "link/sub/a.py",
        "real/relative/a.py",
        "real/sub/link.py",
        "real/no/a.py",
    ):
        for _ in range(20):
            with suppress(OSError):
                content(tree / path)
            directory_identity(bytes(tree / path))
    assert len(list(Path("/proc/self/fd").iterdir())) == handle_count


@pytest.mark.parametrize("read", [content, content_below])
def test_a_directory_that_is_swapped_for_a_link_all_the_time_is_never_followed(
    tree: Path, read: Callable[[Path], bytes]
) -> None:
    """A check before the open would lose this race within milliseconds."""
    inside, secret = tree / "real" / "sub", tree / "secret"
    secret.mkdir()
    (secret / "a.py").write_text("secret")
    outcomes, end = {"real": 0, "refused": 0}, time.monotonic() + 20
    with swapping(inside, secret):
        while min(outcomes.values()) < 300 and time.monotonic() < end:
            try:
                assert read(inside / "a.py") == b"real"
                outcomes["real"] += 1
            except OSError:
                outcomes["refused"] += 1
    assert min(outcomes.values()) >= 300, outcomes
