"""A crash journal: the files that an index was applying when the process froze or died.

No file has killed or frozen a process here since the project began. If one did, every start would
read the same file again. Therefore files are named on disk while they are applied: one small write
each, which survives a killed process. The next start applies the named files one by one.

A file is left out until its content changes only if the watchdog ended a frozen process while it
was the only file. Every other end may have come from outside: memory ran out, power failed, or
somebody killed the process. Therefore a file that was the only one at several such ends in a row is
left out for a while, then tried again.
"""

import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from cocosearchd.exclusion import exclusion_sentence

log = logging.getLogger(__name__)

# Name of the file that the watchdog writes into the state directory before it ends a frozen
# process.
FROZE = "froze"
STRIKES = 2  # freezes in catch-ups before indexing pauses
# Ends of the process at the same file alone, without a freeze, until the file is postponed. It is
# then left out for a pause that doubles with each further end.
ENDS = 3
FIRST_PAUSE_S = 3600.0
LAST_PAUSE_S = 86_400.0


class StoredGeneration(Protocol):
    """A file in PostgreSQL. Each content of a file has its own generation."""

    @property
    def path(self) -> str: ...

    @property
    def generation(self) -> int: ...


File = TypeVar("File", bound=StoredGeneration)


@dataclass(slots=True)
class _Content:
    """The content of the journal: files by path, each with its generation.

    A suspect also has the number of ends at which it was the only file. A postponed file has the
    time, in seconds since 1970, from which it is tried again.
    """

    under_way: dict[str, int] = field(default_factory=dict)
    suspects: dict[str, tuple[int, int]] = field(default_factory=dict)
    postponed: dict[str, tuple[int, float]] = field(default_factory=dict)
    frozen: dict[str, int] = field(default_factory=dict)
    catching_up: bool = False
    strikes: int = 0  # freezes during a catch-up with no file under way


class ApplyJournal:
    """The crash journal of one index.

    Its writes are blocking; each writes a few kilobytes to the page cache.
    """

    def __init__(self, file: Path, marker: Path) -> None:
        """Read the journal. A `marker` newer than `file` means that the last process froze."""
        self._file = file
        self._content = _read(file)
        # True after two freezes in catch-ups with no file under way: then indexing waits for the
        # next start.
        self.paused = False
        self._judge(frozen=_modified(marker) >= _modified(file) > 0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for `status` about excluded files and paused reading."""
        lines = (
            *(exclusion_sentence(path, "froze") for path in self._content.frozen),
            *(exclusion_sentence(path, "ended") for path in self._content.postponed),
        )
        if self.paused:
            reason = "because that froze the daemon twice; the next start tries again"
            lines += (f"words of this index are not read, {reason}",)
        return lines

    @property
    def excluded_paths(self) -> tuple[str, ...]:
        """Paths of excluded files, in order: stored files that no snapshot has."""
        return tuple(sorted(self._content.frozen.keys() | self._content.postponed.keys()))

    def due_files(self) -> dict[str, int]:
        """Return the generations, by path, of postponed files that are to be tried again."""
        return {
            path: generation
            for path, (generation, _) in self._content.postponed.items()
            if not self._is_postponed(path, generation)
        }

    def batches(self, files: Sequence[File]) -> Iterator[list[File]]:
        """Yield batches of the files to apply, without excluded files. Each suspect is alone."""
        allowed = [
            file
            for file in files
            if self._content.frozen.get(file.path) != file.generation
            and not self._is_postponed(file.path, file.generation)
        ]
        unsuspected = [file for file in allowed if file.path not in self._content.suspects]
        if unsuspected:
            yield unsuspected
        for file in allowed:
            if file.path in self._content.suspects:
                yield [file]

    @contextmanager
    def applying(self, files: Sequence[StoredGeneration]) -> Iterator[None]:
        """Name files in the journal while they are applied.

        They are cleared at the end, also after a failure that does not end the process.
        """
        generations = {file.path: file.generation for file in files}
        self._content.under_way |= generations
        self._write()
        try:
            yield
        finally:
            for path in generations:
                self._content.under_way.pop(path, None)
                self._remove(path)
            self._write()

    def retain(self, generations: Mapping[str, int]) -> None:
        """Drop files that are gone, or have another generation than this one."""
        content = self._content
        stale = {
            path
            for path, generation in (
                *content.frozen.items(),
                *((path, file[0]) for path, file in content.postponed.items()),
            )
            if generations.get(path) != generation
        }
        self.drop(stale)

    def drop(self, paths: Iterable[str]) -> None:
        """Drop files that are gone, or whose content needs no applying."""
        content = self._content
        known_paths = content.suspects.keys() | content.postponed.keys() | content.frozen.keys()
        dropped = known_paths.intersection(paths)
        for path in dropped:
            self._remove(path)
        if dropped:
            self._write()

    @contextmanager
    def catching_up(self) -> Iterator[None]:
        """Record that a catch-up over all files is under way."""
        self._content.catching_up = True
        self._write()
        try:
            yield
        finally:
            self._content.catching_up = False
            self._content.strikes = 0
            self._write()

    def forget(self) -> None:
        """Delete the journal, because its index is gone."""
        self._content = _Content()
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

    def _judge(self, *, frozen: bool) -> None:
        """Update suspects and excluded files from the files that were under way at the last end."""
        previous = replace(self._content)
        interrupted = self._content.under_way
        self._content.under_way = {}
        is_only_file = len(interrupted) == 1
        for path, generation in interrupted.items():
            if is_only_file and frozen:
                self._remove(path)
                self._content.frozen[path] = generation
                _log_exclusion(path, "froze")
            else:
                self._suspect(path, generation, is_only_file=is_only_file)
        self._content.strikes += frozen and self._content.catching_up and not interrupted
        self._content.catching_up = False
        if self._content.strikes >= STRIKES:
            self.paused = True
            self._content.strikes = 0
            log.error("words_paused", extra={"journal": str(self._file)})
        if self._content != previous:
            self._write()

    def _suspect(self, path: str, generation: int, *, is_only_file: bool) -> None:
        """Suspect a file of an end that may have come from outside; postpone it after `ENDS`."""
        suspect_generation, ends = self._content.suspects.get(path, (generation, 0))
        ends = is_only_file + (ends if suspect_generation == generation else 0)
        self._content.suspects[path] = (generation, ends)
        if is_only_file and ends >= ENDS:
            pause_s = min(FIRST_PAUSE_S * 2 ** min(ends - ENDS, 30), LAST_PAUSE_S)
            self._content.postponed[path] = (generation, time.time() + pause_s)
            _log_exclusion(path, "ended")

    def _is_postponed(self, path: str, generation: int) -> bool:
        postponed_generation, until = self._content.postponed.get(path, (-1, 0.0))
        # a clock that was set back does not prolong a pause
        return postponed_generation == generation and 0 < until - time.time() <= LAST_PAUSE_S

    def _remove(self, path: str) -> None:
        for files in (self._content.suspects, self._content.postponed, self._content.frozen):
            files.pop(path, None)

    def _write(self) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # The file is written in place: a kill between the two calls loses the journal, but
            # never an index.
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
    """Read the journal; it is empty for a missing or torn file, or one of another version."""
    try:
        return _Content(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return _Content()


def _log_exclusion(path: str, code: str) -> None:
    log.error("file_left_out", extra={"path": path, "reason": exclusion_sentence(path, code)})


def _modified(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
