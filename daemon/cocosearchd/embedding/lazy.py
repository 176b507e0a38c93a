"""An embedder that is opened at its first use; after a failure it is opened again after a pause.

The daemon starts, watches files and searches words while a model server is down; once the server
is back, vectors work without a restart.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

import anyio

from cocosearchd.embedding.base import Embedder, EmbedderFingerprint, Pingable, Vectors
from cocosearchd.errors import BadSettings, EmbedderUnavailable, EmbedderUnresponsive
from cocosearchd.runtime.deadlines import ends_within

# Queries must not wait for the timeout of a dead server again and again.
OPEN_RETRY_S = 2.0
# The time for which a failure counts. A server whose requests cost money is not asked again before
# a caller needs a vector.
FAILURE_TTL_S = 60.0
# The timeout of a query while earlier queries are still unanswered, and the limit of unanswered
# queries. They go on in the background: a model may be loading.
BUSY_TIMEOUT_S = 0.25
PENDING_LIMIT = 4


class LazyEmbedder:
    """Implements `Embedder` over the embedder that a function opens.

    `fingerprint` raises `EmbedderUnavailable` until the first success. A query waits
    `query_timeout_s` for its vector; None: without limit.
    """

    def __init__(
        self, open_embedder: Callable[[], Awaitable[Embedder]], query_timeout_s: float | None = None
    ) -> None:
        self._open_embedder = open_embedder
        self._query_timeout_s = query_timeout_s
        self._pending = set[asyncio.Task[tuple[Embedder, Vectors]]]()  # queries that have timed out
        self._embedder: Embedder | None = None
        self._replaced = list[Embedder]()
        self._error = EmbedderUnavailable(
            "the embedder has not answered yet", "it may be loading its model: this is tried again"
        )
        self._tried_at = -OPEN_RETRY_S
        self._opening = anyio.Lock()
        self._failure: EmbedderUnavailable | None = None  # of the last call
        self._failed_at = 0.0

    @property
    def error(self) -> EmbedderUnavailable | None:
        """The reason why the embedder is not open; None if it is open."""
        return self._error if self._embedder is None else None

    async def ping(self) -> None:
        """Ask whether the model answers, at no cost. Raises `EmbedderUnavailable`.

        The failure of the last call counts too: until a call succeeds, and for at most
        `FAILURE_TTL_S`.
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
        """The fingerprint of the opened embedder."""
        if self._embedder is None:
            raise self._error
        return self._embedder.fingerprint

    async def open(self) -> Embedder:
        """Return the embedder; open it now if needed.

        Raises `EmbedderUnavailable`; within `OPEN_RETRY_S` of a failure it does so at once. Raises
        `BadSettings` if the settings cannot work: a server that starts late may show this late.
        """
        async with self._opening:
            if self._embedder is None:
                if time.monotonic() - self._tried_at < OPEN_RETRY_S:
                    raise self._error
                try:
                    self._embedder = await self._open_embedder()
                except (EmbedderUnavailable, BadSettings) as error:
                    self._error = EmbedderUnavailable(error.message, error.hint)
                    self._tried_at = time.monotonic()
                    raise
            return self._embedder

    async def reopen(self) -> None:
        """Check which model the server has now: another one may have taken the name.

        Raises as `open`.

        A server that does not answer now counts as unchanged.
        """
        current = await self.open()
        async with self._opening:
            try:
                reopened = await self._open_embedder()
            except EmbedderUnavailable:
                return
            if reopened.fingerprint == current.fingerprint:
                await reopened.aclose()
                return
            self._replaced.append(current)  # closed later: queries may still use it
            self._embedder = reopened

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        embedder = await self.open()
        with self._outcome():
            return await embedder.embed_documents(texts)

    async def embed_query(self, text: str) -> Vectors:
        """See `Embedder`."""
        if self._query_timeout_s is None:
            return self._select_current(*await self._vector(text))
        timeout_s = self._query_timeout_s
        if self._pending:
            timeout_s = min(BUSY_TIMEOUT_S, timeout_s)
        if len(self._pending) >= PENDING_LIMIT:
            raise _timeout_error(self._query_timeout_s)
        task = asyncio.create_task(self._vector(text))
        if not await ends_within(task, timeout_s):
            self._pending.add(task)
            task.add_done_callback(self._pending.discard)
            with self._outcome():
                raise _timeout_error(self._query_timeout_s)
        return self._select_current(*task.result())

    def _select_current(self, embedder: Embedder, vector: Vectors) -> Vectors:
        """Return a vector if `fingerprint` is that of the embedder that made it."""
        if embedder is not self._embedder:
            raise EmbedderUnavailable("another model has just taken its name", "ask again")
        return vector

    async def _vector(self, text: str) -> tuple[Embedder, Vectors]:
        try:
            embedder = await self.open()
        except BadSettings:
            raise self._error from None
        with self._outcome():
            return embedder, await embedder.embed_query(text)

    @contextlib.contextmanager
    def _outcome(self) -> Iterator[None]:
        """Record whether a call fails."""
        try:
            yield
        except EmbedderUnavailable as error:
            self._failure = error
            self._failed_at = time.monotonic()
            raise
        self._failure = None

    async def aclose(self) -> None:
        """See `Embedder`."""
        for task in self._pending:
            task.cancel()
        for embedder in (*self._replaced, *filter(None, (self._embedder,))):
            await embedder.aclose()


def _timeout_error(seconds: float) -> EmbedderUnavailable:
    return EmbedderUnresponsive(
        f"the model server has not answered for {seconds:g} s",
        "it may be loading the model, or busy with files",
    )
