"""The verb `scip`: imports a precise index that a language's own indexer made, or removes it."""

import logging
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from time import monotonic
from urllib.parse import unquote, urlsplit

import anyio
import anyio.from_thread

from cocosearch_ipc import graph_protocol as g
from cocosearchd.api.index_sync import IndexSync
from cocosearchd.errors import TIMED_OUT, InvalidInput, NotFound
from cocosearchd.forms.path_forms import path_bytes, path_text
from cocosearchd.graph.code_files import CodeFile, CodeFiles
from cocosearchd.graph.scip import precise_uses
from cocosearchd.graph.scip.scip_matches import ScipMatcher
from cocosearchd.graph.scip.scip_reader import ScipDocument, ScipMetadata, read_index
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.model import IndexRecord
from cocosearchd.runtime.files.nofollow import status_of
from cocosearchd.runtime.files.regular_files import IrregularFile, open_regular
from cocosearchd.search.answers.disk_files import VerifiedFiles
from cocosearchd.store.connection.database import Database
from cocosearchd.store.precise_use_rows import (
    PreciseUseRow,
    delete_precise_uses,
    replace_precise_uses,
)

log = logging.getLogger(__name__)

MAX_FILE = 512 << 20  # bytes of a SCIP index: about 10 MB are read in a second
IMPORT_S = 120.0
_SPLIT = "make an index of a part of the project, and import one part after the other"


@dataclass(frozen=True, slots=True)
class _Import:
    """The uses that a SCIP index states in the files of an index."""

    rows: Sequence[PreciseUseRow]
    use_count: int
    skipped: dict[str, int]


class PreciseIndexVerbs:
    """Implements the verb about precise indexes."""

    def __init__(
        self, db: Database, indexes: IndexRegistry, sync: IndexSync, disk: VerifiedFiles
    ) -> None:
        self._db = db
        self._indexes = indexes
        self._sync = sync
        self._disk = disk
        self._slot = anyio.CapacityLimiter(1)  # an import is long

    async def scip(self, request: g.ScipRequest) -> g.ScipReply:
        """Import a SCIP index, or remove all imported uses."""
        index = await self._indexes.lookup.select(request.index, request.cwd)
        index.check_owned()
        if index.error is not None:
            raise index.error
        if request.remove:
            async with self._changing_uses(index) as record:
                count = await delete_precise_uses(self._db, record)
            return g.ScipReply(index.record.name, removed=count)
        if not request.path.startswith("/"):
            raise InvalidInput(f"{request.path!r} is not an absolute path", "give the whole path")
        await self._sync.wait(index, self._sync.deadline(request.sync_timeout_ms))
        imported = await index.graph.ask(
            lambda files: self._read(index, files, request.path), slots=self._slot
        )
        async with self._changing_uses(index) as record:
            await replace_precise_uses(self._db, record, imported.rows)
        reply = g.ScipReply(
            index.record.name,
            files=len(imported.rows),
            uses=imported.use_count,
            skipped=imported.skipped,
        )
        log.info(
            "scip_imported",
            extra={"index": reply.index, "files": reply.files, "uses": reply.uses},
        )
        return reply

    @asynccontextmanager
    async def _changing_uses(self, index: RunningIndex) -> AsyncIterator[IndexRecord]:
        """Yield the index that has the name of `index` by now, and let no other take its place.

        Its graph forgets its files also after a failure: the commit may have arrived.
        """
        async with index.lock:
            current = self._indexes.lookup.get(index.record.name)
            try:
                yield current.record
            finally:
                current.use_imports += 1
                current.graph.forget_files()

    def _read(self, index: RunningIndex, files: CodeFiles, path: str) -> _Import:
        """Read a SCIP index, in a thread. Raises `InvalidInput` and `NotFound`."""
        reader = _SourceReader(index.record, self._disk)
        try:
            handle = open_regular(os.fsencode(path), limit=MAX_FILE, follow_links=True)
            with os.fdopen(handle, "rb") as file:
                reader.newest_ns = os.fstat(handle).st_mtime_ns
                parts = _limit_time(read_index(file))
                matcher = _match(parts, index.record, files, reader)
        except FileNotFoundError:
            raise NotFound(f"{path} does not exist", "give the path of a SCIP index") from None
        except IrregularFile as error:
            reason = str(error.strerror)
            raise InvalidInput(f"{path} cannot be read: {reason}", _SPLIT) from None
        except OSError as error:
            raise InvalidInput(
                f"{path} cannot be read: {error.strerror}", "make it readable for the daemon"
            ) from None
        return _pack(matcher, index.record)


class _SourceReader:
    """Reads the files of an index that a SCIP index describes, from a question's thread."""

    def __init__(self, record: IndexRecord, disk: VerifiedFiles) -> None:
        self._record = record
        self._disk = disk
        self.newest_ns = 0  # when the SCIP index was written

    def read_text(self, file: CodeFile) -> str | None:
        """Return the text of a file; None if it changed after the SCIP index, or was not indexed."""
        return anyio.from_thread.run(
            self._disk.run_bounded, self._record.root, lambda: self._read_text(file)
        )

    def _read_text(self, file: CodeFile) -> str | None:
        root = self._record.root
        try:
            status = status_of(root.rstrip(b"/") + b"/" + path_bytes(file.path))
        except OSError:
            return None
        if status.st_mtime_ns > self.newest_ns:
            return None
        contents = self._disk.verified(root, file.path, file.content_hash)
        return None if contents is None else contents.data.decode("utf-8", "replace")


def _limit_time(
    parts: Iterator[ScipMetadata | ScipDocument],
) -> Iterator[ScipMetadata | ScipDocument]:
    """Yield the parts of a SCIP index until the request is cancelled.

    Raises `InvalidInput` when they take too long.
    """
    end = monotonic() + IMPORT_S
    for part in parts:
        anyio.from_thread.check_cancelled()
        if monotonic() > end:
            raise InvalidInput(
                f"The SCIP index was not read in {IMPORT_S:.0f} seconds", _SPLIT, code=TIMED_OUT
            )
        yield part


def _match(
    parts: Iterator[ScipMetadata | ScipDocument],
    record: IndexRecord,
    files: CodeFiles,
    reader: _SourceReader,
) -> ScipMatcher:
    """Match all documents with the files of an index."""
    matcher = ScipMatcher(files, reader.read_text)
    for number, part in enumerate(parts):
        if isinstance(part, ScipDocument):
            matcher.add(part)
        elif number == 0:  # metadata comes first
            matcher.directory = _project_directory(part.project_root, record)
    return matcher


def _project_directory(project_root: str, record: IndexRecord) -> str:
    """Return the directory of a project relative to the root of an index.

    Raises `InvalidInput` if the directory is not inside of the root.
    """
    if not project_root:
        return ""
    directory = PurePosixPath(os.path.realpath(unquote(urlsplit(project_root).path) or "/"))
    root = PurePosixPath(os.fsdecode(record.root))
    if not directory.is_relative_to(root):
        raise InvalidInput(
            f"The SCIP index is of {project_root}, and {record.name} is of {root}",
            "name the index of that project with --index, or make the SCIP index there",
        )
    relative = os.fsencode(directory.relative_to(root))
    return "" if relative == b"." else path_text(relative)


def _pack(matcher: ScipMatcher, record: IndexRecord) -> _Import:
    """Pack the uses of all files that were matched. Raises `InvalidInput` if there is none."""
    rows = list[PreciseUseRow]()
    use_count = 0
    for file in matcher.finish():
        packed = precise_uses.pack(file.uses)
        if packed:
            rows.append(PreciseUseRow(file.path, file.content_hash, packed))
            use_count += len(file.uses)
    if not rows:
        raise InvalidInput(*_describe_emptiness(matcher, record))
    return _Import(rows, use_count, dict(matcher.skipped))


def _describe_emptiness(matcher: ScipMatcher, record: IndexRecord) -> tuple[str, str]:
    """Return why nothing was imported, and what to do."""
    root = os.fsdecode(record.root)
    if changed := matcher.skipped["changed"]:
        return (
            f"All {changed:,} files of the SCIP index that are in {record.name} changed after it",
            f"make the SCIP index again in {root}",
        )
    if missing := matcher.skipped["not_indexed"]:
        return (
            f"None of the {missing:,} documents of the SCIP index is a file of {record.name}",
            f"make the SCIP index in {root}",
        )
    return (
        f"The SCIP index has no use of a name that {record.name} has",
        f"make the SCIP index again in {root}",
    )
