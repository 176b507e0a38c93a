"""Events of a saved query, however its answers change before they are sent."""

import pytest

from cocosearch_ipc.protocol import SearchReply, SearchRequest, SearchResult
from cocosearchd.api.saved_queries import SavedQuery
from cocosearchd.errors import NotFound

pytestmark = pytest.mark.anyio


def result(path: str, content: str = "a circuit breaker") -> SearchResult:
    return SearchResult(
        "code",
        path,
        1,
        1,
        0,
        len(content),
        "python",
        1.0,
        "both",
        "",
        "",
        None,
        None,
        None,
        content,
        "",
        "",
    )


class Answers:
    """Answers with what is `there`."""

    def __init__(self, *answers: SearchResult) -> None:
        self.there = answers

    async def __call__(self, request: SearchRequest) -> SearchReply:
        return SearchReply(request.query, self.there, True, None, None, "miss", {}, request.index)


async def test_what_an_answer_shows_before_its_commit_is_told_of_is_told_then() -> None:
    answers = Answers(result("old.py"))
    saved = SavedQuery(answers, SearchRequest("circuit breaker"))
    assert await saved.begin("code") == ()
    # b.py has come since the commit of a.py
    answers.there = (result("old.py"), result("a.py"), result("b.py"))
    assert await saved.new("code", ["a.py"]) == (result("a.py"),)
    assert await saved.new("code", ["b.py", "a.py"]) == (result("b.py"),)
    assert await saved.new("code", ["b.py", "a.py", "old.py"]) == ()


async def test_a_beginning_since_then_tells_of_what_has_changed_and_knows_the_rest() -> None:
    answers = Answers(result("old.py"), result("a.py"))
    saved = SavedQuery(answers, SearchRequest("circuit breaker"))
    assert await saved.begin("code", ["a.py"]) == (result("a.py"),)
    assert await saved.new("code", ["old.py", "a.py"]) == ()
    every = SavedQuery(answers, SearchRequest("circuit breaker"))
    assert await every.begin("code", None) == answers.there


async def test_a_linked_index_is_not_asked() -> None:
    """It may have a file of the same path, which has not changed."""
    requests = list[SearchRequest]()

    class Recording(Answers):
        async def __call__(self, request: SearchRequest) -> SearchReply:
            requests.append(request)
            return await super().__call__(request)

    await SavedQuery(Recording(), SearchRequest("circuit breaker")).new("code", ["a.py"])
    assert [request.linked for request in requests] == [False]


async def test_an_index_that_goes_while_it_is_asked_ends_no_saved_query() -> None:
    class Gone(Answers):
        """The tables went between a commit and the question."""

        async def __call__(self, request: SearchRequest) -> SearchReply:
            if request.index == "gone":
                raise NotFound("the tables of this index are gone", "")
            return await super().__call__(request)

    saved = SavedQuery(Gone(result("a.py")), SearchRequest("circuit breaker"))
    assert await saved.new("gone", ["a.py"]) == ()
    assert await saved.new("code", ["a.py"]) == (result("a.py"),)
