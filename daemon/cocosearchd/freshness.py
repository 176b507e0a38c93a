"""Freshness of an answer, and the one table of reasons why an answer is not fresh.

Every part of the daemon that finds an answer stale makes its reason here, with `stale_reason`.
Front ends show the sentence and add none of their own. A new reason is a row of `STALE_REASONS`
and a code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

from cocosearchd.model import Clock

# Stable: clients decide by them. `stale_code` of a reply.
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
    "scan_failed",
    "index_unavailable",
    "earlier_answer",
    "changed_meanwhile",
    "content_outdated",
]


@dataclass(frozen=True, slots=True)
class StaleRow:
    """One row of the table. `sentence` is a template; `hint` says what makes answers fresh again."""

    sentence: str
    hint: str


STALE_REASONS: Mapping[StaleCode, StaleRow] = {
    # Changes that are not searchable yet.
    "not_compared": StaleRow(
        "not compared with the disk", "let the request wait (sync_timeout_ms)"
    ),
    "changes_pending": StaleRow("{changes} not applied yet", "ask again soon, or wait longer"),
    "scanning": StaleRow("the root is being scanned", "ask again after the scan"),
    "git_working": StaleRow("git is working", "ask again when git has ended"),
    "settings_pending": StaleRow(
        "its settings have changed, and wait for what is being indexed", "ask again soon"
    ),
    "files_failed": StaleRow(
        "files could not be indexed: {count}, the first is {path}: {error}",
        "they are tried again; `cocosearchctl logs` says more",
    ),
    "embedder_away": StaleRow(
        "{files} for the embedder, the first is {path}: {error}", "start the embedder"
    ),
    "indexing_paused": StaleRow("{reason}; {pause}", "remove the cause of the pause"),
    # The root or its file system.
    "root_missing": StaleRow(
        "the root is missing; what was indexed of it is kept",
        "put the root back, or clear its index",
    ),
    "root_redirected": StaleRow(
        "{link} is a symbolic link now, so the root is not the directory that was registered and "
        "is not read: put that directory back, or clear this index and add the directory that you "
        "mean; what was indexed is kept",
        "put the directory back, or clear the index",
    ),
    "root_unmounted": StaleRow(
        "the root is empty, and what was indexed of it is on another file system: mount that "
        "again, or put something into the directory if it is to be indexed as it is; what was "
        "indexed is kept",
        "mount the file system",
    ),
    "root_unverified": StaleRow(
        "the root is empty, and whether files are to be there cannot be told: {error}",
        "start PostgreSQL",
    ),
    "root_unresponsive": StaleRow(
        "the file system of the root does not answer", "look at the file server"
    ),
    "root_replaced": StaleRow("the root was replaced", "ask again: the root is scanned"),
    "directories_unread": StaleRow(
        "directories cannot be read: {count}, the first is {path}/: {error}",
        "they are read again soon",
    ),
    # The daemon's knowledge of changes.
    "hints_lost": StaleRow("{event}", "ask again: the root is scanned"),
    "rules_unknown": StaleRow(
        "what is to be indexed is not known: {path}: {error}", "make the file readable"
    ),
    "git_unresponsive": StaleRow(
        "git does not answer, so its rules of before hold: {path}: {error}",
        "look at git in that directory",
    ),
    "watching_failed": StaleRow(
        "watching failed, and starts again; the log says why", "see `cocosearchctl logs`"
    ),
    "scan_failed": StaleRow("{error}", "the scan is tried again"),
    # The answer itself.
    "index_unavailable": StaleRow("{error}", "`cocosearchctl status` names the fix"),
    "earlier_answer": StaleRow("{error}; this is an earlier answer", "start PostgreSQL"),
    "changed_meanwhile": StaleRow("files changed while the question was answered", "ask again"),
    "content_outdated": StaleRow(
        "the file is not as it was indexed; this is what was indexed", "ask again soon"
    ),
}


@dataclass(frozen=True, slots=True)
class StaleReason:
    """A reason of the table, with its details filled in. Only this module makes one."""

    code: StaleCode
    sentence: str

    def in_index(self, name: str) -> Self:
        """Return the reason with the index that it concerns, for an answer of several indexes."""
        return replace(self, sentence=f"{name}: {self.sentence}")


def stale_reason(code: StaleCode, **details: object) -> StaleReason:
    """Fill the sentence of a row. `details` are the values that its template names."""
    return StaleReason(code, STALE_REASONS[code].sentence.format(**details))


@dataclass(frozen=True, slots=True)
class Freshness:
    """State of an index relative to the disk: fresh only if that is known, else with a reason."""

    as_of: Clock
    stale: StaleReason | None = None
    pending: tuple[str, ...] = ()  # at most 20 paths, for display

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
