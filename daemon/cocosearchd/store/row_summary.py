"""Summarises the rows of an index for its status: counts, and samples of files left out."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.index_records import (
    Counts,
    counts,
    excluded_files,
    unparsed_files,
)
from cocosearchd.store.precise_use_rows import PreciseUseCounts, count_precise_uses

UNKNOWN_COUNTS = Counts(-1, -1)


@dataclass(frozen=True, slots=True)
class RowSummary:
    """Counts of an index, with path and reason of some excluded and of some unparsed files."""

    counts: Counts = UNKNOWN_COUNTS
    excluded: tuple[tuple[str, str], ...] = ()
    unparsed: tuple[tuple[str, str], ...] = ()
    precise: PreciseUseCounts = field(default_factory=PreciseUseCounts)


async def read_row_summary(
    db: Database, record: IndexRecord, codes: Sequence[str], mark: str, limit: int
) -> RowSummary:
    """Read the summary; each part sees the rows of a different moment.

    At most `limit` excluded files are named, in the order of `codes`, and as many unparsed files,
    whose message begins with `mark`.
    """
    return RowSummary(
        counts=await counts(db, record),
        excluded=await excluded_files(db, record, codes, limit),
        unparsed=await unparsed_files(db, record, mark, limit),
        precise=await count_precise_uses(db, record),
    )
