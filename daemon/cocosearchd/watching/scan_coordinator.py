"""What is in scope of one root and how it compares with the index: the scope of now, scans, and
what they counted.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Protocol, TypeVar

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.model import FileRecord, decode_path, encode_path
from cocosearchd.watching.dirty_set import DirtyDirectory, PickedPaths, below
from cocosearchd.watching.git.ignore_files import IGNORE_FILES
from cocosearchd.watching.git.repository import GitTrouble
from cocosearchd.watching.hard_links import HardLinks, written
from cocosearchd.watching.hints.base import DirtyHint, DirtyTreeHint
from cocosearchd.watching.ignore.default_patterns import LENGTH_RULE
from cocosearchd.watching.ignore.scope import Scope
from cocosearchd.watching.reconciler import Reconciler
from cocosearchd.watching.root_threads import RootThreads
from cocosearchd.watching.scan import ComparedPaths, Scan, ScanResult, UnreadDirectory, YoungFiles

log = logging.getLogger(__name__)

# of the files are read again at each periodic scan, every 10 minutes: all of them within a day
AUDIT_SHARE = 144
SHOWN_LENGTH = 80  # characters of a long path in a sentence
MANY_TREES = 16  # more than that are compared with one reading of the whole store
Item = TypeVar("Item")


class KnownFiles(Protocol):
    """What a root must know of the index: what is stored of its files."""

    async def file_records(self, under: str = "") -> Sequence[FileRecord]:
        """Of the files at and below a path, ordered by path; "" is the root."""

    async def damaged_files(self) -> Sequence[str]:
        """Paths whose rows are not what was written."""

    async def devices(self) -> Set[int]:
        """The devices (`st_dev`) that its files were on when they were read."""


class ScanCoordinator:
    """Compares a root with the index and marks what differs in `dirty`. For one event loop;
    blocking work in threads.

    What the last scan of the whole root counted: `total` files in scope, `closed_files` that may
    not be read. What is stored of a directory that cannot be read stays as it is.
    """

    def __init__(
        self,
        root: bytes,
        known: KnownFiles,
        indexing: IndexingSettings,
        dirty: Reconciler,
        threads: RootThreads | None = None,
    ) -> None:
        self._root, self._known, self.indexing, self._dirty = root, known, indexing, dirty
        self._threads = threads or RootThreads()
        self.scope: Scope | None = None
        self.total: int | None = None
        self.closed_files: tuple[str, ...] = ()
        self._unreadable: dict[str, UnreadDirectory] = {}
        # directory -> entries that are left out for their length
        self._too_long: dict[str, int] = {}
        self.force = False  # at the next scan of the whole root, every file counts as different
        self.audit_due = False
        self.took_s = 0.0
        self._audit_at = 0
        self._checked = False
        self._links, self._young = HardLinks(), YoungFiles()
        self.mapped: tuple[str, ...] = ()  # files that processes have mapped for writing
        self._refused: dict[str, object] = {}  # what lstat said of files that failed
        self._checking: asyncio.Task[None] | None = None
        self._told: dict[bytes, GitTrouble] = {}  # what git did not answer, as it is in the log

    @property
    def closed(self) -> tuple[str, ...]:
        """Directories that nobody like us may look into, with a `/`."""
        return tuple(
            directory + "/" for directory, unread in self._unreadable.items() if unread.closed
        )

    @property
    def unmounted(self) -> tuple[str, ...]:
        """Directories that files were mounted on, and are not."""
        return tuple(
            directory for directory, unread in self._unreadable.items() if unread.unmounted
        )

    @property
    def unread(self) -> Mapping[str, str]:
        """Directories whose last reading failed for another reason -> why. What is in them may have
        changed.
        """
        return {
            directory: unread.error
            for directory, unread in self._unreadable.items()
            if not unread.closed
        }

    @property
    def unknown(self) -> tuple[str, ...]:
        """Directories of which it is not known what is in them, or what git ignores of it."""
        doubts = self.scope.doubts() if self.scope is not None else ()
        return tuple({**self.unread, **dict.fromkeys(map(encode_path, doubts))})

    def unknown_reason(self) -> str | None:
        """Why no answer is known to be right, if there are unknown directories."""
        if unread := self.unread:
            first, why = next(iter(unread.items()))
            return f"directories cannot be read: {len(unread)}, the first is {first}/: {why}"
        return self._git_reason("git does not answer, so its rules of before hold", passes=True)

    def reason(self) -> str | None:
        """What to say of a root that is as well as it can be."""
        refused = "git does not read a repository, so what it tracks is not known"
        return (
            self.unknown_reason()
            or self.closed_reason()
            or self._git_reason(refused, passes=False)
            or self._length_reason()
            or self._remark()
        )

    def _length_reason(self) -> str | None:
        """What to say of entries that are left out because their paths are too long."""
        if not self._too_long:
            return None
        directory, count = next(iter(self._too_long)), sum(self._too_long.values())
        shown = directory if len(directory) <= SHOWN_LENGTH else directory[:SHOWN_LENGTH] + "…"
        return (
            f"left out for the length of their paths: {count}, the first in {shown}/: {LENGTH_RULE}"
        )

    def _remark(self) -> str | None:
        """What of the rules is not used, the first with the count of others."""
        remarks = self.scope.remarks() if self.scope is not None else ()
        others = f" (and {len(remarks) - 1:,} more)" if len(remarks) > 1 else ""
        return remarks[0] + others if remarks else None

    def _git_reason(self, what: str, *, passes: bool) -> str | None:
        troubles = self.scope.troubles() if self.scope is not None else {}
        found = {at: trouble.why for at, trouble in troubles.items() if trouble.passes == passes}
        first = next(iter(found.items()), None)
        return first and f"{what}: {encode_path(os.path.join(self._root, first[0]))}: {first[1]}"

    def closed_reason(self) -> str | None:
        """What to say of closed directories, if there are any."""
        closed, away = self.closed, self.unmounted
        if away:
            return f"file systems are not mounted: {len(away)}, the first at {away[0]}/; what was indexed there is kept"
        return (
            f"directories may not be read: {len(closed)}, the first is {closed[0]}"
            if closed
            else None
        )

    async def open(self) -> str | None:
        """Read the rules of now; why they cannot be read, if that may pass."""
        try:
            self.scope = await self._anew()
        except OSError as error:  # of an ignore file on a failing server, say
            name = encode_path(os.fsencode(error.filename)) if error.filename else "the root"
            return f"what is to be indexed is not known: {name}: {error.strerror}"
        return None

    async def _anew(self) -> Scope:
        if self.scope is None:
            return await self._threads.run(Scope, self._root, self.indexing)
        return await self._threads.run(self.scope.anew, self.indexing)

    def hinted(self, hint: DirtyHint | DirtyTreeHint) -> None:
        """Something may have changed there."""
        assert self.scope is not None
        directory, _, name = hint.path.rpartition(b"/")
        if name in IGNORE_FILES or name == b".git":
            self.rules_changed(directory)
        if self._unreadable and encode_path(directory) in self.unmounted:
            self._dirty.mark_tree(encode_path(directory))
        if isinstance(hint, DirtyTreeHint):
            self._dirty.mark_tree(encode_path(hint.path))
        elif self.scope.considers(name):
            self._dirty.mark(encode_path(hint.path))

    def gone(self, found: ComparedPaths, picked: PickedPaths, *, sure: bool) -> tuple[str, ...]:
        """Which of the paths are to be deleted. Where the disk does not say, a scan is to: it knows
        what it keeps.

        `sure` is False before the first scan of an epoch: what was mounted may not be any more.
        """
        away = self.unmounted  # until a hint or the table of mounts says otherwise
        kept = (
            {path for path in found.gone if any(below(path, directory) for directory in away)}
            if away
            else set()
        )
        # Of a directory that a scan could not read nothing is learnt by another one at once: a hint
        # or a timer asks.
        closed = [
            path for path in found.closed if not any(below(path, tree) for tree in self._unreadable)
        ]
        unsure = (*closed, *(() if sure else found.gone))
        for path in unsure:
            self._dirty.mark_tree(path.rpartition("/")[0], since=self._dirty.since(path))
        # A hint alone is no reason to delete what is out of scope: it never was in the index, or a
        # scan will say so.
        outside = [path for path in found.outside if path in picked.stored]
        doubts = (
            [encode_path(directory) for directory in self.scope.doubts()]
            if outside and self.scope
            else []
        )
        outside = [
            path for path in outside if not any(below(path, directory) for directory in doubts)
        ]
        return (*(path for path in found.gone if sure and path not in kept), *outside)

    # -- rules

    async def configure(self, indexing: IndexingSettings) -> None:
        """Decide by other settings from here on, and compare everything by them."""
        self.indexing = indexing
        if self.scope is not None:
            try:
                self.scope = await self._anew()
            # of an ignore file, say: the scan that is due now says so, and tries again
            except OSError:
                self.scope = self.scope.by(indexing)
            self.rules_changed(b"")

    def rules_changed(self, directory: bytes) -> None:
        """An ignore file of this directory was edited, or a repository begins or ends here."""
        assert self.scope is not None
        self.scope = self.scope.without(directory)
        self._dirty.remark_in_flight(encode_path(directory))
        self._dirty.mark_tree(encode_path(directory))

    async def check_rules(self, *, local: bool) -> None:
        """Rules that live outside of the tree: git's configuration, its index, the user's excludes
        file.

        A root that is not `local` may hang, and is looked at in a thread.
        """
        scope = self.scope
        if scope is not None and (
            scope.outdated() if local else await self._threads.run(scope.outdated)
        ):
            # One at a time, to its end: a git that hangs is to hold one thread, however many ask
            # and give up.
            if self._checking is None or self._checking.done():
                self._checking = asyncio.create_task(self._check_rules())
            await asyncio.shield(self._checking)

    async def _check_rules(self) -> None:
        while self.scope is not None and self.scope.outdated():
            scope = self.scope
            try:
                fresh = await self._threads.run(scope.refreshed)
            except OSError:
                fresh = None  # the scan says why
            if scope is not self.scope:
                # a hint has made another one meanwhile: of other ignore files, but of the same old
                # git
                continue
            if fresh is None:
                self.rules_changed(b"")
                return  # the scan that is due by that renews the scope
            self.scope = fresh
            self._tell(everything=False)

    async def check_unannounced(self, *, local: bool) -> None:
        """Mark what may have changed without an event; each question that waits does so."""
        await self.check_links(local=local)
        for path in self.mapped:
            self._dirty.mark(path, scanned=True)

    async def check_links(self, *, local: bool) -> None:
        """Files that have names outside of what is indexed here. What is not `local` is scanned for
        each question.
        """
        if local and self._links.elsewhere:
            found = await self._threads.run(written, self._root, self._links.suspects())
            for path in self._links.unseen(found):
                self._dirty.mark(path, scanned=True)

    def _tell(self, *, everything: bool) -> None:
        """Log what git did not answer, once; `everything`: what is not so any more is told when it
        is again.
        """
        troubles = self.scope.troubles() if self.scope is not None else {}
        for directory, trouble in troubles.items():
            told = self._told.get(directory)
            if told is None or (told.why, told.passes) != (trouble.why, trouble.passes):
                place = encode_path(os.path.join(self._root, directory))
                event = "git_silent" if trouble.passes else "git_refuses"
                log.warning(event, extra={"directory": place, "reason": trouble.why})
        self._told = troubles if everything else self._told | troubles

    async def _renew_scope(self) -> Scope:
        while True:
            before = self.scope
            assert before is not None
            renewed = await self._threads.run(before.renewed)
            # else a hint has made another one, which knows what git knew before
            if self.scope is before:
                self.scope = renewed
                return renewed

    def _reopened(self, trees: tuple[DirtyDirectory, ...]) -> Scope:
        """The scope for a scan of these: a directory may be another one by now, with rules that no
        event told of.
        """
        assert self.scope is not None
        self.scope = self.scope.without(*(decode_path(tree.path) for tree in trees))
        return self.scope

    # -- scans

    async def scan(
        self,
        trees: tuple[DirtyDirectory, ...],
        watch: Callable[[bytes], None],
        still_there: Callable[[], bool],
    ) -> bool:
        """Compare and mark; False if `still_there` (asked in a thread) says that this was not the
        root.

        Raises `StoreUnavailable`. `watch` is called from a thread for each directory before it is
        listed.
        """
        began, full = time.monotonic(), any(not tree.path for tree in trees)
        scope = await self._renew_scope() if full else self._reopened(trees)
        force, damaged = full and self.force, tuple[str, ...]()
        if full and not self._checked:
            damaged = tuple(await self._known.damaged_files())
        stored = {record.path: record for record in await self._stored(trees)}
        scan = Scan(scope, stored, watch, force=force, young=self._young)
        found = await self._threads.run(scan.run, [decode_path(tree.path) for tree in trees])
        if not await self._threads.run(still_there):
            return False
        refused = await self._threads.run(self._still_refused, () if force else tuple(found.dirty))
        for path in damaged:
            self._dirty.mark(path, urgent=False, force=True, scanned=True, since=trees[0].since)
        self._unreadable = _outside(self._unreadable, trees) | {
            encode_path(directory): why for directory, why in found.unreadable.items()
        }
        lengthy = {encode_path(directory): count for directory, count in found.too_long.items()}
        self._too_long = _outside(self._too_long, trees) | lengthy
        self._links.scanned(found.links)
        self._young.scanned(found.newest_ns)
        self._tell(everything=full)
        if full:
            self.force, self._checked = self.force and not force, True
            self._count(stored.values(), found)
        self._dirty.finish_scan(
            trees, (path for path in found.dirty if path not in refused), force=force
        )
        self.took_s = time.monotonic() - began
        return True

    def looked(self, found: ComparedPaths, picked: PickedPaths, *, told: bool) -> None:
        """What is at paths that were handed out: where files have or had other names, those changed
        with them.

        `told` is whether an event will tell of the next change of each.
        """
        self._young.told(picked.seqs) if told else self._young.looked(picked.seqs, found.ctimes)
        links = {link.path: link for link in found.links}
        for path in [path for path in picked.seqs if path not in found.closed]:
            link, since = links.get(path), self._dirty.since(path)
            others = self._links.left(path, link.inode if link else None)
            more = self._links.changed(link) if link else frozenset[str]()
            if more is None:
                self._dirty.mark_tree("", urgent=False, since=since)
            for other in others | (more or frozenset()):
                self._dirty.mark(other, urgent=picked.urgent, scanned=True, since=since)

    async def _stored(self, trees: tuple[DirtyDirectory, ...]) -> Sequence[FileRecord]:
        if any(not tree.path for tree in trees):
            return await self._known.file_records()
        if len(trees) > MANY_TREES:
            stored = await self._known.file_records()
            return [
                record for record in stored if any(below(record.path, tree.path) for tree in trees)
            ]
        return [record for tree in trees for record in await self._known.file_records(tree.path)]

    def _count(self, stored: Iterable[FileRecord], found: ScanResult) -> None:
        records = list(stored)
        self.total = found.files
        self.closed_files = tuple(
            record.path for record in records if record.skip_reason == "unreadable"
        )
        self._refused = {
            path: stamp for path, stamp in self._refused.items() if self._dirty.is_aside(path)
        }
        if self.audit_due and records:
            # No event tells of writes through a mapping or another name of the file: some are read
            # again each time.
            size = len(records) // AUDIT_SHARE + 1
            start, self.audit_due = self._audit_at % len(records), False
            self._audit_at = start + size
            for record in records[start : start + size]:
                self._dirty.mark(record.path, urgent=False, scanned=True)

    # -- files that failed

    def refuse(self, path: str) -> None:
        """The file failed as it is now: scans need not name it until it is different."""
        self._refused[path] = self._stamp(path)

    def _still_refused(self, paths: Iterable[str]) -> frozenset[str]:
        known = [path for path in paths if path in self._refused and self._dirty.is_aside(path)]
        return frozenset(path for path in known if self._stamp(path) == self._refused[path])

    def _stamp(self, path: str) -> object:
        try:
            found = os.lstat(os.path.join(self._root, decode_path(path)))
        except OSError as error:
            return error.errno
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode


def _outside(by_directory: Mapping[str, Item], trees: Sequence[DirtyDirectory]) -> dict[str, Item]:
    """The items of directories that are in none of the trees."""
    inside = [tree.path for tree in trees]
    return {
        directory: item
        for directory, item in by_directory.items()
        if not any(below(directory, tree) for tree in inside)
    }
