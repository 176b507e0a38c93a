"""The scope of one root, its scans, and the counts of the last scan."""

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import filterfalse
from typing import Protocol

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.forms.path_forms import path_bytes, path_text
from cocosearchd.forms.tree_filter import TreeFilter
from cocosearchd.freshness import StaleReason, stale_reason
from cocosearchd.model import FileRecord
from cocosearchd.runtime.coalesced_calls import CoalescedCalls
from cocosearchd.runtime.files.nofollow import status_of
from cocosearchd.watching.dirty_records import (
    DirtyTree,
    FileStamp,
    PickedPaths,
    file_stamp,
    is_at_or_below,
)
from cocosearchd.watching.dirty_set import DirtySet
from cocosearchd.watching.git.repository import GitFailure, uncertain_directories
from cocosearchd.watching.hints.base import DirtyHint, DirtyTreeHint
from cocosearchd.watching.ignore.outside_stamps import OutsideStamps
from cocosearchd.watching.ignore.root_scope import RootScope
from cocosearchd.watching.ignore_files import IGNORE_FILES
from cocosearchd.watching.root_threads import RootThreads
from cocosearchd.watching.scans.audit_rotation import AuditRotation
from cocosearchd.watching.scans.hard_links import HardLinks, LinkedName, changed_suspects
from cocosearchd.watching.scans.mounted_paths import MountedPath, MountedPaths, find_mounted
from cocosearchd.watching.scans.scan import (
    ComparedPaths,
    RacyFiles,
    Scan,
    ScanResult,
    UnreadDirectories,
    compare_paths,
)

log = logging.getLogger(__name__)

# Each periodic scan (every 10 minutes) reads 1 of this many files again: all files within a day.
AUDIT_SHARE = 144
# Repositories, hard-linked ignore files and similar entries that are checked on the event loop, in
# about 2 ms. More of them are checked in a thread.
MAX_CHECKED_AT_ONCE = 100
MANY_TREES = 16  # for more trees, the records of the whole root are read at once


class KnownFiles(Protocol):
    """The stored files of a root, as the index has them."""

    async def file_records(self, under: str = "") -> Sequence[FileRecord]:
        """Return the files at and below a path, ordered by path; "" is the root."""

    async def damaged_files(self) -> Sequence[str]:
        """Return the paths whose rows differ from what was written."""

    async def devices(self) -> Set[int]:
        """Return the devices (`st_dev`) that the files were on when they were read."""


class ScanCoordinator:
    """Compares a root with the index and marks the differences in `dirty`.

    For one event loop; blocking work runs in threads. The last scan of the whole root counted
    `total` files in scope and named the `closed_files` that may not be read. The stored files of a
    directory that cannot be read stay as they are.
    """

    def __init__(
        self,
        root: bytes,
        known_files: KnownFiles,
        indexing: IndexingSettings,
        dirty: DirtySet,
        threads: RootThreads | None = None,
    ) -> None:
        self._root = root
        self._known_files = known_files
        self.indexing = indexing
        self._dirty = dirty
        self._threads = threads or RootThreads()
        self.scope: RootScope | None = None
        self.total: int | None = None
        self.closed_files: tuple[str, ...] = ()
        self.unread = UnreadDirectories()
        self.force = False  # at the next scan of the whole root, every file counts as different
        self.audit_due = False
        self.duration_s = 0.0  # of the last scan
        self._audit = AuditRotation(AUDIT_SHARE)
        self._damage_checked = False
        self._links = HardLinks()
        self._mounted = MountedPaths(root)
        self._racy_files = RacyFiles()
        self.mapped: tuple[str, ...] = ()  # files that processes have mapped for writing
        self._failed_stamps: dict[str, FileStamp] = {}  # of failed paths, before they were read
        self._invalidated = set[bytes]()  # directories whose rules changed since a scan began
        # Only one check runs, to its end: a git that hangs holds one thread, however many callers
        # give up.
        self._rule_checks = CoalescedCalls(self._check_rules)
        self._logged_failures: dict[bytes, GitFailure] = {}

    # -- reasons

    @property
    def unknown_directories(self) -> tuple[str, ...]:
        """Directories with unknown contents, or with unknown ignore rules of git."""
        uncertain = uncertain_directories(self.scope.git_failures()) if self.scope else ()
        return tuple({**self.unread.failed, **dict.fromkeys(map(path_text, uncertain))})

    def unknown_reason(self) -> StaleReason | None:
        """Say why answers may be wrong; None if no directory is unknown."""
        if (reason := self.unread.failed_reason()) is not None:
            return reason
        failure = self._git_failure(transient=True)
        if failure is None:
            return None
        return stale_reason("git_unresponsive", path=failure[0], error=failure[1])

    def reason(self) -> str | None:
        """Return the most important limit of a root that works otherwise; None if there is none."""
        unknown = self.unknown_reason()
        return (
            (unknown and unknown.sentence)
            or self.unread.closed_reason()
            or self._refused_git_reason()
            or self.unread.length_reason()
            or self._rule_warning()
        )

    def _rule_warning(self) -> str | None:
        """Return the first warning about unused rules, with the count of the others."""
        warnings = self.scope.warnings() if self.scope is not None else ()
        more = f" (and {len(warnings) - 1:,} more)" if len(warnings) > 1 else ""
        return warnings[0] + more if warnings else None

    def _refused_git_reason(self) -> str | None:
        failure = self._git_failure(transient=False)
        if failure is None:
            return None
        path, error = failure
        return f"git does not read a repository, so what it tracks is not known: {path}: {error}"

    def _git_failure(self, *, transient: bool) -> tuple[str, str] | None:
        """Return path and error of the first failure of git of that kind."""
        failures = self.scope.git_failures() if self.scope is not None else {}
        for directory, failure in failures.items():
            if failure.transient == transient:
                return path_text(os.path.join(self._root, directory)), failure.reason
        return None

    # -- rules

    async def open(self) -> StaleReason | None:
        """Read the rules. Return why they cannot be read, if another try may help."""
        try:
            self.scope = await self._recreate_scope()
        except OSError as error:  # for example of an ignore file on a failing server
            path = path_text(os.fsencode(error.filename)) if error.filename else "the root"
            return stale_reason("rules_unknown", path=path, error=error.strerror)
        return None

    async def _recreate_scope(self) -> RootScope:
        if self.scope is None:
            return await self._threads.run(RootScope, self._root, self.indexing)
        return await self._threads.run(self.scope.renew, self.indexing)

    async def configure(self, indexing: IndexingSettings) -> None:
        """Use other settings from here on, and scan the whole root by them."""
        self.indexing = indexing
        if self.scope is not None:
            try:
                self.scope = await self._recreate_scope()
            # for example of an ignore file: the scan that is due now reports it, and tries again
            except OSError:
                self.scope = self.scope.with_settings(indexing)
            self.invalidate_rules(b"")

    def invalidate_rules(self, *directories: bytes) -> None:
        """Read the rules below directories again: an ignore file or a `.git` in each has changed.

        Each call takes a time that grows with the root. After some directories the whole root is
        read again, and until its scan has begun further calls cost nothing.
        """
        assert self.scope is not None
        self._invalidated.update(directories)
        if b"" in self._invalidated or len(self._invalidated) > MANY_TREES:
            self._invalidated = {b""}
            directories = (b"",)
        self.scope = self.scope.without_trees(*directories)
        for tree in map(path_text, directories):
            self._dirty.remark_in_flight(tree)
            self._dirty.mark_tree(tree)

    async def check_rules(self, *, local: bool, outside: OutsideStamps | None = None) -> None:
        """Check rules outside of the tree: git's configuration and index, the user's excludes.

        A root that is not `local` may hang, so it is checked in a thread. `outside` has stamps read
        for other roots.
        """
        scope = self.scope
        if scope is not None and await self._is_outdated(scope, local=local, outside=outside):
            # a running check may have read the stamps before this call
            await self._rule_checks.run()

    async def _is_outdated(
        self, scope: RootScope, *, local: bool, outside: OutsideStamps | None = None
    ) -> bool:
        outdated = scope.outdated(MAX_CHECKED_AT_ONCE, outside) if local else None
        if outdated is None:
            outdated = await self._threads.run(scope.outdated)
        return outdated is not False

    async def _check_rules(self) -> None:
        while (scope := self.scope) is not None and await self._is_outdated(scope, local=False):
            try:
                renewed = await self._threads.run(scope.refresh_git)
            except OSError:
                renewed = None  # the scan says why
            if scope is not self.scope:
                # A hint has replaced the scope meanwhile, with other ignore files and the same old
                # answers of git.
                continue
            if renewed is None:
                self.invalidate_rules(b"")
                return  # this made a scan due, and the scan renews the scope
            self.scope = renewed
            self._log_git_failures(complete=False)

    def _log_git_failures(self, *, complete: bool) -> None:
        """Log each failure of git once.

        `complete`: the failures are those of the whole root. A failure that has ended is then logged
        again when it comes back.
        """
        failures = self.scope.git_failures() if self.scope is not None else {}
        for directory, failure in failures.items():
            logged = self._logged_failures.get(directory)
            if logged is None or logged.identity != failure.identity:
                path = path_text(os.path.join(self._root, directory))
                event = "git_unresponsive" if failure.transient else "git_refused"
                log.warning(event, extra={"directory": path, "reason": failure.reason})
        self._logged_failures = failures if complete else self._logged_failures | failures

    async def _renew_scope(self) -> RootScope:
        while True:
            scope = self.scope
            assert scope is not None
            renewed = await self._threads.run(scope.renew)
            # if a hint has replaced the scope meanwhile, the new one has git's old answers
            if self.scope is scope:
                self.scope = renewed
                return renewed

    def _reread_trees(self, trees: tuple[DirtyTree, ...]) -> RootScope:
        """Return the scope for a scan of these trees, without their old rules.

        A directory may have been replaced by another, with rules that no event announced.
        """
        assert self.scope is not None
        self.scope = self.scope.without_trees(*(path_bytes(tree.path) for tree in trees))
        return self.scope

    # -- changes without a scan

    def take_hints(self, hints: Sequence[DirtyHint | DirtyTreeHint]) -> None:
        """Mark what hints name. One `git pull` may change the ignore files of all directories."""
        self._invalidate_rules_in(hint.path for hint in hints)
        for hint in hints:
            self._mark_hinted(hint)

    def _invalidate_rules_in(self, paths: Iterable[bytes]) -> None:
        """Read the rules again of which there are files among changed paths."""
        changed = dict.fromkeys(
            directory
            for directory, _, name in (path.rpartition(b"/") for path in paths)
            if name in IGNORE_FILES or name == b".git"
        )
        if changed:
            self.invalidate_rules(*changed)

    def _mark_hinted(self, hint: DirtyHint | DirtyTreeHint) -> None:
        assert self.scope is not None
        directory, _, name = hint.path.rpartition(b"/")
        if path_text(directory) in self.unread.unmounted:
            self._dirty.mark_tree(path_text(directory))
        if isinstance(hint, DirtyTreeHint):
            self._dirty.mark_tree(path_text(hint.path))
        elif self.scope.may_be_in_scope(name):
            self._dirty.mark(path_text(hint.path))

    def deletions(
        self, compared: ComparedPaths, picked: PickedPaths, *, certain: bool
    ) -> tuple[str, ...]:
        """Return the paths to delete; if the disk leaves it open, mark their directories instead.

        `certain` is False before the first scan of an epoch: a file system may be unmounted.
        """
        # Another scan of an unread directory would learn nothing now: a hint or a timer starts one.
        closed = [path for path in compared.closed if not self.unread.contains(path)]
        for path in (*closed, *(() if certain else compared.gone)):
            self._dirty.mark_tree(path.rpartition("/")[0], since=self._dirty.since(path))
        gone = filterfalse(self._is_unmounted, compared.gone) if certain else ()
        return (*gone, *self._left_scope(compared, picked))

    def _is_unmounted(self, path: str) -> bool:
        """Return whether a file is on an unmounted file system. A hint or the mounts end this."""
        return any(is_at_or_below(path, directory) for directory in self.unread.unmounted)

    def _left_scope(self, compared: ComparedPaths, picked: PickedPaths) -> list[str]:
        """Return the stored paths that are out of scope now.

        A hint alone is no reason to delete a path out of scope: the path was never in the index, or
        a scan will name it.
        """
        outside = [path for path in compared.outside if path in picked.maybe_stored]
        if not outside or self.scope is None:
            return outside
        uncertain = [path_text(path) for path in uncertain_directories(self.scope.git_failures())]
        return [
            path
            for path in outside
            if not any(is_at_or_below(path, directory) for directory in uncertain)
        ]

    def has_unannounced(self, outside: OutsideStamps | None = None) -> bool:
        """Return whether rules or files of a local root may have changed without an event.

        True as well if it takes long to find out. `outside` has stamps read for other roots.
        """
        scope = self.scope
        is_outdated = scope is None or scope.outdated(MAX_CHECKED_AT_ONCE, outside) is not False
        unannounced = self.mapped or self._links.elsewhere or self.unread.failed
        return is_outdated or bool(unannounced or self._mounted.changed())

    async def check_unannounced(self, *, local: bool) -> None:
        """Mark what may have changed without an event, for a question that waits."""
        await self.check_stamps(local=local)
        for path in self.mapped:
            self._dirty.mark(path, may_be_stored=True)

    async def check_stamps(self, *, local: bool, max_links: int | None = None) -> None:
        """Mark files written through a name outside of the index, and mounted paths that changed.

        A root that is not `local` is scanned for each question anyway. `max_links` bounds the
        checked files with such names; None: all.
        """
        if local and self._links.elsewhere:
            suspects = self._links.suspects(max_links)
            names = await self._threads.run(changed_suspects, self._root, suspects)
            for path in self._links.not_recorded(names):
                self._dirty.mark(path, may_be_stored=True)
        if local and self._mounted:
            self._mark_mounted(await self._threads.run(self._mounted.changed))

    def _mark_mounted(self, changed: Iterable[MountedPath]) -> None:
        entries = self._mounted.record(changed)
        self._invalidate_rules_in(path_bytes(entry.path) for entry in entries)
        for entry in entries:
            if entry.is_directory:
                self._dirty.mark_tree(entry.path)
            else:
                self._dirty.mark(entry.path, may_be_stored=True)

    def record_compared(
        self, compared: ComparedPaths, picked: PickedPaths, *, announced: bool
    ) -> None:
        """Record the state of picked paths, and mark the other names of changed files.

        `announced`: an event will announce the next change of each.
        """
        if announced:
            self._racy_files.forget(picked.seqs)
        else:
            self._racy_files.record(picked.seqs, compared.ctimes)
        for path, listed_path in compared.respelled.items():
            self._dirty.mark(listed_path, urgent=picked.urgent, since=self._dirty.since(path))
        links = compared.links_in_scope()
        for path in [path for path in picked.seqs if path not in compared.closed]:
            since = self._dirty.since(path)
            names = self._update_links(path, links.get(path), since)
            if names is None:
                self._dirty.mark_tree("", urgent=False, since=since)
            for name in names or ():
                self._dirty.mark(name, urgent=picked.urgent, may_be_stored=True, since=since)

    def _update_links(
        self, path: str, link: LinkedName | None, since: int
    ) -> frozenset[str] | None:
        """Record the hard link of a path, which has been dirty since a change.

        Return the other names of the file, None if only a scan can tell them.
        """
        old_names = self._links.remove(path, link.inode if link else None)
        new_names = self._links.update(link, since) if link else frozenset[str]()
        return None if old_names is None or new_names is None else old_names | new_names

    # -- scans

    async def scan(
        self,
        trees: tuple[DirtyTree, ...],
        watch: Callable[[bytes], None],
        same_root: Callable[[], bool],
    ) -> bool:
        """Compare and mark. Return False if `same_root` says that this was not the root.

        `same_root` is called in a thread. `watch` is called in a thread for each directory before
        it is listed. Raises `StoreUnavailable`.
        """
        began = time.monotonic()
        self._invalidated.clear()
        full = any(not tree.path for tree in trees)
        scope = await self._renew_scope() if full else self._reread_trees(trees)
        force = full and self.force
        await self._find_mounted(full=full)
        damaged = await self._damaged_files(full=full)
        stored = {record.path: record for record in await self._read_stored_files(trees)}
        scan = Scan(scope, stored, watch, force=force, racy_files=self._racy_files)
        result = await self._threads.run(scan.run, [path_bytes(tree.path) for tree in trees])
        if not await self._threads.run(same_root):
            return False
        failed = await self._threads.run(self._still_failed, () if force else tuple(result.dirty))
        ended = await self._threads.run(self._ended_failures, scope, trees, result)
        self._mark_damaged(damaged, trees[0].since)
        self._record_scan(trees, result, full=full)
        if full:
            self.force = self.force and not force
            self._damage_checked = True
            self._forget_left_repositories(scope)
            self._count(stored.values(), result)
        dirty = (*filterfalse(failed.__contains__, result.dirty), *ended)
        self._dirty.finish_scan(trees, dirty, force=force)
        self.duration_s = time.monotonic() - began
        return True

    def _forget_left_repositories(self, scope: RootScope) -> None:
        """Forget the rules of repositories that a scan of the whole root by this scope did not meet.

        A scope that has replaced it since lacks rules that will be read again, or has some more.
        """
        assert self.scope is not None
        met = (*scope.git_rules(with_unused=True), *self.scope.git_rules(with_unused=True))
        self.scope.rule_cache.retain(met)

    async def _find_mounted(self, *, full: bool) -> None:
        """Record the stamps of mounted paths, before a scan of the whole root."""
        if full:
            self._mounted.replace(await self._threads.run(find_mounted, self._root))

    def _record_scan(self, trees: Sequence[DirtyTree], result: ScanResult, *, full: bool) -> None:
        self.unread.record_scan(trees, result)
        self._links.record_scan(result.links)
        self._racy_files.record_clock(result.newest_ns)
        self._log_git_failures(complete=full)

    async def _damaged_files(self, *, full: bool) -> Sequence[str]:
        """Return the damaged files for the first scan of the whole root."""
        checked = not full or self._damage_checked
        return () if checked else await self._known_files.damaged_files()

    def _mark_damaged(self, paths: Iterable[str], since: int) -> None:
        for path in paths:
            self._dirty.mark(path, urgent=False, force=True, may_be_stored=True, since=since)

    async def _read_stored_files(self, trees: tuple[DirtyTree, ...]) -> Sequence[FileRecord]:
        if any(not tree.path for tree in trees):
            return await self._known_files.file_records()
        if len(trees) > MANY_TREES:
            scanned = TreeFilter((tree.path for tree in trees), "/")
            return [
                record
                for record in await self._known_files.file_records()
                if scanned.covers(record.path)
            ]
        return [
            record for tree in trees for record in await self._known_files.file_records(tree.path)
        ]

    def _count(self, stored: Iterable[FileRecord], result: ScanResult) -> None:
        records = list(stored)
        self.total = result.files
        self.closed_files = tuple(
            record.path for record in records if record.skip_reason == "unreadable"
        )
        self._failed_stamps = {
            path: stamp
            for path, stamp in self._failed_stamps.items()
            if path in self._dirty.failures
        }
        if self.audit_due and records:
            self._mark_audited(records)

    def _mark_audited(self, records: Sequence[FileRecord]) -> None:
        """Mark the next share of the files to be read again.

        No event announces a write through a mapping or through another name of the file.
        """
        self.audit_due = False
        for record in records[self._audit.next_share(len(records))]:
            self._dirty.mark(record.path, urgent=False, may_be_stored=True)

    # -- files that failed

    def record_failure(self, path: str, stamp: FileStamp) -> None:
        """Leave a failed file out of scans until its stamp changes."""
        self._failed_stamps[path] = stamp

    def _still_failed(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the failed paths that have not changed since. Blocking."""
        failed = [
            path for path in paths if path in self._failed_stamps and path in self._dirty.failures
        ]
        return frozenset(path for path in failed if self._stamp(path) == self._failed_stamps[path])

    def _ended_failures(
        self, scope: RootScope, trees: Iterable[DirtyTree], result: ScanResult
    ) -> tuple[str, ...]:
        """Return the failed paths in scanned trees that are gone or out of scope now. Blocking.

        A scan does not meet them, and if they were never stored it misses none.
        """
        met = frozenset(result.dirty)
        scanned = TreeFilter((tree.path for tree in trees), "/")
        paths = (path for path in self._dirty.failures.paths_in(scanned) if path not in met)
        compared = compare_paths(scope, {path: path_bytes(path) for path in paths})
        return (*compared.gone, *compared.outside)

    def _stamp(self, path: str) -> FileStamp:
        try:
            return file_stamp(status_of(os.path.join(self._root, path_bytes(path))))
        except OSError as error:
            return error.errno
