"""Groups of files with a bounded number of chunks, to read an index of a distributed schema in parts.

The coordinator of Citus fetches all rows of a statement before it returns the first row, even for a
cursor. In groups, an index of any size takes little of the coordinator's memory and disk.
"""

from collections.abc import AsyncGenerator

from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Connection
from cocosearchd.store.connection.statements import statement


async def file_groups(
    connection: Connection, record: IndexRecord, size: int
) -> AsyncGenerator[list[str], None]:
    """Yield the paths of all files that have chunks, in order, in groups of `size` chunks.

    A file with more chunks has a group of its own.

    Call it in a transaction with one snapshot: the groups are then as of one moment.
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
