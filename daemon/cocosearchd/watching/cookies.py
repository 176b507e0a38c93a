"""Cookies: files whose hint tells a question that all earlier changes have been reported."""

import asyncio
import os
from itertools import count


class CookieVoid(Exception):
    """The watch that should have seen the cookie has ended."""


class Cookies:
    """Files dropped into a watched directory outside of the root.

    When the hints backend reports a cookie, it has reported all that changed before.
    """

    def __init__(self, sync_dir: bytes) -> None:
        self._sync_dir = sync_dir
        self._waiting: dict[bytes, asyncio.Future[None]] = {}
        self._numbers = count(1)

    async def sync(self) -> None:
        """Wait until every change before the call has been reported.

        Raises `CookieVoid`, and `OSError` if the cookie cannot be dropped.
        """
        name = b"%d-%d" % (os.getpid(), next(self._numbers))
        self._waiting[name] = future = asyncio.get_running_loop().create_future()
        try:
            path = os.path.join(self._sync_dir, name)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            os.unlink(path)
            await future
        finally:
            del self._waiting[name]

    def resolve(self, name: bytes) -> None:
        """End the wait for a cookie that the hints backend has reported."""
        future = self._waiting.get(name)
        if future is not None and not future.done():
            future.set_result(None)

    def void(self) -> None:
        """Fail all waits: the cookies that they wait for will never be reported."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(CookieVoid())
