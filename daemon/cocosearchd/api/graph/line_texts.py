"""Texts of lines that an answer names: from an unchanged file on disk, or from an unsaved file."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cocosearchd.model import IndexRecord
from cocosearchd.search.answers.disk_files import FileContents, VerifiedFiles
from cocosearchd.search.answers.stored_contents import StoredContentReader
from cocosearchd.search.overlay import Overlay
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_states import file_states

MAX_LINE = 200  # characters of a line that is shown
_LEAD = 60  # characters shown before the column
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class FileLines:
    """Lines of a file by number; none if the file has changed since it was indexed, or is away."""

    lines: Mapping[int, str]
    changed: bool = False
    overlay: bool = False


class LineTexts:
    """Reads lines of files of an index."""

    def __init__(self, db: Database, disk: VerifiedFiles, stored: StoredContentReader) -> None:
        self._db = db
        self._disk = disk
        self._stored = stored

    async def read(
        self,
        record: IndexRecord,
        overlay: Overlay | None,
        lines: Mapping[str, Collection[int]],
        generation: int,
    ) -> dict[str, FileLines]:
        """Read lines by path, as of a generation; a file of a later generation has changed.

        Every path has an entry. Raises `StoreUnavailable`.
        """
        unsaved = overlay.files if overlay is not None else {}
        texts = {
            path: FileLines(_pick(unsaved[path].text, numbers), overlay=True)
            for path, numbers in lines.items()
            if path in unsaved
        }
        saved = {path: numbers for path, numbers in lines.items() if path not in unsaved}
        return texts | (await self._read_saved(record, saved, generation) if saved else {})

    async def _read_saved(
        self, record: IndexRecord, lines: Mapping[str, Collection[int]], generation: int
    ) -> dict[str, FileLines]:
        states = (await file_states(self._db, record, list(lines))).files
        hashes = {
            path: state.content_hash
            for path, state in states.items()
            if state.generation <= generation
        }
        if record.is_followed:
            return await self._read_stored(record, lines, hashes)
        contents = await self._disk.run_bounded(
            record.root, lambda: self._read_all(record.root, lines, hashes)
        )
        missing = FileLines({}, changed=contents is not None)
        return {path: (contents or {}).get(path, missing) for path in lines}

    async def _read_stored(
        self,
        record: IndexRecord,
        lines: Mapping[str, Collection[int]],
        hashes: Mapping[str, bytes],
    ) -> dict[str, FileLines]:
        """Read lines of a followed index from its rows."""
        stored = await self._stored.read_versions(record, hashes)
        return {
            path: FileLines(_pick(stored[path].contents, numbers))
            if path in stored
            else FileLines({}, changed=True)
            for path, numbers in lines.items()
        }

    def _read_all(
        self,
        root: bytes,
        lines: Mapping[str, Collection[int]],
        hashes: Mapping[str, bytes],
    ) -> dict[str, FileLines]:
        """Read lines of files that still have these hashes; other files are left out."""
        texts = dict[str, FileLines]()
        for path, numbers in lines.items():
            contents = self._disk.verified(root, path, hashes[path]) if path in hashes else None
            if contents is not None:
                texts[path] = FileLines(_pick(contents, numbers))
        return texts


def clip_around_column(text: str, column: int) -> str:
    """Return a line without the blanks around it; of a long line, the part around a column."""
    start = len(text) - len(text.lstrip())
    text = text.strip()
    if len(text) <= MAX_LINE:
        return text
    first = max(0, min(column - 1 - start - _LEAD, len(text) - MAX_LINE))
    clipped = text[first : first + MAX_LINE]
    lead = _ELLIPSIS if first else ""
    return f"{lead}{clipped}{_ELLIPSIS if first + MAX_LINE < len(text) else ''}"


def _pick(contents: FileContents, numbers: Collection[int]) -> dict[int, str]:
    return {number: line for number in numbers for line in contents.lines(number, number)}
