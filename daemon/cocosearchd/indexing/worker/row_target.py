"""Where CocoIndex's decisions become rows.

CocoIndex remembers a tracking record per file and asks `reconcile` whether the wanted state
differs; if it does, it calls the sink, which has the rows made and written. Its memory and
PostgreSQL are two: `app` compares them after each batch.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import cocoindex as coco
from cocoindex.connectorkits.fingerprint import fingerprint_object

from cocosearchd.errors import NotFound
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.worker.transaction_group import GroupWriter, MakeRows
from cocosearchd.indexing.worker.work_priority import WorkPriority
from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Database

PROVIDER = "cocosearchd/file"  # part of CocoIndex's memory: another name forgets every file


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file that shall have rows. `cause` is what they are made from: equal causes have made equal
    rows.
    """

    source: SourceFile
    cause: tuple[bytes, int, bytes]  # content hash, force number, digest of the rules


@dataclass(frozen=True)  # no slots: CocoIndex refers weakly to sinks
class FileSink:
    """Applies the state of one file. A sink of its own for each file, so that no file fails for
    another's error.

    Equal sinks are one to CocoIndex: it compares target, index and path.
    """

    target: "FileTarget"
    index: int
    path: str

    async def __call__(self, _: coco.ContextProvider, wanted: Sequence[WantedFile | None]) -> None:
        """The last state wins; there is only ever one, as a path is never in flight twice."""
        await self.target.apply(self.index, self.path, wanted[-1])


class FileTarget:
    """The CocoIndex target of all indexes of this process; its keys are (index number, path).

    CocoIndex registers a target once per process, so there is one object of this class.
    """

    def __init__(self, work_priority: WorkPriority) -> None:
        self.work_priority = work_priority
        self._open: dict[int, GroupWriter[SourceFile]] = {}
        self._urgent: set[tuple[int, str]] = set()
        self._provider = coco.register_root_target_states_provider(PROVIDER, self)

    def open(self, database: Database, record: IndexRecord, make: MakeRows[SourceFile]) -> None:
        """From now on files of this index can be written, as `make` makes them."""
        self._open[record.number] = GroupWriter(database, record, self.work_priority, make)

    def close(self, number: int) -> None:
        """No file of this index is written any more."""
        self._open.pop(number, None)

    @contextmanager
    def mark_urgent(self, index: int, paths: Iterable[str]) -> Iterator[None]:
        """Meanwhile these files do not wait for others."""
        hurried = {(index, path) for path in paths}
        self._urgent |= hurried
        try:
            yield
        finally:
            self._urgent -= hurried

    def is_urgent(self, index: int, path: str) -> bool:
        """Whether a file goes before others."""
        return (index, path) in self._urgent

    def expect(self, index: int, paths: Iterable[str]) -> None:
        """These files are on their way; for each, `expect_no_more` must follow."""
        if index in self._open:
            self._open[index].expect(paths)

    def expect_no_more(self, index: int, path: str) -> None:
        """The file has been written, or will not be."""
        if index in self._open:
            self._open[index].expect_no_more(path)

    def declare(self, index: int, wanted: WantedFile) -> None:
        """To be called by a CocoIndex function: its file shall have these rows."""
        coco.declare_target_state(self._provider.target_state((index, wanted.source.path), wanted))

    async def apply(self, index: int, path: str, wanted: WantedFile | None) -> int:
        """Make and write the file, or remove it (None); the generation after it.

        Idempotent. Raises `StoreUnavailable` and `EmbedderUnavailable`.
        """
        if index not in self._open:
            raise NotFound(f"index {index} is closed")
        source = wanted.source if wanted else None
        return await self._open[index].apply(path, source, urgent=self.is_urgent(index, path))

    async def wait_ended(self, index: int, paths: Iterable[str]) -> None:
        """Returns when nothing begun earlier for these files is being written any more, whoever
        gave it up.
        """
        if index in self._open:
            await self._open[index].wait_ended(paths)

    def reconcile(
        self,
        key: coco.StableKey,
        wanted: WantedFile | coco.NonExistenceType,
        known: Collection[bytes],
        known_may_be_missing: bool,
        /,
    ) -> coco.TargetReconcileOutput[WantedFile | None, bytes] | None:
        """Called by CocoIndex. None: there is nothing to do."""
        assert isinstance(key, tuple)
        index, path = key
        assert isinstance(index, int)
        assert isinstance(path, str)
        sink = coco.TargetActionSink[WantedFile | None].from_async_fn(FileSink(self, index, path))
        if isinstance(wanted, coco.NonExistenceType):
            if not known and not known_may_be_missing:
                return None
            return coco.TargetReconcileOutput(None, sink, coco.NON_EXISTENCE)
        cause = fingerprint_object(wanted.cause)
        if not known_may_be_missing and all(record == cause for record in known):
            return None
        return coco.TargetReconcileOutput(wanted, sink, cause)
