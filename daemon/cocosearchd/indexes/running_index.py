"""A running index: its root, its indexes in memory and its effective settings."""

import logging
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import anyio

from cocosearchd.config.index_settings import IndexSettings, change_sentence
from cocosearchd.config.project import read_stamps, stamps
from cocosearchd.errors import CocoSearchError
from cocosearchd.freshness import Freshness
from cocosearchd.graph.code_graph import CodeGraph
from cocosearchd.indexes.following.followed_root import FollowedRoot
from cocosearchd.model import Commit, IndexRecord
from cocosearchd.search.history.history_index import HistoryIndex
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.store.row_summary import RowSummary
from cocosearchd.watching.availability.single_flight import SingleFlight
from cocosearchd.watching.ignore.outside_stamps import OutsideStamps
from cocosearchd.watching.watched_root import WatchedRoot

log = logging.getLogger(__name__)

Stamps = tuple[tuple[int, ...], ...]
RowsMoment = tuple[int, int, int]  # number of the index, generation, imports of precise uses
NOTICE_S = 600.0  # how long the notice about a change of settings is shown
FILLING_WORDS = "words for the profile classic are being stored; until then it reads texts, slowly"


class IndexHistory:
    """The history of an index, if it is in memory. `missed` is set if a question found none."""

    def __init__(self) -> None:
        self.current: HistoryIndex | None = None
        self.missed = anyio.Event()
        self._used_at = -math.inf

    def take(self) -> HistoryIndex | None:
        """Return the history for a question. Without one, it is read in the background."""
        self.note_use()
        if self.current is None:
            self.missed.set()
        return self.current

    def note_use(self) -> None:
        """Record that a question uses the history, or soon may."""
        self._used_at = anyio.current_time()

    def is_used(self, within_s: float) -> bool:
        """Return True if a question has used the history within a time."""
        return anyio.current_time() - self._used_at < within_s

    def drop(self) -> None:
        """Return the memory of the history."""
        self.current = None


@dataclass(slots=True)
class RunningIndex:
    """One index, with its root, its indexes in memory and its effective settings.

    An index of another daemon has a `FollowedRoot`, and only the tasks of its indexes in memory.

    `error` is the error of an index that is listed but not run: another embedder built it, or it
    could not be started. `record.generation` follows the commits. `record.topics` are the
    `explicit_topics` of the user, else those of the project.
    """

    record: IndexRecord
    root: WatchedRoot | FollowedRoot
    lexical: LexicalIndex
    graph: CodeGraph
    tasks: anyio.CancelScope
    error: CocoSearchError | None = None
    explicit_topics: tuple[str, ...] = ()
    settings: IndexSettings = field(default_factory=IndexSettings)
    # chunks from before the newest columns existed, as of the last count
    outdated_chunks: int = 0
    # a change of its rules was begun, and PostgreSQL has not said how it ended
    rules_in_doubt: bool = False
    notice: str = ""  # about the last change of settings
    notice_at: float = 0.0
    # The name in the updater. It stays when this index replaces another and takes over its name.
    queue_name: str = ""
    # the replacement that is being filled with another embedder
    replacement: "RunningIndex | None" = None
    # a replacement whose start has failed, or whose tables could not be dropped
    unstarted_replacement: IndexRecord | None = None
    # held during a change of this index or of its replacement
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    # a file of settings may have changed
    settings_hint: anyio.Event = field(default_factory=anyio.Event)
    history: IndexHistory = field(default_factory=IndexHistory)
    classic_use: anyio.Event = field(default_factory=anyio.Event)  # `classic` searches words
    is_filling_words: bool = False
    # by task that failed and starts again
    task_errors: dict[str, str] = field(default_factory=dict)
    stamp_reader: SingleFlight[Stamps | None] | None = field(init=False, default=None)
    use_imports: int = field(init=False, default=0)  # and removals, of precise uses
    _row_summary: tuple[RowsMoment, RowSummary] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.root, FollowedRoot):
            self.stamp_reader = SingleFlight(
                lambda: read_stamps(self.record.root), self.root.threads
            )

    @property
    def own_root(self) -> WatchedRoot:
        """The root on a disk of this host. Raises `Refused` with the owner of a followed index."""
        if isinstance(self.root, FollowedRoot):
            raise self.root.owner.refusal()
        return self.root

    @property
    def host(self) -> str:
        """The host of the daemon that owns a followed index; "" for an own index."""
        return self.root.owner.host if isinstance(self.root, FollowedRoot) else ""

    @property
    def root_text(self) -> str:
        """The root for people. A followed index has its host in front: its root is no path here."""
        root = os.fsdecode(self.record.root)
        return f"{self.host or '?'}:{root}" if self.record.is_followed else root

    def check_owned(self) -> None:
        """Raise `Refused` with the owner for a followed index: only the owner changes it."""
        if isinstance(self.root, FollowedRoot):
            raise self.root.owner.refusal()

    async def apply_commit(self, commit: Commit) -> None:
        """Apply a commit: the lexical index first, then the generation that keys the caches."""
        self.graph.mark_changed(commit)
        await self.lexical.apply(commit)
        generation = max(self.record.generation, commit.generation)
        self.record = replace(self.record, generation=generation)

    @property
    def rows_moment(self) -> RowsMoment:
        """A value that differs after each change of the rows that a summary counts."""
        return self.record.number, self.record.generation, self.use_imports

    @property
    def row_summary(self) -> RowSummary | None:
        """The summary of the present rows, if it was read since they changed."""
        if self._row_summary is None or self._row_summary[0] != self.rows_moment:
            return None
        return self._row_summary[1]

    def keep_row_summary(self, summary: RowSummary, moment: RowsMoment) -> None:
        """Keep a summary that was read after `moment`.

        That of a followed index is not kept: its owner imports uses without a new generation.
        """
        if not self.record.is_followed:
            self._row_summary = (moment, summary)

    def failure_recorder(self, task: str) -> Callable[[str | None], None]:
        """Make a callback for `supervise`, which records the failure of a task."""

        def report(sentence: str | None) -> None:
            if sentence is None:
                self.task_errors.pop(task, None)
            else:
                self.task_errors[task] = sentence

        return report

    def sync_at_once(self, outside: OutsideStamps | None = None) -> Freshness | None:
        """Return the freshness of the index if there is nothing to wait for, else None.

        `outside` has stamps that were read for other roots since the question came.
        """
        if self.error is not None or isinstance(self.root, FollowedRoot):
            return None
        if not self.root.local or not self.root.availability.available:
            return None
        # before the root checks that it is the same directory
        if stamps(self.record.root) != self.settings.stamps:
            return None
        return self.root.sync_at_once(outside)

    async def has_changed_settings(self, within_s: float = math.inf) -> bool:
        """Return True if the project's files of settings have changed, or rules are in doubt; False
        for a root that is away.

        Waits at most `within_s` seconds for the file system; one that does not answer counts as
        unchanged.
        """
        if self.error is not None or isinstance(self.root, FollowedRoot):
            return False
        current = await self._read_stamps(self.root, within_s)
        return current is not None and (self.rules_in_doubt or current != self.settings.stamps)

    async def _read_stamps(self, root: WatchedRoot, within_s: float) -> Stamps | None:
        if not root.availability.available or self.stamp_reader is None:
            return None
        if root.local:
            return read_stamps(self.record.root)
        with anyio.move_on_after(within_s):
            await root.availability.wait_response()
            # single flight: a root that never answers blocks one thread only
            return await self.stamp_reader.run()
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings and notices about this index."""
        recent = self.notice and anyio.current_time() - self.notice_at < NOTICE_S
        filling = (self._describe_filling(self.replacement),) if self.replacement else ()
        words = (FILLING_WORDS,) if self.is_filling_words else ()
        return (
            *self.settings.warnings,
            *((self.notice,) if recent else ()),
            *filling,
            *words,
            *self.task_errors.values(),
            *self.lexical.journal.warnings,
        )

    def _describe_filling(self, replacement: "RunningIndex") -> str:
        old = self.record.identity.model
        new = replacement.record.identity.model
        status = replacement.root.status()
        return (
            f"vectors of {new}: {status.done} of {status.total or '?'} files; "
            f"until all are there, {old} answers"
        )

    def note_change(self, differ: tuple[str, ...], files: int) -> None:
        """Record and log a change of settings, after which `files` files are read again."""
        self.notice = change_sentence(differ, files)
        self.notice_at = anyio.current_time()
        log.info(
            "settings_changed",
            extra={"index": self.record.name, "changed": differ, "files": files},
        )
