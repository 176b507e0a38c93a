"""Groups of files with not too many chunks, to read an index on a distributed schema part by part.

The coordinator of Citus fetches all rows of a statement before it gives the first of them away, also
to a cursor. In groups, an index of any size passes through little of its memory and disk.
"""

from collections.abc import AsyncGenerator

from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Connection
from cocosearchd.store.connection.statements import statement

GROUP_CHUNKS = 2000  # about 6 MB; a file with more has a group of its own


async def file_groups(
    connection: Connection, record: IndexRecord, size: int = GROUP_CHUNKS
) -> AsyncGenerator[list[str], None]:
    """Yield the paths of all files that have chunks, in order, in groups of `size` chunks.

    For a transaction with one snapshot, so that the groups are as of one moment.
    """
    cursor = await connection.execute(statement("chunk_counts", record))
    paths = list[str]()
    chunks = 0
    for path, count in await cursor.fetchall():
        if paths and chunks + count > size:
            yield paths
            paths = []
            chunks = 0
        paths.append(path)
        chunks += count
    if paths:
        yield paths
