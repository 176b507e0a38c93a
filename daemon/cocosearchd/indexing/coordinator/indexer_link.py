"""The daemon's end of one life of the child: a line out, a future for the line that answers it."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from itertools import count
from typing import Any

from cocosearchd.indexing import indexer_messages

log = logging.getLogger(__name__)


class IndexerDied(Exception):
    """The child ended before it answered. What it was given may or may not be committed; giving it
    again is safe.
    """


class IndexerLink:
    """Requests to a child, answered in any order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = count(1)
        self.answers = 0
        self.totals = Counter[str]()  # texts computed and reused, contents parsed: as last told

    def send(self, message: Mapping[str, Any]) -> None:
        """Tell the child something that it does not answer."""
        if not self._writer.is_closing():
            self._writer.write(indexer_messages.encode_message(message))

    def request(self, message: Mapping[str, Any]) -> asyncio.Future[dict[str, Any]]:
        """The answer to come. Raises `IndexerDied` from the future."""
        number = next(self._numbers)
        self._waiting[number] = future = asyncio.get_running_loop().create_future()
        self.send({**message, "id": number})
        return future

    async def wait_ready(self) -> bool:
        """Whether the child came up; False when it ended first."""
        return bool(await self._line())

    async def listen(self) -> None:
        """Resolve answers until the child hangs up, however it ends, or says what answers
        nothing.
        """
        while message := await self._line():
            future = self._waiting.pop(message.get("id", 0), None)
            if future is None:
                log.error(
                    "indexer_protocol_error", extra={"reason": "it answers what it was not asked"}
                )
                return
            self.answers += 1
            self.totals = Counter(message.get("done", self.totals))
            if not future.done():  # whoever asked may have been cancelled
                future.set_result(message)

    def fail(self) -> None:
        """Nothing more will be answered."""
        self._writer.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(IndexerDied())
        self._waiting.clear()

    async def _line(self) -> dict[str, Any] | None:
        try:
            line = await self._reader.readline()
            return indexer_messages.decode_answer(line) if line.endswith(b"\n") else None
        except ConnectionError:  # a killed child resets the socket
            return None
        # also for a line that is too long; the child is as good as dead
        except ValueError as error:
            log.error("indexer_protocol_error", extra={"reason": str(error)})
            return None
