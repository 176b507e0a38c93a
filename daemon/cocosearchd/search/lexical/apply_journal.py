"""A crash journal: which files were being taken into the words of an index when the process froze
or died.

What is read of files here has ended or frozen no process for as long as this project exists; if it
does, the next start would read the same files again, for ever. So they are named on disk before,
and no more after: one small write each, which a killed process does not lose. The next start takes
those files in one by one. A file that was alone when the watchdog ended the process, or that was
named at two ends without having been taken in between, is left out until its content changes.
"""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from cocosearchd.exclusion import exclusion_sentence

log = logging.getLogger(__name__)

FROZE = "froze"  # in the state directory: written by the watchdog before it ends a frozen process
STRIKES = 2  # freezes at the same work


class StoredGeneration(Protocol):
    """A file as PostgreSQL has it; another content has another generation."""

    @property
    def path(self) -> str: ...

    @property
    def generation(self) -> int: ...


File = TypeVar("File", bound=StoredGeneration)


@dataclass(slots=True)
class _Content:
    """The file itself. `under_way`, `suspects` and `left_out` are generations by path."""

    under_way: dict[str, int] = field(default_factory=dict)
    suspects: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    catching_up: bool = False
    strikes: int = 0  # freezes while it caught up, with no file under way


class ApplyJournal:
    """Of one index. Blocking: each write is a few kilobytes to the page cache."""

    def __init__(self, file: Path, marker: Path) -> None:
        """`marker` is newer than `file` if the process was frozen when that was written last."""
        self._file = file
        self._content = _read(file)
        # two freezes while it caught up, and no file to be blamed: words wait for another start
        self.paused = False
        self._judge(frozen=_modified(marker) >= _modified(file) > 0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """For `status`: what is left out, and why."""
        lines = tuple(exclusion_sentence(path, "froze") for path in self._content.left_out)
        if self.paused:
            lines += (
                "words of this index are not read, as that froze the daemon twice; its next start tries again",
            )
        return lines

    def batches(self, files: Sequence[File]) -> Iterator[list[File]]:
        """The files that may be taken in, suspects each alone; without those that are left out as
        they are now.
        """
        allowed = [
            file for file in files if self._content.left_out.get(file.path) != file.generation
        ]
        calm = [file for file in allowed if file.path not in self._content.suspects]
        if calm:
            yield calm
        for file in allowed:
            if file.path in self._content.suspects:
                yield [file]

    @contextmanager
    def applying(self, files: Sequence[StoredGeneration]) -> Iterator[None]:
        """Name files for as long as they are under way. What fails without ending the process
        clears them as well.
        """
        named = {file.path: file.generation for file in files}
        self._content.under_way |= named
        self._write()
        try:
            yield
        finally:
            for path in named:
                self._content.under_way.pop(path, None)
                self._content.suspects.pop(path, None)
                self._content.left_out.pop(path, None)
            self._write()

    @contextmanager
    def catching_up(self) -> Iterator[None]:
        """As `applying`, for work on all files."""
        self._content.catching_up = True
        self._write()
        try:
            yield
        finally:
            self._content.catching_up, self._content.strikes = False, 0
            self._write()

    def forget(self) -> None:
        """The index is gone."""
        self._content = _Content()
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    def _judge(self, *, frozen: bool) -> None:
        """Learn from what was under way when the process before this one ended."""
        before = replace(self._content)
        content, self._content.under_way = self._content.under_way, {}
        alone = len(content) == 1
        for path, generation in content.items():
            if alone and (frozen or path in self._content.suspects):
                self._content.suspects.pop(path, None)
                self._content.left_out[path] = generation
                log.error(
                    "file_left_out",
                    extra={"path": path, "reason": exclusion_sentence(path, "froze")},
                )
            else:
                self._content.suspects[path] = generation
        self._content.strikes += frozen and self._content.catching_up and not content
        self._content.catching_up = False
        if self._content.strikes >= STRIKES:
            self.paused, self._content.strikes = True, 0
            log.error("words_paused", extra={"journal": str(self._file)})
        if self._content != before:
            self._write()

    def _write(self) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Not renamed: a process that is killed between these loses a journal, never an index.
            handle = os.open(
                self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
            try:
                data = json.dumps(asdict(self._content)).encode()
                os.pwrite(handle, data, 0)
                os.ftruncate(handle, len(data))
            finally:
                os.close(handle)
        except OSError as error:
            log.warning(
                "journal_not_written", extra={"path": str(self._file), "error": error.strerror}
            )


def _read(file: Path) -> _Content:
    """What is there; nothing for a file that is missing or torn."""
    try:
        return _Content(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return _Content()


def _modified(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
