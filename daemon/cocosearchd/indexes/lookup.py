"""Which running index is meant: by its name, by a directory in it, by a topic. Reads only."""

import os
from collections.abc import Collection

import anyio

from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.indexes.config_sync import RunningIndex
from cocosearchd.model import encode_path
from cocosearchd.runtime.files.nofollow import without_links

# A link is followed within microseconds, by a disk that sleeps within seconds, on a network that is
# away never.
LINKS_S = 0.5
LOOKS = 4  # so many threads at most wait for such a network


class IndexLookup:
    """The running indexes by name; `indexes.IndexRegistry` starts and stops them."""

    def __init__(self) -> None:
        self._running: dict[str, RunningIndex] = {}
        self._looks = anyio.CapacityLimiter(LOOKS)

    def all(self) -> tuple[RunningIndex, ...]:
        """Every index, refused ones too."""
        return tuple(self._running[name] for name in sorted(self._running))

    def get(self, name: str) -> RunningIndex:
        """Raises `NotFound` naming what exists."""
        if name not in self._running:
            known = ", ".join(sorted(self._running)) or "none yet: cocosearchctl up DIRECTORY"
            raise NotFound(f"there is no index {name!r}", f"indexes: {known}")
        return self._running[name]

    def at(self, directory: bytes) -> RunningIndex | None:
        """The index whose root holds `directory` (absolute, resolved); the nearest one of
        several.
        """
        holding = [
            index
            for index in self._running.values()
            if directory == index.record.root
            or directory.startswith(index.record.root.rstrip(b"/") + b"/")
        ]
        return max(holding, key=lambda index: len(index.record.root), default=None)

    async def around(self, directory: str) -> RunningIndex | None:
        """The index around a directory as a person or program names it: links are followed. Raises
        `InvalidInput`.

        A relative one would be looked for in the daemon's own directory, and an answer be of the
        project that is there.
        """
        if not directory.startswith("/"):
            raise InvalidInput(
                f"{directory!r} is not an absolute path", "give the whole path of a directory"
            )
        return self.at(await self.resolved(os.fsencode(directory)))

    async def resolved(self, directory: bytes) -> bytes:
        """A directory without links; as it is named where the disk does not say within `LINKS_S`.

        Raises `InvalidInput` for one behind more links than can be followed.
        """
        if any(directory == index.record.root for index in self._running.values()):
            return directory  # roots are resolved, and most questions come from one
        try:
            with anyio.move_on_after(LINKS_S):
                return await anyio.to_thread.run_sync(
                    without_links, directory, abandon_on_cancel=True, limiter=self._looks
                )
        except OSError as error:
            hint = "name the directory that the links lead to"
            raise InvalidInput(
                f"{encode_path(directory)} cannot be followed: {error.strerror}", hint
            ) from None
        return directory

    async def one(self, name: str | None, cwd: str | None) -> RunningIndex:
        """The index that is named, else the one around `cwd`, else the only one. Raises
        `NotFound`.
        """
        if name is not None:
            return self.get(name)
        if cwd is not None and (found := await self.around(cwd)) is not None:
            return found
        indexes = self.all()
        if len(indexes) == 1:
            return indexes[0]
        if not indexes:
            raise NotFound("there is no index yet", "cocosearchctl up DIRECTORY")
        names = ", ".join(index.record.name for index in indexes)
        raise NotFound(
            "the current directory is in no index, and there are several",
            f"--index with one of: {names}",
        )

    def of_topics(self, topics: Collection[str]) -> tuple[RunningIndex, ...]:
        """The indexes that have any of the topics. Raises `NotFound` for a topic that none has."""
        known = {topic for index in self._running.values() for topic in index.record.topics}
        if unknown := sorted(set(topics) - known):
            hint = (
                f"topics: {', '.join(sorted(known))}"
                if known
                else "give one with `cocosearchctl up PATH --topic`"
            )
            raise NotFound(f"no index has the topic {unknown[0]!r}", hint)
        return tuple(index for index in self.all() if set(topics) & set(index.record.topics))

    def linked(self, index: RunningIndex) -> tuple[tuple[RunningIndex, ...], tuple[str, ...]]:
        """The indexes that one links, not those that they link; a sentence for each that cannot be
        searched with it.
        """
        found, said = dict[str, RunningIndex](), list[str]()
        for name in index.settings.project.linked_indexes:
            other = self._running.get(name)
            if other is None:
                said.append(f"{index.record.name} links {name!r}, and there is no such index")
            elif (
                other.refusal is not None
                or other.record.identity.embedder != index.record.identity.embedder
            ):
                said.append(
                    f"{index.record.name} links {name!r}, which was built with another embedder"
                )
            elif other is not index:
                found[name] = other
        return tuple(found.values()), tuple(said)
