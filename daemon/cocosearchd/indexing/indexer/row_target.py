"""The CocoIndex target: turns CocoIndex's decisions into rows.

CocoIndex stores a tracking record per file, and `reconcile` compares it with the declared state. If
they differ, CocoIndex calls the sink, which has the rows made and written. CocoIndex's memory and
PostgreSQL may differ: `cocoindex_app` compares them after each batch.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import cocoindex as coco
from cocoindex.connectorkits.fingerprint import fingerprint_object

from cocosearchd.errors import NotFound
from cocosearchd.indexing.indexer.transaction_group import GroupWriter, MakeRows, Transactions
from cocosearchd.indexing.indexer.work_priority import WorkPriority
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Database

OnComplete = Callable[[int], object]  # of the generation after the writes of some files
PROVIDER = "cocosearchd/file"  # part of CocoIndex's memory: a new name makes it forget every file


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file that must have rows. Equal causes make equal rows."""

    source: SourceFile
    cause: tuple[bytes, int, bytes]  # content hash, force number, digest of the rules


@dataclass(frozen=True, slots=True)
class Written:
    """A state of a file that is committed: its content hash, None for a deleted file."""

    content_hash: bytes | None
    generation: int


class _CollectedWrites:
    """The last writes of some files by path."""

    def __init__(self, count: int, on_complete: OnComplete | None) -> None:
        """`count` is the number of the files."""
        self.by_path = dict[str, Written]()
        self._count = count
        self._on_complete = on_complete

    def add(self, path: str, state: Written) -> None:
        """Add a write."""
        self.by_path[path] = state
        if self._on_complete is not None and len(self.by_path) == self._count:
            self._on_complete(max(state.generation for state in self.by_path.values()))


@dataclass(frozen=True)  # no slots: CocoIndex refers weakly to sinks
class FileSink:
    """Applies the state of one file. The error of one file never fails another.

    CocoIndex treats equal sinks as one: they are compared by target, index and path.
    """

    target: "FileTarget"
    index: int
    path: str

    async def __call__(
        self, _: coco.ContextProvider, declared: Sequence[WantedFile | None]
    ) -> None:
        """Apply the last state. There is only one, as no path is in flight twice."""
        await self.target.apply(self.index, self.path, declared[-1])


class FileTarget:
    """The CocoIndex target of all indexes of this process; its keys are (index number, path).

    CocoIndex registers a target once per process, so this class has one object.
    """

    def __init__(self, work_priority: WorkPriority) -> None:
        self.work_priority = work_priority
        self._open: dict[int, GroupWriter[SourceFile]] = {}
        self._in_flight: dict[int, Transactions] = {}  # by index: they outlive its writer
        self._urgent: set[tuple[int, str]] = set()
        self._collected: dict[tuple[int, str], _CollectedWrites] = {}
        self._provider = coco.register_root_target_states_provider(PROVIDER, self)

    def open(self, database: Database, record: IndexRecord, make: MakeRows[SourceFile]) -> None:
        """Open an index for writes. `make` makes the rows of its files."""
        in_flight = self._in_flight.setdefault(record.number, {})
        self._open[record.number] = GroupWriter(
            database, record, self.work_priority, make, in_flight
        )

    def close(self, number: int) -> None:
        """Close an index: no transaction of it begins any more. It may be opened again."""
        if writer := self._open.pop(number, None):
            writer.close()

    @contextmanager
    def mark_urgent(self, index: int, paths: Iterable[str]) -> Iterator[None]:
        """Mark files as urgent inside the context: they do not wait for other files."""
        keys = {(index, path) for path in paths}
        self._urgent |= keys
        try:
            yield
        finally:
            self._urgent -= keys

    @contextmanager
    def collect_written(
        self, index: int, paths: Iterable[str], on_complete: OnComplete | None = None
    ) -> Iterator[Mapping[str, Written]]:
        """Collect the writes of files inside the context, the last one of each by path.

        Once all of them are written, `on_complete` is called with the generation after that.
        """
        keys = [(index, path) for path in paths]
        collected = _CollectedWrites(len(keys), on_complete)
        self._collected |= dict.fromkeys(keys, collected)
        try:
            yield collected.by_path
        finally:
            for key in keys:
                del self._collected[key]

    def is_urgent(self, index: int, path: str) -> bool:
        """Return true if a file is marked as urgent."""
        return (index, path) in self._urgent

    def expect(self, index: int, paths: Iterable[str]) -> None:
        """Announce files. `expect_no_more` must follow for each."""
        if index in self._open:
            self._open[index].expect(paths)

    def expect_no_more(self, index: int, path: str) -> None:
        """Withdraw the announcement of a file: it was written, or will not be."""
        if index in self._open:
            self._open[index].expect_no_more(path)

    def declare(self, index: int, declared: WantedFile) -> None:
        """Declare the state of a file. Only a CocoIndex function may call it."""
        coco.declare_target_state(
            self._provider.target_state((index, declared.source.path), declared)
        )

    async def apply(self, index: int, path: str, declared: WantedFile | None) -> int:
        """Make and write the file, or remove it (None). Return the generation after that.

        It is idempotent. Raises `StoreUnavailable` and `EmbedderUnavailable`.
        """
        if index not in self._open:
            raise NotFound(f"index {index} is closed")
        source = declared.source if declared else None
        generation = await self._open[index].apply(path, source, urgent=self.is_urgent(index, path))
        if (collected := self._collected.get((index, path))) is not None:
            collected.add(path, Written(source.content_hash if source else None, generation))
        return generation

    async def wait_ended(self, index: int, paths: Iterable[str]) -> None:
        """Wait for the running transactions of these files.

        Also for those of cancelled callers, and from before the index was opened again.
        """
        if index in self._open:
            await self._open[index].wait_ended(paths)

    def reconcile(
        self,
        key: coco.StableKey,
        declared: WantedFile | coco.NonExistenceType,
        records: Collection[bytes],
        known_may_be_missing: bool,
        /,
    ) -> coco.TargetReconcileOutput[WantedFile | None, bytes] | None:
        """Compare the declared state with CocoIndex's records. None if there is nothing to do."""
        assert isinstance(key, tuple)
        index, path = key
        assert isinstance(index, int)
        assert isinstance(path, str)
        sink = coco.TargetActionSink[WantedFile | None].from_async_fn(FileSink(self, index, path))
        if isinstance(declared, coco.NonExistenceType):
            if not records and not known_may_be_missing:
                return None
            return coco.TargetReconcileOutput(None, sink, coco.NON_EXISTENCE)
        cause = fingerprint_object(declared.cause)
        if not known_may_be_missing and all(record == cause for record in records):
            return None
        return coco.TargetReconcileOutput(declared, sink, cause)
