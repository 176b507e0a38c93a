"""Indexes that a question to all of them leaves out, and what the answer says about them."""

from types import SimpleNamespace
from typing import cast

import pytest

from cocosearch_ipc import workspace_protocol as w
from cocosearchd.api.missing_indexes import find_missing_indexes
from cocosearchd.api.search_requests import asks_all_indexes, searched_indexes
from cocosearchd.errors import NotFound
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.search.plan import parse_query

pytestmark = pytest.mark.anyio
EVERYWHERE = w.GrepRequest("x", all_indexes=True)


def running_index(name: str, error: NotFound | None = None, model: str = "small") -> RunningIndex:
    identity = SimpleNamespace(embedder=(("model", model),), model=model)
    record = SimpleNamespace(
        name=name, root=f"/{name}".encode(), is_followed="@" in name, identity=identity, topics=()
    )
    return cast(RunningIndex, SimpleNamespace(record=record, error=error))


@pytest.fixture
def lookup() -> IndexLookup:
    refused = NotFound("another embedder built it", "reindex it")
    indexes = IndexLookup({"a": running_index("a"), "b": running_index("b", refused)})
    indexes.add_followed({"c@team": running_index("c@team", model="large")})
    return indexes


async def test_a_search_in_lines_leaves_out_only_what_does_not_run(lookup: IndexLookup) -> None:
    """It compares no vectors, so another embedder is no reason."""
    selected = await searched_indexes(lookup, EVERYWHERE, needs_vectors=False)
    assert [index.record.name for index in selected] == ["a", "c@team"]
    missing = find_missing_indexes(lookup, needs_vectors=False)
    assert missing.sentences == ("b: not searched: another embedder built it",)
    reply = missing.mark(w.GrepReply((), 0, 0, 0, True, True, None, None, ("a",)))
    assert (reply.fresh, reply.stale_code) == (False, "index_unavailable")
    assert "reindex it" in reply.notes[0]


async def test_a_search_by_meaning_leaves_out_other_embedders_as_well(lookup: IndexLookup) -> None:
    selected = await searched_indexes(lookup, EVERYWHERE)
    assert [index.record.name for index in selected] == ["a"]
    missing = find_missing_indexes(lookup, needs_vectors=True)
    assert [sentence.partition(":")[0] for sentence in missing.sentences] == ["b", "c@team"]


def test_a_reply_that_lacks_no_index_stays() -> None:
    missing = find_missing_indexes(IndexLookup({"a": running_index("a")}), needs_vectors=True)
    reply = w.GrepReply((), 0, 0, 0, True, True, None, None, ("a",))
    assert missing.mark(reply) is reply


def test_names_and_topics_of_a_request_or_its_query_mean_not_all_indexes() -> None:
    assert asks_all_indexes(EVERYWHERE, parse_query("x"))
    assert not asks_all_indexes(EVERYWHERE, parse_query("index:a x"))
    assert not asks_all_indexes(w.GrepRequest("x", all_indexes=True, topics=("t",)))
    assert not asks_all_indexes(w.GrepRequest("x", all_indexes=True, index="a"))
    assert not asks_all_indexes(w.GrepRequest("x"))
