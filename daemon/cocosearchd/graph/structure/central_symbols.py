"""Makes maps: the central definitions of an index, as many as fit into a token budget."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from cocosearchd.graph.code_files import WHOLE_FILE, CodeFile, CodeFiles, Resolution
from cocosearchd.graph.questions.question_limits import IsOver, TimedSearch
from cocosearchd.graph.structure.file_ranks import NameLinks, RankedName
from cocosearchd.graph.structure.outline import LINE_TOKENS
from cocosearchd.languages.code_facts import Use
from cocosearchd.languages.name_hashes import hash_name
from cocosearchd.languages.patterns.path_roles import is_test
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import Symbol

# Names with the highest ranks that are checked: a map of 10,000 tokens has some 500 definitions.
MAX_NAMES = 1_000
CHECKED_AT_ONCE = 50  # names
MAX_USES = 4  # uses of a name in one file that are resolved
MISSES = 20  # so many consecutive definitions that do not fit end a map
# Factors for the rank of definitions that newcomers seldom look for first.
PRIVATE_SHARE = 0.2
TEST_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class CentralSymbol:
    """A definition with its share of the total rank."""

    symbol: Symbol
    rank: float


@dataclass(frozen=True, slots=True)
class MapFile:
    """A file of a map with its central definitions, in the order of the text."""

    path: str
    language: str
    rank: float  # sum of the ranks of its definitions in the map
    symbols: tuple[CentralSymbol, ...]


@dataclass(frozen=True, slots=True)
class RepositoryMap:
    """The files of a map, most central first."""

    files: tuple[MapFile, ...]
    tokens: int  # estimated
    complete: bool  # False if the time was over


class SampleResolver(Protocol):
    """Resolves uses of names."""

    def resolve(self, file: CodeFile, use: Use) -> Resolution:
        """Return the definitions that a use may mean, best first."""


@dataclass(frozen=True, slots=True)
class MapFiles:
    """The files that a map prefers, and a filter of its files.

    `select` returns those of the given paths that may be in the map.
    """

    preferred: Sequence[str] = ()
    select: Callable[[Sequence[str]], Collection[str]] = tuple


def map_repository(
    files: CodeFiles,
    resolver: SampleResolver,
    map_files: MapFiles,
    budget: int,
    is_over: IsOver,
) -> RepositoryMap:
    """Choose the central definitions of an index within a token budget.

    First, ranks are computed from names alone. Then some uses of the best names are resolved, and
    each definition keeps the share of its rank that the uses confirm. Equal indexes give equal
    maps.
    """
    links = NameLinks(files.name_graph())
    preferred_paths = set(map_files.preferred)
    positions = [i for i, path in enumerate(links.paths) if path in preferred_paths]
    selected_paths = frozenset(map_files.select(links.paths))
    candidates = list(links.best_names(links.rank(positions), MAX_NAMES, selected_paths))
    search = TimedSearch(is_over)
    check = _NameCheck(files, resolver)
    checked = list(search.limit(check.confirm_best(candidates, budget)))
    checked.sort(key=lambda item: (-item[1].rank, item[0].path, item[1].symbol.start_byte))
    chosen, tokens = _fit(checked, budget)
    grouped = sorted(_group(chosen), key=lambda file: (-file.rank, file.path))
    return RepositoryMap(tuple(grouped), tokens, search.is_complete)


@dataclass(frozen=True, slots=True)
class _NameCheck:
    """Checks ranked names: resolves some uses, to see whether they mean the ranked definitions."""

    files: CodeFiles
    resolver: SampleResolver

    def confirm_best(
        self, ranked: Sequence[RankedName], budget: int
    ) -> Iterator[tuple[CodeFile, CentralSymbol]]:
        """Yield the definitions of names, with the share of their rank that uses confirm.

        `ranked` is in descending order. The search ends when no further name can fit into the
        budget.
        """
        confirmed = list[CentralSymbol]()
        for first in range(0, len(ranked), CHECKED_AT_ONCE):
            batch = ranked[first : first + CHECKED_AT_ONCE]
            ahead = [central for central in confirmed if central.rank >= batch[0].rank]
            if sum(map(_tokens, ahead)) > budget:
                return
            loaded = self.files.load({path for item in batch for path in (item.path, *item.users)})
            for item in batch:
                for file, central in self._confirm_name(item, loaded):
                    confirmed.append(central)
                    yield file, central

    def _confirm_name(
        self, ranked: RankedName, loaded: Mapping[str, CodeFile]
    ) -> Iterator[tuple[CodeFile, CentralSymbol]]:
        """Yield the definitions of a name that uses mean, each with its share of the rank."""
        file = loaded.get(ranked.path)
        if file is None:
            return
        users = [loaded[path] for path in ranked.users if path in loaded]
        counts = Counter[int]()
        for user in users:
            self.files.load(())  # raises `LimitReached` if the time is over
            counts.update(self._meanings(user, ranked))
        for position, count in counts.items():
            symbol = file.symbols[position]
            rank = ranked.rank * count / len(users) * _share(file.path, symbol)
            yield file, CentralSymbol(symbol, rank)

    def _meanings(self, user: CodeFile, ranked: RankedName) -> set[int]:
        """Return the positions of the ranked definitions that the first uses in a file mean."""
        uses = (use for use in user.facts.uses if hash_name(use.name) == ranked.name)
        resolutions = [self.resolver.resolve(user, use) for use in islice(uses, MAX_USES)]
        return {
            key.position
            for resolution in resolutions
            if resolution.confidence != "possible"
            for key in resolution.definitions[:1]
            if key.path == ranked.path and key.position != WHOLE_FILE
        }


def _tokens(central: CentralSymbol) -> int:
    return estimate_tokens(central.symbol.signature) + LINE_TOKENS


def _share(path: str, symbol: Symbol) -> float:
    share = TEST_SHARE if is_test(path) else 1.0
    return share * (PRIVATE_SHARE if symbol.name.startswith("_") else 1.0)


def _fit(
    symbols: Sequence[tuple[CodeFile, CentralSymbol]], budget: int
) -> tuple[list[tuple[CodeFile, CentralSymbol]], int]:
    """Return the first definitions that fit (at least one), and their tokens."""
    chosen = list[tuple[CodeFile, CentralSymbol]]()
    paths = set[str]()
    tokens = misses = 0
    for file, central in symbols:
        cost = _tokens(central)
        if file.path not in paths:
            cost += estimate_tokens(file.path) + LINE_TOKENS
        if chosen and tokens + cost > budget:
            misses += 1
            if misses == MISSES:
                break
            continue
        chosen.append((file, central))
        paths.add(file.path)
        tokens += cost
        misses = 0
    return chosen, tokens


def _group(symbols: Sequence[tuple[CodeFile, CentralSymbol]]) -> Iterator[MapFile]:
    groups = dict[str, list[CentralSymbol]]()
    for file, central in symbols:
        groups.setdefault(file.path, []).append(central)
    languages = {file.path: file.language for file, _ in symbols}
    for path, inside in groups.items():
        inside.sort(key=lambda central: central.symbol.start_byte)
        yield MapFile(path, languages[path], sum(item.rank for item in inside), tuple(inside))
