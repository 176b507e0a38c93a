"""A bounded cache of resolved uses at one moment, shared by questions. Thread-safe.

The meaning of a use depends on all files, so a cache belongs to one name table. The cache of the
next table takes over what cannot have changed (`UseCache.succeed`). Thanks to the cache, a file is
not read again only to find that none of its uses matters.
"""

from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence, Set
from itertools import chain
from threading import Lock
from typing import NamedTuple

from cocosearchd.graph.code_files import CodeFile, DefinitionKey, Resolution
from cocosearchd.languages.code_facts import Use
from cocosearchd.languages.name_hashes import hash_name

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


# Files that may change until uses are dropped because nobody has asked for their names.
MAX_CHANGED = 256
_NO_PATHS = frozenset[str]()


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
        uses = array("I", chain.from_iterable(pairs)) if meanings else ()
        self._uses[path] = uses
        self.nbytes += _bytes_of_file(uses)
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

    def copy_without(self, paths: Collection[str]) -> "NameUses":
        """Return a copy without the uses in some files."""
        copy = NameUses()
        copy._uses = {path: uses for path, uses in self._uses.items() if path not in paths}
        copy._resolutions = [*self._resolutions]
        copy._numbers = {**self._numbers}
        copy._paths = [[path for path in users if path not in paths] for users in self._paths]
        copy._numbers_of = {key: [*numbers] for key, numbers in self._numbers_of.items()}
        dropped = [self._uses[path] for path in paths if path in self._uses]
        copy.nbytes = self.nbytes - sum(map(_bytes_of_file, dropped))
        return copy

    def _numbers_of_any(self, definitions: Set[DefinitionKey]) -> Set[int]:
        """Return the numbers of the resolutions with one of `definitions`."""
        return {number for key in definitions for number in tuple(self._numbers_of.get(key, ()))}


def _bytes_of_file(uses: Sequence[int]) -> int:
    """Estimate the memory of the uses in a file."""
    return _FILE_BYTES + _USE_BYTES * len(uses) // 2 + _PATH_BYTES * len(set(uses[1::2]))


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

    def copy_without(self, hashes: Set[int]) -> "AliasCache":
        """Return a copy without the names that have one of these hashes."""
        cache = AliasCache(self._max_bytes)
        with self._lock:
            cache._aliases = OrderedDict(self._aliases)
            cache.nbytes = self.nbytes
        for key in [key for key in cache._aliases if hash_name(key[0]) in hashes]:
            cache.nbytes -= _alias_bytes(cache._aliases.pop(key))
        return cache

    def clear(self) -> None:
        """Drop all aliases."""
        with self._lock:
            self._aliases.clear()
            self.nbytes = 0


def _alias_bytes(aliases: Sequence[ImportAlias]) -> int:
    """Estimate the memory of the aliases of a name."""
    definitions = sum(len(alias.definitions) for alias in aliases)
    return _NO_ALIAS_BYTES + _ALIAS_BYTES * len(aliases) + _DEFINITION_BYTES * definitions


class OutdatedFiles(NamedTuple):
    """Files that have changed since a moment, though not in the names that they define.

    Those in `same` have changed only in parts that no other file sees. Those in `unread` may have
    changed in any part, and use names with the hashes `unread_names` now.
    """

    same: Collection[str]
    unread: Collection[str] = ()
    unread_names: Set[int] = frozenset()


class UseCache:
    """An LRU cache of resolved uses, keyed by names, and a cache of aliases.

    `loaded_paths` are the files that questions have read. Only these and the table of names have
    decided the meanings. If `has_precise_uses`, contents of files have decided some.
    """

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._uses: OrderedDict[UsedNames, NameUses] = OrderedDict()
        # Files that have changed since the uses of some names were resolved: a question that asks
        # for these names gets a copy without them
        self._changed: dict[UsedNames, frozenset[str]] = {}
        # The successor shares the uses of all names except for these
        self._own_names = set[UsedNames]()
        self._is_succeeded = False
        self._lock = Lock()
        self.nbytes = 0  # estimated, without aliases
        self.aliases = AliasCache()
        self.loaded_paths = set[str]()
        self.has_precise_uses = False

    def note_loaded(self, files: Iterable[CodeFile]) -> None:
        """Note files before anything is resolved with them."""
        for file in files:
            self.loaded_paths.add(file.path)
            if file.precise_uses is not None:
                self.has_precise_uses = True

    def of_names(self, names: UsedNames) -> NameUses:
        """Return the cached uses of some names; at first, no file is resolved."""
        with self._lock:
            uses, changed = self._uses.get(names), self._changed.pop(names, None)
            if uses is None:
                return self._insert(names, NameUses(len(names.names)))
            if changed is not None:
                self.nbytes -= uses.nbytes
                return self._insert(names, uses.copy_without(changed))
            self._uses.move_to_end(names)
            return uses

    def _insert(self, names: UsedNames, uses: NameUses) -> NameUses:
        """Store the uses of some names, and return them."""
        if self._is_succeeded:
            self._own_names.add(names)
        self._uses[names] = uses
        self._uses.move_to_end(names)
        self.nbytes += uses.nbytes
        self._drop_oldest()
        return uses

    def add(
        self, names: UsedNames, uses: NameUses, path: str, meanings: Sequence[UseMeaning]
    ) -> int:
        """Add all uses of `names` in a file to `uses`, a result of `of_names`.

        If the successor shares `uses`, add them to the next result of `of_names` instead. Return
        the growth in bytes. The least recently used names are dropped if the cache is full.
        """
        with self._lock:
            if self._is_succeeded and names in self._uses:
                uses = self._separate(names)
            growth = uses.add(path, meanings)
            if self._uses.get(names) is uses:
                self.nbytes += growth
            self._drop_oldest()
            return growth

    def _separate(self, names: UsedNames) -> NameUses:
        """Return the uses of some names, which the successor does not share."""
        if names not in self._own_names:
            self._own_names.add(names)
            self._uses[names] = self._uses[names].copy_without(())
        return self._uses[names]

    def succeed(self, changed: OutdatedFiles) -> "UseCache | None":
        """Return the cache of the next moment; None if cached meanings may have changed.

        Questions about the moment of this cache may still be running: what they add from now on is
        not shared.
        """
        # An alias of a name was searched in all files that had the name: not in those that have it
        # now.
        is_shared = not changed.unread
        aliases = self.aliases if is_shared else self.aliases.copy_without(changed.unread_names)
        with self._lock:
            # Each file is noted before anything that it decided is added. Aliases are added without
            # this lock, so they are copied before.
            if self.has_precise_uses or not self.loaded_paths.isdisjoint(changed.unread):
                return None
            self._is_succeeded = True
            cache = UseCache(self._max_bytes)
            self._hand_over(cache, frozenset((*changed.same, *changed.unread)))
            cache.aliases = aliases
            # Running questions note the files that decide the aliases that they add to shared ones.
            cache.loaded_paths = self.loaded_paths if is_shared else set(self.loaded_paths)
            return cache

    def _hand_over(self, cache: "UseCache", paths: frozenset[str]) -> None:
        """Share all uses with the successor, which knows them as outdated in some files."""
        # Thousands of names were asked for at few moments: they share their sets.
        unions = {path_set: path_set | paths for path_set in {_NO_PATHS, *self._changed.values()}}
        for names, uses in self._uses.items():
            outdated = unions[self._changed.get(names, _NO_PATHS)]
            if len(outdated) <= MAX_CHANGED:
                cache._uses[names] = uses
                cache._changed[names] = outdated
                cache.nbytes += uses.nbytes

    def _drop_oldest(self) -> None:
        # With a successor, only questions that are running add something.
        while self.nbytes > self._max_bytes and not self._is_succeeded:
            names, dropped = self._uses.popitem(last=False)
            self._changed.pop(names, None)
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
