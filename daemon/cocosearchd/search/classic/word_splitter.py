"""Splits texts of chunks into words in a worker process, so that no text can block the daemon."""

import asyncio
import logging
import marshal
import sys
from collections.abc import Iterator, Sequence
from functools import partial

from cocosearchd.languages.identifiers import split_text
from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.values import read_values
from cocosearchd.sandbox.worker_pool import PoolSize, WorkerPool
from cocosearchd.sandbox.worker_process import WorkerLost

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "cocosearchd.search.classic.words_worker")
REQUEST_CHARACTERS = 1 << 20  # characters of one request: some 100 ms of work
# Fifty times the resources that a request of usual size uses.
LIMITS = ResourceLimits(address_space_bytes=1 << 30, request_cpu_s=5)
DEADLINE_S = 20.0  # wall time of a request
# No process stays warm: words are split for minutes, then perhaps never again. With two processes,
# a question does not wait for a bulk fill of words.
SIZE = PoolSize(max_processes=2, idle_s=30.0)


class WordSplitter:
    """A splitter that runs in worker processes.

    For one event loop; `pool.aclose` ends the processes.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self.pool = WorkerPool("words", command, installed_code_digest(), LIMITS, SIZE)

    async def split(self, texts: Sequence[str]) -> list[str]:
        """Split each text as `split_text` does. Raises `WorkerUnavailable`.

        A text that kills the process gets no words.
        """
        words = list[str]()
        for batch in split_into_requests(texts):
            try:
                words += await self._request(batch)
            except WorkerLost:
                words += [await self._split_alone(text) for text in batch]
        return words

    async def _split_alone(self, text: str) -> str:
        """Split one text of a batch that killed its process."""
        try:
            (words,) = await self._request([text])
        except WorkerLost as error:
            log.warning("words_not_split", extra={"characters": len(text), "how": error.reason})
            return ""
        return words

    async def _request(self, texts: Sequence[str]) -> list[str]:
        decode = partial(unpack_words, count=len(texts))
        return await self.pool.call(marshal.dumps(list(texts)), DEADLINE_S, decode)


async def split_in_thread(texts: Sequence[str]) -> list[str]:
    """Split a few texts in a thread of this process."""
    return await asyncio.to_thread(lambda: [split_text(text) for text in texts])


def split_into_requests(texts: Sequence[str]) -> Iterator[list[str]]:
    """Group texts, in order, into requests of at most `REQUEST_CHARACTERS`; a longer text is alone."""
    batch = list[str]()
    characters = 0
    for text in texts:
        if batch and characters + len(text) > REQUEST_CHARACTERS:
            yield batch
            batch = []
            characters = 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def unpack_words(body: bytes, count: int) -> list[str]:
    """Decode a response into the words of `count` texts.

    Raises `InvalidFrame` if the response does not hold `count` texts that PostgreSQL can store, and
    `ValueError` if it cannot be decoded.
    """
    words = read_values(body)
    if not isinstance(words, list) or len(words) != count:
        raise InvalidFrame("words of other texts")
    if any(not isinstance(text, str) or b"\0" in text.encode() for text in words):
        raise InvalidFrame("words that are no texts")
    return words
