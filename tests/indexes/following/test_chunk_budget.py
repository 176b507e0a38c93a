"""The bound on followed indexes: an index that does not fit is refused in one sentence."""

import pytest

from cocosearchd.errors import Refused
from cocosearchd.indexes.following.chunk_budget import ChunkBudget, describe_memory


def test_indexes_share_the_budget() -> None:
    budget = ChunkBudget(100_000)
    budget.check("a@x", 60_000)
    budget.take(("x", 1), 60_000)
    with pytest.raises(
        Refused, match=r"b@x has 50,000 chunks \(about 150 MB of memory\)"
    ) as refused:
        budget.check("b@x", 50_000)
    assert "room for 40,000" in refused.value.message
    assert "database.follow_max_chunks" in refused.value.hint
    budget.free(("x", 1))
    budget.check("b@x", 50_000)
    budget.free(("x", 1))


def test_memory_is_an_estimate_for_people() -> None:
    assert describe_memory(175_000) == "about 525 MB"
    assert describe_memory(0) == "about 1 MB"
