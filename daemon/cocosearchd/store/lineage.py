"""Lineages of generations: after PostgreSQL lost commits, generations go on in the next lineage.

A follower, or a file on disk, may have the lost commits. Another lineage tells that the index has
other rows, although later commits may have reached the same generation.

Commits are lost when a standby is promoted that lacks them, and when a backup is restored. Both begin
another timeline of the server's log. The registry has the timeline that a daemon has seen last: the
next daemon notices another one, even if none was running meanwhile.
"""

import logging
from contextlib import suppress

import psycopg

from cocosearchd.store.connection.database import Connection, fetch_row
from cocosearchd.store.connection.statements import statement

log = logging.getLogger(__name__)

LINEAGE = 1 << 32  # generations of a lineage


def is_same_lineage(generation: int, later: int) -> bool:
    """Return True if no commit up to `generation` was lost before the `later` generation was read."""
    return generation <= later and generation // LINEAGE == later // LINEAGE


async def read_timeline(connection: Connection) -> str:
    """Read the timeline of the server's log: a failover begins another. "" if it is not shown."""
    with suppress(
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.FeatureNotSupported,
        psycopg.errors.UndefinedFunction,
    ):
        async with connection.transaction():
            row = await fetch_row(connection, statement("timeline"))
            return str(row[0]) if row else ""
    return ""


async def note_timeline(connection: Connection, timeline: str) -> None:
    """Note the timeline, within a transaction; another one begins another lineage in all indexes.

    The row of the registry is locked last, as by all writes.
    """
    row = await fetch_row(connection, statement("noted_timeline"))
    former = row[0] if row else ""
    if not timeline or timeline == former:
        return
    if former:
        log.error("commits_lost", extra={"timeline": timeline, "timeline_before": former})
        await connection.execute(statement("begin_lineage"), {"lineage": LINEAGE})
        await connection.execute(statement("begin_lineage_floor"), {"lineage": LINEAGE})
    await connection.execute(statement("note_timeline"), {"timeline": timeline})
