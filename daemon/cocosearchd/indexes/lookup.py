"""Looks up running indexes: by name, by a directory inside, by topic, by link."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import anyio

from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.forms.path_forms import path_text
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.model import IndexRecord
from cocosearchd.runtime.files.nofollow import without_links
from cocosearchd.search.history.history_index import HistoryIndex

# Following a link takes microseconds; on a sleeping disk, seconds; on a missing network, for ever.
LINKS_S = 0.5
LINK_THREADS = 4  # threads that may wait for a missing network at a time
# Names of a project's settings that a warning quotes, and characters of each.
MAX_LISTED, MAX_QUOTED = 3, 40


class IndexLookup:
    """Selects among the running indexes; `IndexRegistry` starts and stops them."""

    def __init__(self, running: Mapping[str, RunningIndex]) -> None:
        """`running` are the indexes by name; changes of the mapping are seen."""
        self._running = running
        # Indexes of other daemons: selected by name, by topic and all together, never by directory.
        self._followed: Mapping[str, RunningIndex] = {}
        self._link_threads = anyio.CapacityLimiter(LINK_THREADS)

    def add_followed(self, followed: Mapping[str, RunningIndex]) -> None:
        """Find the indexes of other daemons as well; changes of the mapping are seen."""
        self._followed = followed

    def own(self) -> tuple[RunningIndex, ...]:
        """Return every index of this daemon by name, including indexes that are listed but not run."""
        return tuple(self._running[name] for name in sorted(self._running))

    def all(self) -> tuple[RunningIndex, ...]:
        """Return all own indexes by name, then all followed indexes, including those not run."""
        return (*self.own(), *(self._followed[name] for name in sorted(self._followed)))

    def other_embedder_indexes(self) -> tuple[RunningIndex, ...]:
        """Return the followed indexes that no question asks together with the others.

        They have another embedder: one query vector could not be compared with all vectors.
        """
        embedders = [index.record.identity.embedder for index in self.all() if index.error is None]
        return tuple(
            index
            for index in self.all()
            if index.record.is_followed
            and index.error is None
            and index.record.identity.embedder != embedders[0]
        )

    def find(self, name: str) -> RunningIndex | None:
        """Return the index of a name, None if there is none."""
        return self._running.get(name) or self._followed.get(name)

    def history_of(self, record: IndexRecord) -> HistoryIndex | None:
        """Return the history of a running index for a question; None without one."""
        index = self.find(record.name)
        if index is None or index.record.key != record.key or not index.settings.search.history:
            return None
        return index.history.take()

    def get(self, name: str) -> RunningIndex:
        """Return the index of a name. Raises `NotFound` with the names that exist."""
        index = self.find(name)
        if index is None:
            names = ", ".join(candidate.record.name for candidate in self.all())
            names = names or "none yet: cocosearchctl up DIRECTORY"
            raise NotFound(f"there is no index {name!r}", f"indexes: {names}")
        return index

    def containing(self, directory: bytes) -> RunningIndex | None:
        """Return the index with the nearest root around `directory` (absolute, links resolved)."""
        containing = [
            index
            for index in self._running.values()
            if directory == index.record.root
            or directory.startswith(index.record.root.rstrip(b"/") + b"/")
        ]
        return max(containing, key=lambda index: len(index.record.root), default=None)

    async def around(self, directory: str) -> RunningIndex | None:
        """Return the index around an absolute directory; links are followed.

        Raises `InvalidInput` for a relative directory: the daemon would resolve it in its own
        directory, which leads to the wrong project.
        """
        if not directory.startswith("/"):
            raise InvalidInput(
                f"{directory!r} is not an absolute path", "give the whole path of a directory"
            )
        return self.containing(await self.resolve_links(os.fsencode(directory)))

    async def resolve_links(self, directory: bytes) -> bytes:
        """Return a directory without links; unchanged if the disk does not answer within `LINKS_S`.

        Raises `InvalidInput` for a directory behind more links than can be followed.
        """
        if any(directory == index.record.root for index in self._running.values()):
            return directory  # roots are resolved, and most requests come from one
        try:
            with anyio.move_on_after(LINKS_S):
                return await anyio.to_thread.run_sync(
                    without_links, directory, abandon_on_cancel=True, limiter=self._link_threads
                )
        except OSError as error:
            hint = "name the directory that the links lead to"
            raise InvalidInput(
                f"{path_text(directory)} cannot be followed: {error.strerror}", hint
            ) from None
        return directory

    async def select(self, name: str | None, cwd: str | None) -> RunningIndex:
        """Return the index `name`, else the index around `cwd`, else the only own index.

        Raises `NotFound`.
        """
        if name is not None:
            return self.get(name)
        if cwd is not None and (index := await self.around(cwd)) is not None:
            return index
        own_indexes = self.own()
        if len(own_indexes) == 1:
            return own_indexes[0]
        names = ", ".join(index.record.name for index in self.all())
        if not names:
            raise NotFound("there is no index yet", "cocosearchctl up DIRECTORY")
        if not own_indexes:
            raise NotFound("this daemon has no index of its own", f"--index with one of: {names}")
        raise NotFound(
            "the current directory is in no index, and there are several",
            f"--index with one of: {names}",
        )

    def with_topics(self, topics: Collection[str]) -> tuple[RunningIndex, ...]:
        """Return indexes that have any of the topics. Raises `NotFound` for a topic that none has."""
        existing = {topic for index in self.all() for topic in index.record.topics}
        if unknown := sorted(set(topics) - existing):
            hint = (
                f"topics: {', '.join(sorted(existing))}"
                if existing
                else "give one with `cocosearchctl up PATH --topic`"
            )
            raise NotFound(f"no index has the topic {unknown[0]!r}", hint)
        return tuple(index for index in self.all() if set(topics) & set(index.record.topics))

    def intersect(
        self, names: Sequence[Collection[str]] = (), topics: Sequence[Collection[str]] = ()
    ) -> tuple[RunningIndex, ...]:
        """Return indexes that every group of names and every group of topics allows.

        A group allows each index that it names, or that has any of its topics; an empty group
        allows all. Raises `NotFound` if no index is left.
        """
        name_groups = [group for group in names if group]
        topic_groups = [group for group in topics if group]
        selections = [self._get_all(group) for group in name_groups]
        selections += [self.with_topics(group) for group in topic_groups]
        first, *further = selections or [self.all()]
        allowed = first
        for selection in further:
            selected_names = {index.record.name for index in selection}
            allowed = tuple(index for index in allowed if index.record.name in selected_names)
        if not allowed and further:
            raise _no_index_left(name_groups, topic_groups)
        return allowed

    def _get_all(self, names: Collection[str]) -> tuple[RunningIndex, ...]:
        return tuple(self.get(name) for name in dict.fromkeys(names))

    def linked_to(self, index: RunningIndex) -> tuple[tuple[RunningIndex, ...], tuple[str, ...]]:
        """Return the indexes that `index` links directly, and warnings about unsearchable links."""
        linked: dict[str, RunningIndex] = {}
        missing: list[str] = []
        other_embedder: list[str] = []
        for name in index.settings.project.linked_indexes:
            target = self._running.get(name)
            if target is None:
                missing.append(name)
            elif (
                target.error is not None
                or target.record.identity.embedder != index.record.identity.embedder
            ):
                other_embedder.append(name)
            elif target is not index:
                linked[name] = target
        warnings = (
            *_link_warning(index, missing, "there is no such index"),
            *_link_warning(index, other_embedder, "it was built with another embedder"),
        )
        return tuple(linked.values()), warnings


def _link_warning(index: RunningIndex, names: Sequence[str], reason: str) -> Iterator[str]:
    """Yield one warning about all names: a stranger may have written a project's settings."""
    if names:
        first = ", ".join(repr(name[:MAX_QUOTED]) for name in names[:MAX_LISTED])
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        yield f"{index.record.name} links {first}{more}, and {reason}"


def _no_index_left(names: Iterable[Collection[str]], topics: Iterable[Collection[str]]) -> NotFound:
    """Make the error of groups that have no index in common."""
    groups = [f"index {' or '.join(group)}" for group in names]
    groups += [f"topic {' or '.join(group)}" for group in topics]
    return NotFound(f"no index is left by {' and '.join(groups)}", "leave one of them out")
