"""Requests to one indexer process: each is one line, and its answer is another line."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from itertools import count
from typing import Any

from cocosearchd.indexing import indexer_messages

log = logging.getLogger(__name__)


class IndexerDied(Exception):
    """The indexer process ended before it answered.

    Its batch may be committed or not. Sending it again is safe.
    """


class IndexerLink:
    """Requests to an indexer process, which answers in any order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._committed: dict[int, asyncio.Future[int]] = {}
        self._numbers = count(1)
        self.answers = 0
        # texts computed, vectors reused, contents parsed: as of the last answer
        self.totals = Counter[str]()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message that has no answer."""
        if not self._writer.is_closing():
            self._writer.write(indexer_messages.encode_message(message))

    def request(self, message: Mapping[str, Any]) -> asyncio.Future[dict[str, Any]]:
        """Send a request. Return the future of its answer, which may raise `IndexerDied`."""
        return self._request(next(self._numbers), message)

    def request_work(
        self, message: Mapping[str, Any]
    ) -> tuple[asyncio.Future[dict[str, Any]], asyncio.Future[int]]:
        """Send a batch. Return the futures of its answer and of the generation of its commit.

        The second one may come first, if all rows of the batch are committed before CocoIndex has
        stored that they are. It is cancelled when the answer comes.
        """
        number = next(self._numbers)
        answer = self._request(number, message)
        self._committed[number] = committed = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda _: self._committed.pop(number).cancel())
        return answer, committed

    def _request(self, number: int, message: Mapping[str, Any]) -> asyncio.Future[dict[str, Any]]:
        self._waiting[number] = future = asyncio.get_running_loop().create_future()
        self.send({**message, "id": number})
        return future

    async def wait_ready(self) -> bool:
        """Wait until the process is ready. Return false if it ended first."""
        return bool(await self._line())

    async def listen(self) -> None:
        """Resolve futures until the process hangs up or answers an unknown request."""
        while message := await self._line():
            number = message.get("id", 0)
            if "committed" in message:
                self._record_commit(number, message["committed"])
                continue
            future = self._waiting.pop(number, None)
            if future is None:
                log.error("indexer_protocol_error", extra={"reason": "an answer without a request"})
                return
            self.answers += 1
            self.totals = Counter(message.get("done", self.totals))
            if not future.done():  # the caller may have been cancelled
                future.set_result(message)

    def _record_commit(self, number: int, generation: int) -> None:
        committed = self._committed.get(number)
        if committed is not None and not committed.done():
            committed.set_result(generation)

    def fail(self) -> None:
        """Close the connection. All open requests raise `IndexerDied`."""
        self._writer.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(IndexerDied())
                future.exception()  # read here: the caller may have been cancelled
        self._waiting.clear()

    async def _line(self) -> dict[str, Any] | None:
        try:
            line = await self._reader.readline()
            return indexer_messages.decode_answer(line) if line.endswith(b"\n") else None
        except ConnectionError:  # a killed process resets the socket
            return None
        # raised for a line that is too long as well; the process cannot be used any more
        except ValueError as error:
            log.error("indexer_protocol_error", extra={"reason": str(error)})
            return None
