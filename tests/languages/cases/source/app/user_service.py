"""Users, as the rest of the shop sees them."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from typing import Generic, TypeVar, overload

T = TypeVar("T")
MAX_ATTEMPTS: int = 3
_cache: dict[str, "User"] = {}
type Handler[K] = dict[K, str]


class UserError(Exception):
    """A user cannot be served."""


class UserService(Generic[T]):
    """Finds and stores users."""

    table = "users"

    def __init__(self, repository: Repository[T], *, retries: int = MAX_ATTEMPTS) -> None:
        self._repository = repository
        self._retries = retries

    # Looked up on every request.
    @functools.lru_cache(maxsize=128)
    def get_user(self, user_id: int) -> User | None:
        return self._repository.find(user_id)

    @property
    def size(self) -> int:
        return len(self._repository)

    @staticmethod
    def parse(text: str) -> dict[str, str]:
        def pair(line: str) -> tuple[str, str]:
            key, _, value = line.partition("=")
            return key.strip(), value.strip()

        return dict(pair(line) for line in text.splitlines())

    async def stream(self) -> AsyncIterator[User]:
        async for row in self._repository.rows():
            yield User(**row)

    class Settings:
        """Inner class."""

        timeout = 5

        def as_dict(self) -> dict[str, int]:
            return {"timeout": self.timeout}


@overload
def load(path: str) -> bytes: ...
@overload
def load(path: bytes) -> bytes: ...
def load(path):
    """Reads a file."""
    with open(path, "rb") as stream:
        return stream.read()


async def main[A: (int, str)](first: A, *rest: A) -> None:
    if first:
        class Local:
            def run(self):
                return 1

        print(Local().run(), rest)


handler = lambda event: event["id"]  # noqa: E731
