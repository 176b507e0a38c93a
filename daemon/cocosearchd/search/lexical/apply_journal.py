"""A crash journal: the files that an index was applying when the process froze or died.

No file has killed or frozen a process here since the project began. If one did, every start would
read the same file again. Therefore files are named on disk while they are applied: one small write
each, which survives a killed process. The next start applies the named files one by one. A file is
left out until its content changes in two cases: it was the only file when the watchdog ended a
frozen process; or it was named when the process ended twice, and was never applied in between.
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

# Name of the file that the watchdog writes into the state directory before it ends a frozen
# process.
FROZE = "froze"
STRIKES = 2  # freezes in catch-ups before indexing pauses


class StoredGeneration(Protocol):
    """A file in PostgreSQL. Each content of a file has its own generation."""

    @property
    def path(self) -> str: ...

    @property
    def generation(self) -> int: ...


File = TypeVar("File", bound=StoredGeneration)


@dataclass(slots=True)
class _Content:
    """The content of the journal. `under_way`, `suspects` and `left_out` map paths to generations."""

    under_way: dict[str, int] = field(default_factory=dict)
    suspects: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
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
        lines = tuple(exclusion_sentence(path, "froze") for path in self._content.left_out)
        if self.paused:
            reason = "because that froze the daemon twice; the next start tries again"
            lines += (f"words of this index are not read, {reason}",)
        return lines

    def batches(self, files: Sequence[File]) -> Iterator[list[File]]:
        """Yield batches of the files to apply. Each suspect is is_only_file; excluded files are
        left out.
        """
        allowed = [
            file for file in files if self._content.left_out.get(file.path) != file.generation
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
                self._content.suspects.pop(path, None)
                self._content.left_out.pop(path, None)
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
        """Update suspects and left-out files from the files that were under way at the last end."""
        previous = replace(self._content)
        interrupted = self._content.under_way
        self._content.under_way = {}
        is_only_file = len(interrupted) == 1
        for path, generation in interrupted.items():
            if is_only_file and (frozen or path in self._content.suspects):
                self._content.suspects.pop(path, None)
                self._content.left_out[path] = generation
                log.error(
                    "file_left_out",
                    extra={"path": path, "reason": exclusion_sentence(path, "froze")},
                )
            else:
                self._content.suspects[path] = generation
        self._content.strikes += frozen and self._content.catching_up and not interrupted
        self._content.catching_up = False
        if self._content.strikes >= STRIKES:
            self.paused = True
            self._content.strikes = 0
            log.error("words_paused", extra={"journal": str(self._file)})
        if self._content != previous:
            self._write()

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
    """Read the journal; it is empty for a missing or torn file."""
    try:
        return _Content(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return _Content()


def _modified(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
