"""Freshness of an answer, and the one table of reasons why an answer is not fresh.

Every part of the daemon that finds an answer stale makes its reason here, with `stale_reason`.
Front ends show the sentence and add none of their own. A new reason is a row of `STALE_REASONS`,
a code, and a row of docs/design/freshness.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from cocosearchd.model import Clock

# Values of `stale_code` in replies. They are stable: clients decide by them.
StaleCode = Literal[
    "not_compared",
    "changes_pending",
    "scanning",
    "git_working",
    "settings_pending",
    "files_failed",
    "embedder_away",
    "indexing_paused",
    "root_missing",
    "root_redirected",
    "root_unmounted",
    "root_unverified",
    "root_unresponsive",
    "root_replaced",
    "directories_unread",
    "hints_lost",
    "rules_unknown",
    "git_unresponsive",
    "watching_failed",
    "lock_lost",
    "scan_failed",
    "index_unavailable",
    "earlier_answer",
    "changed_meanwhile",
    "content_outdated",
    "owner_not_asked",
    "owner_silent",
    "owner_behind",
    "rows_unread",
]
MAX_PENDING = 20  # maximum number of pending paths that an answer names

# Templates of sentences. Words in braces are details; the caller of `stale_reason` fills them in.
# docs/design/freshness.md says for each code what makes answers fresh again.
STALE_REASONS: Mapping[StaleCode, str] = {
    # Changes that are not searchable yet.
    "not_compared": "not compared with the disk",
    "changes_pending": "{changes} not applied yet",
    "scanning": "the root is being scanned",
    "git_working": "git is working",
    "settings_pending": "its settings have changed, and wait for what is being indexed",
    "files_failed": "files could not be indexed: {count}, the first is {path}: {error}",
    "embedder_away": "{files} for the embedder, the first is {path}: {error}",
    "indexing_paused": "{reason}; {pause}",
    # The root or its file system.
    "root_missing": "the root is missing; what was indexed of it is kept",
    "root_redirected": (
        "{link} is a symbolic link now, so the root is not the directory that was registered and "
        "is not read: put that directory back, or clear this index and add the directory that you "
        "mean; what was indexed is kept"
    ),
    "root_unmounted": (
        "the root is empty, and what was indexed of it is on another file system: mount that "
        "again, or put something into the directory if it is to be indexed as it is; what was "
        "indexed is kept"
    ),
    "root_unverified": "the root is empty, and whether files are to be there cannot be told: {error}",
    "root_unresponsive": "the file system of the root does not answer",
    "root_replaced": "the root was replaced",
    "directories_unread": "directories cannot be read: {count}, the first is {path}/: {error}",
    # The daemon's knowledge of changes. An event is a clause of `watching.hints` or of
    # `watching.watched_root`; an error is one of the scan.
    "hints_lost": "{event}",
    "rules_unknown": "what is to be indexed is not known: {path}: {error}",
    "git_unresponsive": "git does not answer, so its rules of before hold: {path}: {error}",
    "watching_failed": "watching failed, and starts again; the log says why",
    "lock_lost": (
        "the connection that keeps other daemons from this database was lost, and is made again"
    ),
    "scan_failed": "{error}",
    # The answer itself. An error is the message of a `CocoSearchError`.
    "index_unavailable": "{error}",
    "earlier_answer": "{error}; this is an earlier answer",
    "changed_meanwhile": "files changed while the question was answered",
    "content_outdated": "the file is not as it was indexed; this is what was indexed",
    # A followed index. An owner is a daemon with its host; `clean` is a clause of `IndexOwner`.
    "owner_not_asked": "{owner} was not asked; {clean}",
    "owner_silent": "{owner} does not answer; {clean}",
    "owner_behind": "{owner}: {reason}",
    "rows_unread": "the latest rows of {owner} are not read yet",
}


@dataclass(frozen=True, slots=True)
class StaleReason:
    """A reason of the table, with its details filled in. Only this module makes such reasons."""

    code: StaleCode
    sentence: str

    def in_index(self, name: str) -> Self:
        """Return the reason with the index that it concerns, for an answer of several indexes."""
        return replace(self, sentence=f"{name}: {self.sentence}")


def stale_reason(code: StaleCode, **details: object) -> StaleReason:
    """Make the reason of a code. `details` are the values that its template names."""
    return StaleReason(code, STALE_REASONS[code].format(**details))


@dataclass(frozen=True, slots=True)
class Freshness:
    """The state of an index relative to the disk: known to be fresh, or stale with a reason."""

    as_of: Clock
    stale: StaleReason | None = None
    pending: tuple[str, ...] = ()  # at most `MAX_PENDING` paths, for display

    def with_changes(self, paths: Sequence[str]) -> Self:
        """Return the freshness of an answer during which these files changed."""
        if not paths or not self.fresh:
            return self
        stale = stale_reason("changed_meanwhile")
        return replace(self, stale=stale, pending=tuple(paths[:MAX_PENDING]))

    def in_index(self, name: str) -> Self:
        """Return the freshness with the index that it concerns, for an answer of several indexes."""
        return self if self.stale is None else replace(self, stale=self.stale.in_index(name))

    @property
    def fresh(self) -> bool:
        """True if the index is known to equal the disk."""
        return self.stale is None

    @property
    def reason(self) -> str | None:
        """The sentence of the reason, None if the index is fresh."""
        return None if self.stale is None else self.stale.sentence

    @property
    def code(self) -> StaleCode | None:
        """The code of the reason, None if the index is fresh."""
        return None if self.stale is None else self.stale.code
