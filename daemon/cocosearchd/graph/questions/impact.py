"""Finds the impact of a change: definitions that use it, directly or indirectly, and their tests."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cocosearch_ipc.graph_vocabulary import Confidence
from cocosearchd.graph.code_files import (
    WEAKNESS,
    WHOLE_FILE,
    CodeFile,
    CodeFiles,
    DefinitionKey,
    ResolvedUse,
)
from cocosearchd.graph.questions.question_limits import STEP, IsOver, LimitReached
from cocosearchd.graph.questions.removed_definitions import RemovedDefinition
from cocosearchd.graph.resolution.reasons import OVERRIDES, REASONS
from cocosearchd.languages.code_facts import TOP_LEVEL
from cocosearchd.languages.patterns.path_roles import is_test
from cocosearchd.languages.symbol_table import values_of as symbol_values
from cocosearchd.model import Symbol

MAX_AFFECTED = 5_000  # definitions
MAX_USES = 100_000  # inspected uses
# Names of constructors. A change of a constructor affects all code that makes an object of the
# class.
CONSTRUCTORS = frozenset(
    {"__init__", "__new__", "__post_init__", "constructor", "initialize", "__construct", "init"}
)


class UseResolver(Protocol):
    """Finds the uses of a definition."""

    def uses_of(self, definition: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the uses of a symbol, or of a file as a whole."""

    def overriders_of(self, key: DefinitionKey) -> Iterator[DefinitionKey]:
        """Yield the members of subclasses that override a member."""


class UseLocation(NamedTuple):
    """The line and column of a use, from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class AffectedDefinition:
    """An affected definition, or the affected code of a file outside of all definitions.

    It uses or overrides `via_name` (a qualified name or a path) at `use_location`. `via_name` is
    itself changed, or is affected at a `distance` that is smaller by one. If `is_broken`,
    `via_name` is gone. `confidence` is the weakest confidence on the best path to the change.
    """

    key: DefinitionKey
    symbol: Symbol | None  # None for the code of a file outside of its definitions
    language: str
    distance: int
    confidence: Confidence
    reason: str  # of the resolution of the use
    via_name: str
    use_location: UseLocation
    is_test: bool
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class Impact:
    """All definitions that a change affects, ordered by distance, confidence and location.

    `complete` is False if a limit or a timeout ended the search.
    """

    affected: tuple[AffectedDefinition, ...]
    complete: bool

    @property
    def distances(self) -> Mapping[int, int]:
        """The number of affected definitions by distance."""
        return Counter(item.distance for item in self.affected)


@dataclass(frozen=True, slots=True)
class ImpactBounds:
    """Limits of a search for affected definitions."""

    depth: int
    weakest: Confidence
    is_over: IsOver
    max_affected: int = MAX_AFFECTED
    max_uses: int = MAX_USES


def find_impact(
    files: CodeFiles,
    resolver: UseResolver,
    changed: Sequence[DefinitionKey],
    bounds: ImpactBounds,
    removed: Sequence[RemovedDefinition] = (),
) -> Impact:
    """Follow uses backwards from changed and removed definitions, breadth first.

    A changed class also changes its members, and a changed file its definitions. Code outside of
    all definitions can be affected, but is not followed further. Members that override a changed
    member are affected as well: they may have to change too.
    """
    starts = dict(sorted(_expand(files, changed)))
    search = _ImpactSearch(files, resolver, bounds, frozenset(starts), names=starts)
    level: Mapping[DefinitionKey, Confidence] = dict.fromkeys(starts, "certain")
    for distance in range(1, bounds.depth + 1):
        level = search.step(level, distance, removed if distance == 1 else ())
        if not level:
            break
    return Impact(tuple(sorted(search.affected.values(), key=_order)), search.complete)


def weaker(first: Confidence, second: Confidence) -> Confidence:
    """Return the weaker of two confidences."""
    return first if WEAKNESS[first] >= WEAKNESS[second] else second


def _expand(
    files: CodeFiles, changed: Iterable[DefinitionKey]
) -> Iterator[tuple[DefinitionKey, str]]:
    """Yield changed definitions, and the definitions inside them, with their names.

    A changed constructor also changes its class.
    """
    positions = dict[str, set[int]]()
    for key in changed:
        positions.setdefault(key.path, set()).add(key.position)
    for path, file in files.load(positions).items():
        starts = positions[path]
        if WHOLE_FILE in starts:
            members = {WHOLE_FILE, *range(len(file.symbols))}
        else:
            owners = (constructed_class(file, position) for position in starts)
            members = _add_members(file, starts) | {owner for owner in owners if owner is not None}
        yield from ((DefinitionKey(path, position), _name(file, position)) for position in members)


def _name(file: CodeFile, position: int) -> str:
    """Return the qualified name of a definition, or the path of a file."""
    return file.path if position == WHOLE_FILE else file.symbols[position].qualified_name


def _add_members(file: CodeFile, starts: set[int]) -> set[int]:
    """Return the positions `starts`, and of all definitions inside these."""
    end = -1
    members = set[int]()
    for position in sorted(range(len(file.symbols)), key=lambda i: file.symbols[i].start_byte):
        symbol = file.symbols[position]
        if position in starts:
            end = max(end, symbol.end_byte)
        if symbol.end_byte <= end:
            members.add(position)
    return members


def constructed_class(file: CodeFile, position: int) -> int | None:
    """Return the position of the class that a definition constructs; None if it is no constructor."""
    symbol = file.symbols[position]
    class_name = (symbol.parent or "").rpartition(".")[2]
    if symbol.parent is None or symbol.name not in {*CONSTRUCTORS, class_name}:
        return None
    owner = file.derived.get(_first_positions, file).get(symbol.parent)
    return None if owner == position else owner


def _first_positions(file: CodeFile) -> Mapping[str, int]:
    """Return the position of the first definition with each qualified name.

    A file may have ten thousand constructors.
    """
    names = symbol_values(file.symbols, "qualified_name")
    return {name: position for position, name in reversed([*enumerate(names)])}


@dataclass(frozen=True, slots=True)
class _UsePath:
    """The path to a user: the name that it uses, the confidence of the path and its length."""

    via_name: str
    confidence: Confidence
    distance: int
    is_broken: bool = False


@dataclass(slots=True)
class _ImpactSearch:
    """The state of one search."""

    files: CodeFiles
    resolver: UseResolver
    bounds: ImpactBounds
    changed: frozenset[DefinitionKey]
    names: dict[DefinitionKey, str]  # names of all reached definitions
    affected: dict[DefinitionKey, AffectedDefinition] = field(default_factory=dict)
    use_count: int = 0
    complete: bool = True

    def step(
        self,
        level: Mapping[DefinitionKey, Confidence],
        distance: int,
        removed: Iterable[RemovedDefinition] = (),
    ) -> Mapping[DefinitionKey, Confidence]:
        """Find the users of the definitions of a level; return the definitions of the next level.

        A user of a removed definition needs a change itself, so it is affected even if it has
        already changed.
        """
        next_level = dict[DefinitionKey, Confidence]()
        try:
            if distance == 1:
                self._follow_overriders(level, next_level)
            for item in removed:
                for use in item.uses:
                    use_path = _UsePath(
                        item.name, use.resolution.confidence, distance, is_broken=True
                    )
                    self._follow(use, use_path, next_level)
            for definition, confidence in level.items():
                for use in self.resolver.uses_of(definition):
                    reached = weaker(confidence, use.resolution.confidence)
                    self._follow(
                        use, _UsePath(self.names[definition], reached, distance), next_level
                    )
        except LimitReached:
            self.complete = False
            return {}
        return {key: next_level[key] for key in sorted(next_level.keys() - self.changed)}

    def _follow_overriders(
        self, changed: Iterable[DefinitionKey], next_level: dict[DefinitionKey, Confidence]
    ) -> None:
        """Record members that override changed members, and add them to the next level."""
        for definition in changed:
            for key in self.resolver.overriders_of(definition):
                self._count_use()
                confidence = REASONS[OVERRIDES].confidence
                use_path = _UsePath(self.names[definition], confidence, distance=1)
                if not self._is_better(key, use_path):
                    continue
                file = self.files.load([key.path])[key.path]
                symbol = file.symbols[key.position]
                self.affected[key] = AffectedDefinition(
                    key=key,
                    symbol=symbol,
                    language=file.language,
                    distance=1,
                    confidence=confidence,
                    reason=OVERRIDES,
                    via_name=use_path.via_name,
                    use_location=UseLocation(symbol.start_line, 1),
                    is_test=is_test(key.path),
                )
                self.names[key] = symbol.qualified_name
                next_level[key] = confidence

    def _follow(
        self, use: ResolvedUse, use_path: _UsePath, next_level: dict[DefinitionKey, Confidence]
    ) -> None:
        """Record the user of a definition, and add it to the next level."""
        self._count_use()
        user = _user(use)
        # Most uses are in definitions that are already recorded.
        if self._is_better(user, use_path):
            self.affected[user] = _affected_by(user, use, use_path)
            next_level |= dict.fromkeys(self._keys_to_follow(use), use_path.confidence)

    def _count_use(self) -> None:
        """Count a use. Raises `LimitReached` at a limit."""
        self.use_count += 1
        if (
            self.use_count > self.bounds.max_uses
            or len(self.affected) >= self.bounds.max_affected
            or (self.use_count % STEP == 0 and self.bounds.is_over())
        ):
            raise LimitReached

    def _is_better(self, key: DefinitionKey, use_path: _UsePath) -> bool:
        """Return True if a definition is to be recorded with a path to it.

        An excluded definition is not recorded, nor one that is recorded with a path that is as
        good.
        """
        weakness = WEAKNESS[use_path.confidence]
        if weakness > WEAKNESS[self.bounds.weakest]:
            return False
        if key in self.changed and not use_path.is_broken:
            return False
        earlier = self.affected.get(key)
        return earlier is None or (
            earlier.distance >= use_path.distance and WEAKNESS[earlier.confidence] > weakness
        )

    def _keys_to_follow(self, use: ResolvedUse) -> Iterator[DefinitionKey]:
        """Yield the definitions to follow from a use: the user and, for a constructor, its class."""
        if use.use.symbol == TOP_LEVEL:
            return
        owner = constructed_class(use.file, use.use.symbol)
        for position in (use.use.symbol, *([owner] if owner is not None else [])):
            key = DefinitionKey(use.file.path, position)
            self.names[key] = _name(use.file, position)
            yield key


def _affected_by(user: DefinitionKey, use: ResolvedUse, use_path: _UsePath) -> AffectedDefinition:
    """Make the affected definition from a use and the definition around it."""
    return AffectedDefinition(
        key=user,
        symbol=use.file.symbols[user.position] if user.position != WHOLE_FILE else None,
        language=use.file.language,
        distance=use_path.distance,
        confidence=use_path.confidence,
        reason=use.resolution.reason,
        via_name=use_path.via_name,
        use_location=UseLocation(use.use.line, use.use.column),
        is_test=is_test(use.file.path),
        is_broken=use_path.is_broken,
    )


def _user(use: ResolvedUse) -> DefinitionKey:
    """Return the definition around a use, or its file."""
    position = use.use.symbol
    return DefinitionKey(use.file.path, WHOLE_FILE if position == TOP_LEVEL else position)


def _order(item: AffectedDefinition) -> tuple[int, int, bool, str, int]:
    line = item.symbol.start_line if item.symbol is not None else 0
    return item.distance, WEAKNESS[item.confidence], item.is_test, item.key.path, line
