"""The index file of a repository, opened for git: its parts, and the paths that git tracks."""

import contextlib
import itertools
import mmap
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cocosearchd.forms.path_forms import path_text
from cocosearchd.runtime.files.regular_files import is_temporary_error, open_regular
from cocosearchd.watching.git.git_command import (
    MEMORY_BYTES,
    GitCall,
    GitRefused,
    GitUnresponsive,
    run_git,
)

MAX_INDEX_BYTES = 256 << 20  # chromium's, of 480,000 files, has 70 MB
MAX_SHARED = 16  # parts of a split index that are read
# With these options git does not expand the directories of a sparse index (`sdir`), so it needs no
# objects. `_LINK` matches the extension that names the other part of a split index: its size, and an
# object id (gitformat-index(5)).
_SPARSE = (
    "-c",
    "core.sparseCheckout=true",
    "-c",
    "core.sparseCheckoutCone=true",
    "-c",
    "index.sparse=true",
)
_LINK = re.compile(rb"link.{4}(.{20})(.{12})?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GitIndex:
    """An open index: its descriptor, those of its other parts, and what git needs to read it."""

    descriptor: int
    shared: Mapping[str, int]  # name -> descriptor
    sparse: bool
    size: int  # bytes, with all parts

    @property
    def options(self) -> tuple[str, ...]:
        """Options of git, in front of its command."""
        return _SPARSE if self.sparse else ()

    @property
    def texts(self) -> Mapping[str, bytes]:
        """Files that git needs in its directory."""
        return {"info/sparse-checkout": b"/*\n!/*/\n"} if self.sparse else {}

    @property
    def memory(self) -> int:
        """Bytes of memory that git may use to read the index."""
        return MEMORY_BYTES + 8 * self.size


@contextlib.contextmanager
def open_index(git_dir: bytes, object_format: str) -> Iterator[GitIndex | None]:
    """Open the index of a repository; None if it has none.

    Raises `GitRefused` and `GitUnresponsive`.
    """
    path = os.path.join(git_dir, b"index")
    with contextlib.ExitStack() as stack:
        try:
            index = _open_part(path, stack)
            size = os.fstat(index).st_size
            sparse, identifiers = _extensions(index, object_format)
            shared = dict(_shared_parts(git_dir, identifiers, stack))
        except (FileNotFoundError, NotADirectoryError):
            opened = None
        except OSError as error:
            failure = GitUnresponsive if is_temporary_error(error) else GitRefused
            raise failure(f"{path_text(path)}: {error.strerror}") from error
        else:
            size += sum(os.fstat(descriptor).st_size for descriptor in shared.values())
            opened = GitIndex(index, shared, sparse, size)
        yield opened


def tracked_paths(git_dir: bytes, object_format: str) -> tuple[bytes, ...]:
    """Return the sorted paths in the index of a repository.

    Raises `GitRefused` and `GitUnresponsive`.
    """
    with open_index(git_dir, object_format) as index:
        if index is None:
            return ()
        call = GitCall(
            arguments=(
                *index.options,
                "ls-files",
                "-z",
                "--cached",
                *(["--sparse"] if index.sparse else []),
            ),
            texts=index.texts,
            index=index.descriptor,
            links=index.shared,
            object_format=object_format,
            memory=index.memory,
            output_limit=index.memory,
        )
        return tuple(sorted(set(filter(None, run_git(call).split(b"\0")))))


def _open_part(path: bytes, stack: contextlib.ExitStack) -> int:
    descriptor = open_regular(path, limit=MAX_INDEX_BYTES)
    stack.callback(os.close, descriptor)
    return descriptor


def _extensions(index: int, object_format: str) -> tuple[bool, tuple[bytes, ...]]:
    """Return whether an index may be sparse, and the ids of the other parts if it may be split.

    Bytes that only look like an extension do no harm: there is no such file, or no directory is
    left out.
    """
    if not os.fstat(index).st_size:
        return False, ()
    with mmap.mmap(index, 0, access=mmap.ACCESS_READ) as content:
        links = itertools.islice(_LINK.finditer(content), MAX_SHARED)
        identifiers = [
            link[1] + (link[2] or b"") if object_format == "sha256" else link[1] for link in links
        ]
        return content.find(b"sdir\0\0\0\0") >= 0, tuple(dict.fromkeys(identifiers))


def _shared_parts(
    git_dir: bytes, identifiers: tuple[bytes, ...], stack: contextlib.ExitStack
) -> Iterator[tuple[str, int]]:
    """Yield name and descriptor of each other part of a split index, `sharedindex.<object id>`."""
    for identifier in identifiers:
        name = f"sharedindex.{identifier.hex()}"
        with contextlib.suppress(FileNotFoundError):
            yield name, _open_part(os.path.join(git_dir, name.encode()), stack)
