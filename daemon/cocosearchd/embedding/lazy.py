"""An embedder that may not be there yet: opened at first use, and again after a pause when it could
not be.

The daemon starts, watches and finds words while a model server is down; it becomes whole by itself.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

import anyio

from cocosearchd.embedding.base import Embedder, EmbedderFingerprint, Pingable, Vectors
from cocosearchd.errors import BadSettings, EmbedderSilent, EmbedderUnavailable
from cocosearchd.runtime.deadlines import ends_within

# A question that meets a dead server must not wait for its time-out again and again.
RETRY_S = 2.0
# Nor be patient while earlier ones are still not answered. So many go on by themselves, as a model
# that is being loaded should be. A failure of a server that is not asked again unless somebody
# needs a vector, as each costs something.
FAILURE_TTL_S = 60.0
BUSY_TIMEOUT_S, PENDING_LIMIT = 0.25, 4


class LazyEmbedder:
    """Implements `Embedder` over `open_embedder`. `fingerprint` raises `EmbedderUnavailable` until the
    first success.

    A question waits `query_timeout_s` for its vector; None: as long as it takes.
    """

    def __init__(
        self, open_embedder: Callable[[], Awaitable[Embedder]], query_timeout_s: float | None = None
    ) -> None:
        self._open_embedder, self._query_timeout_s = open_embedder, query_timeout_s
        self._late = set[asyncio.Task[Vectors]]()  # nobody waits for them any more
        self._embedder: Embedder | None = None
        self._replaced = list[Embedder]()
        self._error = EmbedderUnavailable(
            "the embedder has not answered yet", "it may be loading its model: this is tried again"
        )
        self._tried_at = -RETRY_S
        self._opening = anyio.Lock()
        self._failure: EmbedderUnavailable | None = None  # of the last call
        self._failed_at = 0.0

    @property
    def error(self) -> EmbedderUnavailable | None:
        """Why it is not there; None when it is."""
        return self._error if self._embedder is None else None

    async def ping(self) -> None:
        """Ask whether the model is there, at no cost. Raises `EmbedderUnavailable`.

        What the last call failed of counts as well, until one succeeds, or for `FAILURE_TTL_S` where
        trying costs something.
        """
        if self._embedder is None:
            raise self._error
        if isinstance(self._embedder, Pingable) and await self._embedder.ping(
            prove=self._failure is not None
        ):
            self._failure = None
        if self._failure is not None and time.monotonic() - self._failed_at < FAILURE_TTL_S:
            raise self._failure

    @property
    def fingerprint(self) -> EmbedderFingerprint:
        """Of the opened embedder."""
        if self._embedder is None:
            raise self._error
        return self._embedder.fingerprint

    async def open(self) -> Embedder:
        """The embedder, opened now if need be. Raises `EmbedderUnavailable`, at once within
        `RETRY_S` of a failure.

        And `BadSettings` where it cannot be what the settings say: a server that comes late tells
        so late.
        """
        async with self._opening:
            if self._embedder is None:
                if time.monotonic() - self._tried_at < RETRY_S:
                    raise self._error
                try:
                    self._embedder = await self._open_embedder()
                except (EmbedderUnavailable, BadSettings) as error:
                    self._error, self._tried_at = (
                        EmbedderUnavailable(error.message, error.hint),
                        time.monotonic(),
                    )
                    raise
            return self._embedder

    async def reopen(self) -> None:
        """Ask anew what there is: a server may have another model under the same name. Raises as
        `opened`.

        One that cannot be asked now has the model that is known.
        """
        before = await self.open()
        async with self._opening:
            try:
                now = await self._open_embedder()
            except EmbedderUnavailable:
                return
            if now.fingerprint == before.fingerprint:
                await now.aclose()
                return
            self._replaced.append(before)  # questions may still be under way
            self._embedder = now

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder`."""
        embedder = await self.open()
        with self._outcome():
            return await embedder.embed_documents(texts)

    async def embed_query(self, text: str) -> Vectors:
        """As `Embedder`."""
        if self._query_timeout_s is None:
            return await self._vector(text)
        query_timeout_s = (
            min(BUSY_TIMEOUT_S, self._query_timeout_s) if self._late else self._query_timeout_s
        )
        if len(self._late) >= PENDING_LIMIT:
            raise _silent(self._query_timeout_s)
        task = asyncio.create_task(self._vector(text))
        if not await ends_within(task, query_timeout_s):
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            with self._outcome():
                raise _silent(self._query_timeout_s)
        return task.result()

    async def _vector(self, text: str) -> Vectors:
        try:
            embedder = await self.open()
        except BadSettings:
            raise self._error from None
        with self._outcome():
            return await embedder.embed_query(text)

    @contextlib.contextmanager
    def _outcome(self) -> Iterator[None]:
        """Remember what a call comes to."""
        try:
            yield
        except EmbedderUnavailable as error:
            self._failure, self._failed_at = error, time.monotonic()
            raise
        self._failure = None

    async def aclose(self) -> None:
        """As `Embedder`."""
        for task in self._late:
            task.cancel()
        for embedder in (*self._replaced, *filter(None, (self._embedder,))):
            await embedder.aclose()


def _silent(seconds: float) -> EmbedderUnavailable:
    return EmbedderSilent(
        f"the model server has not answered for {seconds:g} s",
        "it may be loading the model, or busy with files",
    )
