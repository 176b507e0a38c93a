"""A bounded cache of resolved uses at one moment, shared by questions. Thread-safe.

The meaning of a use depends on all files, so a cache belongs to one name table and never outlives
it. Thanks to the cache, a file is not read again only to find that none of its uses matters.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence, Set
from itertools import chain
from threading import Lock
from typing import NamedTuple

from cocosearchd.graph.code_files import CodeFile, DefinitionKey, Resolution
from cocosearchd.languages.code_facts import Use

# Limit per index: the uses of some ten thousand names, or a million uses of few names.
MAX_CACHED_BYTES = 32 << 20
# Limit per index: the imports of some 20,000 names.
MAX_ALIAS_BYTES = 4 << 20
# Measured with `tracemalloc`: a use, a file, and a file that has uses of one meaning.
_USE_BYTES = 8
_FILE_BYTES = 120
_PATH_BYTES = 10
# Measured in the same way: a meaning, and each of its definitions.
_MEANING_BYTES, _DEFINITION_BYTES = 300, 100
# Measured in the same way: an entry, and each of its names.
_ENTRY_BYTES, _NAME_BYTES = 1_000, 80
# Measured in the same way: a name without an alias, and each alias.
_NO_ALIAS_BYTES, _ALIAS_BYTES = 200, 120


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

    row: int  # position in the uses of its file
    use: Use
    resolution: Resolution


class NameUses:
    """The resolved uses of some names, by file and by the definitions that they may mean.

    A use is two numbers: its position in the file, and its resolution. Uses without a meaning are
    left out.
    """

    def __init__(self, name_count: int = 1) -> None:
        # By path: positions of uses and numbers of their resolutions, alternating
        self._uses: dict[str, Sequence[int]] = {}
        self._resolutions: list[Resolution] = []
        self._numbers: dict[Resolution, int] = {}
        # By number of a resolution: paths of the files that have such uses
        self._paths: list[list[str]] = []
        self._numbers_of: dict[DefinitionKey, list[int]] = {}
        self.nbytes = _ENTRY_BYTES + _NAME_BYTES * name_count  # estimated

    def __contains__(self, path: str) -> bool:
        """Return True if the uses in a file are cached."""
        return path in self._uses

    def add(self, path: str, meanings: Sequence[UseMeaning]) -> int:
        """Add all uses in a file, in order; return the growth in bytes."""
        if path in self._uses:  # another thread was faster
            return 0
        size = self.nbytes
        meanings = [meaning for meaning in meanings if meaning.resolution.definitions]
        # Many uses share one resolution, which may have thousands of definitions.
        resolutions = {id(meaning.resolution): meaning.resolution for meaning in meanings}
        numbers = {number: self._number(item) for number, item in resolutions.items()}
        for number in set(numbers.values()):
            self._paths[number].append(path)
        pairs = ((meaning.row, numbers[id(meaning.resolution)]) for meaning in meanings)
        self._uses[path] = array("I", chain.from_iterable(pairs)) if meanings else ()
        self.nbytes += _FILE_BYTES + _USE_BYTES * len(meanings) + _PATH_BYTES * len(numbers)
        return self.nbytes - size

    def _number(self, resolution: Resolution) -> int:
        """Return the number of a resolution; a new one gets the next number."""
        number = self._numbers.get(resolution)
        if number is None:
            number = self._numbers[resolution] = len(self._resolutions)
            self._paths.append([])
            self._resolutions.append(resolution)
            for key in resolution.definitions:
                self._numbers_of.setdefault(key, []).append(number)
            self.nbytes += _MEANING_BYTES + _DEFINITION_BYTES * len(resolution.definitions)
        return number

    def find(self, file: CodeFile, definitions: Set[DefinitionKey]) -> Sequence[UseMeaning]:
        """Return the uses in a file that may mean one of `definitions`, in order."""
        numbers = self._numbers_of_any(definitions)
        pairs = self._uses.get(file.path, ())
        return [
            UseMeaning(row, file.facts.uses[row], self._resolutions[number])
            for row, number in zip(pairs[::2], pairs[1::2], strict=True)
            if number in numbers
        ]

    def may_use(self, path: str, definitions: Set[DefinitionKey]) -> bool:
        """Return True if a file has a use that may mean one of `definitions`."""
        return not self._numbers_of_any(definitions).isdisjoint(self._uses.get(path, ())[1::2])

    def using_paths(self, definitions: Set[DefinitionKey]) -> Set[str]:
        """Return the files with uses that may mean one of `definitions`."""
        numbers = self._numbers_of_any(definitions)
        return {path for number in numbers for path in tuple(self._paths[number])}

    def _numbers_of_any(self, definitions: Set[DefinitionKey]) -> Set[int]:
        """Return the numbers of the resolutions with one of `definitions`."""
        return {number for key in definitions for number in tuple(self._numbers_of.get(key, ()))}


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


class ImportAlias(NamedTuple):
    """A name under which an import makes definitions known in its file."""

    local: str
    definitions: tuple[DefinitionKey, ...]


class AliasCache:
    """An LRU cache of the imports that give a name another one, for all files."""

    def __init__(self, max_bytes: int = MAX_ALIAS_BYTES) -> None:
        self._max_bytes = max_bytes
        # By a name, and whether it is the definition's own
        self._aliases: OrderedDict[tuple[str, bool], Sequence[ImportAlias]] = OrderedDict()
        self._lock = Lock()
        self.nbytes = 0  # estimated

    def get(self, name: str, *, is_own: bool) -> Sequence[ImportAlias] | None:
        """Return the aliases of a name; None if they are not cached."""
        with self._lock:
            aliases = self._aliases.get((name, is_own))
            if aliases is not None:
                self._aliases.move_to_end((name, is_own))
            return aliases

    def put(self, name: str, aliases: Sequence[ImportAlias], *, is_own: bool) -> None:
        """Store all aliases of a name. The least recently used names are dropped if it is full."""
        with self._lock:
            if (name, is_own) in self._aliases:  # another thread was faster
                return
            self._aliases[name, is_own] = aliases
            self.nbytes += _alias_bytes(aliases)
            while self.nbytes > self._max_bytes:
                _, dropped = self._aliases.popitem(last=False)
                self.nbytes -= _alias_bytes(dropped)

    def clear(self) -> None:
        """Drop all aliases."""
        with self._lock:
            self._aliases.clear()
            self.nbytes = 0


def _alias_bytes(aliases: Sequence[ImportAlias]) -> int:
    """Estimate the memory of the aliases of a name."""
    definitions = sum(len(alias.definitions) for alias in aliases)
    return _NO_ALIAS_BYTES + _ALIAS_BYTES * len(aliases) + _DEFINITION_BYTES * definitions


class UseCache:
    """An LRU cache of resolved uses, keyed by names, and a cache of aliases."""

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._uses: OrderedDict[UsedNames, NameUses] = OrderedDict()
        self._lock = Lock()
        self.nbytes = 0  # estimated, without aliases
        self.aliases = AliasCache()

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
        """Drop everything, uses one entry at a time, so that other threads do not wait long for the lock."""
        self.aliases.clear()
        while True:
            with self._lock:
                if not self._uses:
                    return
                _, dropped = self._uses.popitem()
                self.nbytes -= dropped.nbytes
            del dropped
