"""A bound on the memory of followed indexes, in chunks."""

from cocosearchd.errors import Refused

# Words, names and vectors of a chunk in memory: 175,000 chunks took 535 MB (docs/sizing.md).
CHUNK_BYTES = 3_000


class ChunkBudget:
    """The chunks of all followed indexes, at most `limit` together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: dict[tuple[str, int], int] = {}

    def check(self, name: str, chunks: int) -> None:
        """Raise `Refused` if an index with this number of chunks does not fit."""
        room = max(0, self._limit - sum(self._taken.values()))
        if chunks > room:
            raise Refused(
                f"{name} has {chunks:,} chunks ({describe_memory(chunks)} of memory), and "
                f"database.follow_max_chunks leaves room for {room:,}",
                "raise database.follow_max_chunks, or follow fewer schemas",
            )

    def take(self, key: tuple[str, int], chunks: int) -> None:
        """Count the chunks of an index; `key` is its record's key."""
        self._taken[key] = chunks

    def free(self, key: tuple[str, int]) -> None:
        """Stop counting an index."""
        self._taken.pop(key, None)


def describe_memory(chunks: int) -> str:
    """Return a text with the estimated memory of a number of chunks."""
    return f"about {max(1, chunks * CHUNK_BYTES // 1_000_000):,} MB"
