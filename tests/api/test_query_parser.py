"""Long questions are parsed outside of the event loop, one after the other."""

import threading
from typing import Any

import anyio
import pytest

from cocosearch_ipc import protocol as p
from cocosearchd.api import search_requests
from cocosearchd.api.search_requests import LONG_QUESTION, QueryParser
from cocosearchd.errors import InvalidInput
from cocosearchd.search.plan import parse_query
from cocosearchd.search.request_limits import MAX_QUESTION

pytestmark = pytest.mark.anyio

LONG = "retry a request\n" * LONG_QUESTION


async def test_a_long_question_leaves_the_event_loop_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered, release = threading.Semaphore(0), threading.Event()

    def parse(text: str, **options: Any) -> object:
        if threading.current_thread() is threading.main_thread():
            return parse_query(text, **options)
        entered.release()
        assert release.wait(120)
        return parse_query(text, **options)

    monkeypatch.setattr(search_requests, "parse_query", parse)
    parser = QueryParser()
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(parser.parse, p.SearchRequest(LONG))
        assert await anyio.to_thread.run_sync(entered.acquire, True, 60)
        query = await parser.parse(p.SearchRequest("retry"))
        assert query.words == "retry"
        await anyio.sleep(0.1)
        assert not entered.acquire(blocking=False), "one at a time"
        release.set()


async def test_a_long_question_is_read_and_refused_as_a_short_one() -> None:
    parser = QueryParser()
    assert await parser.parse(p.SearchRequest(LONG, limit=7)) == parse_query(LONG, limit=7)
    with pytest.raises(InvalidInput, match="characters"):
        await parser.parse(p.SearchRequest("a" * (MAX_QUESTION + 1)))


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        ({"min_score": 0.4}, 0.4),
        ({"min_relevance": 0.3, "min_score": 0.4}, 0.4),
        ({"min_relevance": -1.0}, -1.0),  # the bounds of a plan refuse it
        ({"min_relevance": 0.3, "min_score": -0.5}, -0.5),
    ],
)
async def test_the_stricter_of_both_names_of_a_threshold_counts(
    thresholds: dict[str, Any], expected: float
) -> None:
    query = await QueryParser().parse(p.SearchRequest("x", **thresholds))
    assert query.ranking.min_relevance == expected
