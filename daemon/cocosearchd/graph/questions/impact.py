"""Impact of a change: the definitions that use it, directly or through others, with their tests."""

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
from cocosearchd.model import Symbol

# Confidences by strength, the strongest first.
MAX_AFFECTED = 5_000  # definitions
MAX_USES = 100_000  # that are looked at
# A change of these is a change for all that make an object of the class.
CONSTRUCTORS = frozenset(
    {"__init__", "__new__", "__post_init__", "constructor", "initialize", "__construct", "init"}
)


class UseResolver(Protocol):
    """Finds the uses of a definition."""

    def uses_of(self, definition: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the uses of a symbol, or the imports of a file."""

    def overriders_of(self, key: DefinitionKey) -> Iterator[DefinitionKey]:
        """Yield the members of subclasses that override a member."""


class UseLocation(NamedTuple):
    """The location of a use, from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Affected:
    """A definition, or the code of a file outside of all definitions, that uses what changes.

    `confidence` is the weakest on the best way there. `via_name`, qualified or a path, is used or
    overridden at `use_location`; it is itself what changes, or affected at one less in `distance`.
    With `is_broken` it is gone.
    """

    key: DefinitionKey
    symbol: Symbol | None  # None: the file outside of its definitions
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
    """All that a change affects, by distance, confidence and location.

    `complete` is False if a limit or the time ended the search.
    """

    affected: tuple[Affected, ...]
    complete: bool

    @property
    def distances(self) -> Mapping[int, int]:
        """The number of affected definitions by distance."""
        return Counter(item.distance for item in self.affected)


@dataclass(frozen=True, slots=True)
class ImpactBounds:
    """Limits of a search for the affected."""

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

    A changed class changes its members, a changed file its definitions. Code outside of all
    definitions is affected, but leads no further. Members that override a changed one are affected
    as well: they may have to change with it.
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
    return max(first, second, key=WEAKNESS.__getitem__)


def _expand(
    files: CodeFiles, changed: Iterable[DefinitionKey]
) -> Iterator[tuple[DefinitionKey, str]]:
    """Yield changed definitions with those inside them, and their names.

    A constructor also changes its class.
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
            members = _inside(file, starts) | {owner for owner in owners if owner is not None}
        yield from ((DefinitionKey(path, position), _name(file, position)) for position in members)


def _name(file: CodeFile, position: int) -> str:
    """Return the qualified name of a definition, or the path of a file."""
    return file.path if position == WHOLE_FILE else file.symbols[position].qualified_name


def _inside(file: CodeFile, starts: set[int]) -> set[int]:
    """Return positions of definitions, and of those inside them."""
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
    """Return the position of the class whose constructor a definition is, None for no other."""
    symbol = file.symbols[position]
    class_name = (symbol.parent or "").rpartition(".")[2]
    if symbol.parent is None or symbol.name not in {*CONSTRUCTORS, class_name}:
        return None
    classes = (
        i
        for i, outer in enumerate(file.symbols)
        if outer.qualified_name == symbol.parent and i != position
    )
    return next(classes, None)


@dataclass(frozen=True, slots=True)
class _Way:
    """The way to a user: the name of what it uses, its confidence and length."""

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
    names: dict[DefinitionKey, str]  # of all definitions that were reached
    affected: dict[DefinitionKey, Affected] = field(default_factory=dict)
    use_count: int = 0
    complete: bool = True

    def step(
        self,
        level: Mapping[DefinitionKey, Confidence],
        distance: int,
        removed: Iterable[RemovedDefinition] = (),
    ) -> Mapping[DefinitionKey, Confidence]:
        """Find what uses the definitions of a level; returns those to go on from.

        What uses a removed one needs a change itself, so it is affected even if it has changed.
        """
        following = dict[DefinitionKey, Confidence]()
        try:
            if distance == 1:
                self._follow_overriders(level, following)
            for item in removed:
                for use in item.uses:
                    way = _Way(item.name, use.resolution.confidence, distance, is_broken=True)
                    self._follow(use, way, following)
            for definition, confidence in level.items():
                for use in self.resolver.uses_of(definition):
                    reached = weaker(confidence, use.resolution.confidence)
                    self._follow(use, _Way(self.names[definition], reached, distance), following)
        except LimitReached:
            self.complete = False
            return {}
        return {key: following[key] for key in sorted(following.keys() - self.changed)}

    def _follow_overriders(
        self, changed: Iterable[DefinitionKey], following: dict[DefinitionKey, Confidence]
    ) -> None:
        """Record the members that override changed ones, and add them to those to go on from."""
        for definition in changed:
            for key in self.resolver.overriders_of(definition):
                self._count_use()
                file = self.files.load([key.path])[key.path]
                symbol = file.symbols[key.position]
                item = Affected(
                    key=key,
                    symbol=symbol,
                    language=file.language,
                    distance=1,
                    confidence=REASONS[OVERRIDES].confidence,
                    reason=OVERRIDES,
                    via_name=self.names[definition],
                    use_location=UseLocation(symbol.start_line, 1),
                    is_test=is_test(key.path),
                )
                if self._record(item):
                    self.names[key] = symbol.qualified_name
                    following[key] = item.confidence

    def _follow(
        self, use: ResolvedUse, way: _Way, following: dict[DefinitionKey, Confidence]
    ) -> None:
        """Record the user of a definition, and add it to those to go on from."""
        self._count_use()
        if self._record(_affected_by(use, way)):
            following |= dict.fromkeys(self._leading_on(use), way.confidence)

    def _count_use(self) -> None:
        """Count a use. Raises `LimitReached` at a limit."""
        self.use_count += 1
        if (
            self.use_count > self.bounds.max_uses
            or len(self.affected) >= self.bounds.max_affected
            or (self.use_count % STEP == 0 and self.bounds.is_over())
        ):
            raise LimitReached

    def _record(self, item: Affected) -> bool:
        """Record an affected definition; returns False for one that is known at least as well."""
        if WEAKNESS[item.confidence] > WEAKNESS[self.bounds.weakest]:
            return False
        if item.key in self.changed and not item.is_broken:
            return False
        earlier = self.affected.get(item.key)
        if earlier is not None and (
            earlier.distance < item.distance
            or WEAKNESS[earlier.confidence] <= WEAKNESS[item.confidence]
        ):
            return False
        self.affected[item.key] = item
        return True

    def _leading_on(self, use: ResolvedUse) -> Iterator[DefinitionKey]:
        """Yield the definitions whose uses are affected by a use."""
        if use.use.symbol == TOP_LEVEL:
            return
        owner = constructed_class(use.file, use.use.symbol)
        for position in (use.use.symbol, *([owner] if owner is not None else [])):
            key = DefinitionKey(use.file.path, position)
            self.names[key] = _name(use.file, position)
            yield key


def _affected_by(use: ResolvedUse, way: _Way) -> Affected:
    """Return the definition that a use is in, as affected by what it uses."""
    user = _user(use)
    return Affected(
        key=user,
        symbol=use.file.symbols[user.position] if user.position != WHOLE_FILE else None,
        language=use.file.language,
        distance=way.distance,
        confidence=way.confidence,
        reason=use.resolution.reason,
        via_name=way.via_name,
        use_location=UseLocation(use.use.line, use.use.column),
        is_test=is_test(use.file.path),
        is_broken=way.is_broken,
    )


def _user(use: ResolvedUse) -> DefinitionKey:
    """Return the definition that a use is in, or its file."""
    position = use.use.symbol
    return DefinitionKey(use.file.path, WHOLE_FILE if position == TOP_LEVEL else position)


def _order(item: Affected) -> tuple[int, int, bool, str, int]:
    line = item.symbol.start_line if item.symbol is not None else 0
    return item.distance, WEAKNESS[item.confidence], item.is_test, item.key.path, line
