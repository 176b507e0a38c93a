"""A bounded cache of resolved uses at one moment, shared by questions. Thread-safe.

The meaning of a use depends on all files, so a cache belongs to one name table and never outlives
it. Thanks to the cache, a file is not read again only to find that none of its uses matters.
"""

from collections import OrderedDict
from collections.abc import Sequence, Set
from threading import Lock
from typing import NamedTuple

from cocosearchd.graph.code_files import DefinitionKey, Resolution
from cocosearchd.languages.code_facts import Use

# Limit per index: some 100,000 uses.
MAX_CACHED_BYTES = 32 << 20
# Measured with `tracemalloc`: a use with its resolution, and a file that may use a definition.
_USE_BYTES = 300
_PATH_BYTES = 24
# Measured in the same way: an entry, and each of its names.
_ENTRY_BYTES, _NAME_BYTES = 600, 80


class UsedNames(NamedTuple):
    """The names under which definitions are used, and which uses of them may mean one.

    `needs_receiver` means that a use without a receiver counts only in files that define such a
    name, or that have precise uses. `only_bases` means that only uses as a base class count.
    """

    names: frozenset[str]
    needs_receiver: bool = False
    only_bases: bool = False


class UseMeaning(NamedTuple):
    """A use, and the definitions that it may mean."""

    use: Use
    resolution: Resolution


class NameUses:
    """The resolved uses of some names, by file and by the definitions that they may mean."""

    def __init__(self, name_count: int = 1) -> None:
        # By path, without uses that have no meaning
        self._uses: dict[str, Sequence[UseMeaning]] = {}
        # Definition -> paths of files that may use it
        self._paths: dict[DefinitionKey, list[str]] = {}
        self.nbytes = _ENTRY_BYTES + _NAME_BYTES * name_count  # estimated

    def __contains__(self, path: str) -> bool:
        """Return True if the uses in a file are cached."""
        return path in self._uses

    def add(self, path: str, meanings: Sequence[UseMeaning]) -> int:
        """Add all uses in a file, in order; return the growth in bytes."""
        if path in self._uses:  # another thread was faster
            return 0
        uses = tuple(meaning for meaning in meanings if meaning.resolution.definitions)
        # Many uses share one resolution, which may have thousands of definitions.
        resolutions = {id(meaning.resolution): meaning.resolution for meaning in uses}
        keys = {key for resolution in resolutions.values() for key in resolution.definitions}
        for key in keys:
            self._paths.setdefault(key, []).append(path)
        self._uses[path] = uses
        growth = _USE_BYTES * (1 + len(uses)) + _PATH_BYTES * len(keys)
        self.nbytes += growth
        return growth

    def find(self, path: str, definitions: Set[DefinitionKey]) -> Sequence[UseMeaning]:
        """Return the uses in a file that may mean one of `definitions`, in order."""
        return select_meanings(self._uses.get(path, ()), definitions)

    def using_paths(self, definitions: Set[DefinitionKey]) -> Set[str]:
        """Return the files with uses that may mean one of `definitions`."""
        return {path for key in definitions for path in tuple(self._paths.get(key, ()))}


def select_meanings(
    meanings: Sequence[UseMeaning], definitions: Set[DefinitionKey]
) -> Sequence[UseMeaning]:
    """Return the uses that may mean one of `definitions`, in order.

    Many uses share one resolution, which may have thousands of definitions: each is compared once.
    """
    resolutions = {id(meaning.resolution): meaning.resolution for meaning in meanings}
    selected = {
        number
        for number, resolution in resolutions.items()
        if not definitions.isdisjoint(resolution.definitions)
    }
    return [meaning for meaning in meanings if id(meaning.resolution) in selected]


class UseCache:
    """An LRU cache of resolved uses, keyed by names."""

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._uses: OrderedDict[UsedNames, NameUses] = OrderedDict()
        self._lock = Lock()
        self.nbytes = 0  # estimated

    def of_names(self, names: UsedNames) -> NameUses:
        """Return the cached uses of some names; at first, no file is resolved."""
        with self._lock:
            uses = self._uses.get(names)
            if uses is None:
                uses = self._uses[names] = NameUses(len(names.names))
                self.nbytes += uses.nbytes
                self._drop_oldest()
            else:
                self._uses.move_to_end(names)
            return uses

    def add(
        self, names: UsedNames, uses: NameUses, path: str, meanings: Sequence[UseMeaning]
    ) -> int:
        """Add all uses of `names` in a file to the result of `of_names`.

        Return the growth in bytes.

        The least recently used names are dropped if the cache is full.
        """
        with self._lock:
            growth = uses.add(path, meanings)
            if self._uses.get(names) is uses:
                self.nbytes += growth
            self._drop_oldest()
            return growth

    def _drop_oldest(self) -> None:
        while self.nbytes > self._max_bytes:
            _, dropped = self._uses.popitem(last=False)
            self.nbytes -= dropped.nbytes

    def clear(self) -> None:
        """Drop all uses, one entry at a time, so that other threads do not wait long for the lock."""
        while True:
            with self._lock:
                if not self._uses:
                    return
                _, dropped = self._uses.popitem()
                self.nbytes -= dropped.nbytes
            del dropped
