"""Words of texts, split in a worker process as in this one; a text that ends the process has no
words.
"""

import logging
import marshal
import sys
from collections.abc import AsyncIterator

import pytest

from cocosearchd.languages.identifiers import split_text
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.search.classic import word_splitter
from cocosearchd.search.classic.word_splitter import WordSplitter, unpack_words

pytestmark = pytest.mark.anyio
TEXTS = ["def getUserById(): return 1", "", "\u6587\u5b57\u5217 caf\u00e9 foo-bar", "x" * 3000]
# A worker that ends at a text which it does not like.
FRAGILE = """
import marshal, os
from cocosearchd.languages.identifiers import split_text
from cocosearchd.sandbox.worker_loop import run_worker

def handle(body):
    texts = marshal.loads(body)
    if any("poison" in text for text in texts):
        os._exit(1)
    return marshal.dumps([split_text(text) for text in texts])

run_worker(lambda: handle)
"""


@pytest.fixture
async def splitter() -> AsyncIterator[WordSplitter]:
    splitter = WordSplitter()
    yield splitter
    await splitter.pool.aclose()


async def test_words_are_those_of_the_one_splitter(
    splitter: WordSplitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [split_text(text) for text in TEXTS]
    assert await splitter.split(TEXTS) == expected
    assert await splitter.split([]) == []
    monkeypatch.setattr(word_splitter, "REQUEST_CHARACTERS", 30)
    assert await splitter.split(TEXTS) == expected


async def test_a_text_that_ends_the_process_has_no_words(caplog: pytest.LogCaptureFixture) -> None:
    splitter = WordSplitter((sys.executable, "-P", "-c", FRAGILE))
    with caplog.at_level(logging.WARNING):
        words = await splitter.split(["one two", "poison pill", "three"])
    await splitter.pool.aclose()
    assert words == ["one two", "", "three"]
    assert "words_not_split" in [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    "body",
    [
        marshal.dumps(["a"]),
        marshal.dumps(["a", 1]),
        marshal.dumps("ab"),
        marshal.dumps(["a", "\0"]),
    ],
)
def test_a_response_about_other_texts_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidFrame):
        unpack_words(body, 2)
