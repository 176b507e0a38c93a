"""Trees of calls: the callers or the callees of a function, level by level to a depth."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, Protocol

from cocosearch_ipc.graph_vocabulary import Confidence
from cocosearchd.filters.filter_fields import Filter, file_passes
from cocosearchd.graph.code_files import (
    WEAKNESS,
    WHOLE_FILE,
    CodeFile,
    CodeFiles,
    DefinitionKey,
    Resolution,
    ResolvedUse,
)
from cocosearchd.graph.questions.impact import constructed_class
from cocosearchd.graph.questions.question_limits import STEP, IsOver, LimitReached, TimedSearch
from cocosearchd.graph.questions.reference_pages import first_of_each_name
from cocosearchd.languages.code_facts import TOP_LEVEL, Use
from cocosearchd.languages.patterns.path_roles import is_test
from cocosearchd.languages.symbols import FUNCTION_KINDS, TYPE_KINDS
from cocosearchd.model import Symbol

MAX_ENTRIES = 10_000  # entries of a tree
MAX_SITES = 5  # listed call sites of an entry
MAX_MEANINGS = 5  # followed definitions of one call
MAX_EXTERNAL = 50  # names that are defined outside of the index
NO_PARENT = -1
_ROOT = NO_PARENT


class CallResolver(Protocol):
    """Finds the uses of a definition, and the definitions of a use."""

    def resolve(self, file: CodeFile, use: Use) -> Resolution:
        """Return the definitions that a use may mean, best first."""

    def uses_of(self, definition: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the uses of a definition with its overloads."""


class CallPlace(NamedTuple):
    """A call site: the file of the caller, line and column (from 1), and the called name."""

    path: str
    line: int
    column: int
    name: str


@dataclass(frozen=True, slots=True)
class CallNode:
    """An entry of a tree. `parent` and `first_occurrence` are positions of entries in the list, or -1.

    If a definition is already listed, `first_occurrence` is the position of that entry, which has the
    children.
    """

    key: DefinitionKey
    symbol: Symbol | None  # None for the code of a file outside of its definitions
    language: str
    depth: int
    parent: int
    confidence: Confidence  # of the surest call site
    reason: str
    sites: tuple[CallPlace, ...]  # the first `MAX_SITES`
    site_count: int
    first_occurrence: int = NO_PARENT
    is_cycle: bool = False


@dataclass(frozen=True, slots=True)
class CallQuery:
    """The filter and page of a tree: files, confidence, depth, limit and offset."""

    where: Filter = field(default_factory=Filter)
    min_confidence: Confidence = "possible"
    depth: int = 1
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True)
class CallTree:
    """A page of the entries of a tree; each entry comes after its parent.

    `total` counts the entries up to the end of the page, and `is_last` is False if more follow.
    `external` are names that are called, and defined outside of the index. `other_uses` counts the
    uses of a target that are no calls, as where it is passed on; all of them if it has no caller.
    """

    nodes: tuple[CallNode, ...]
    total: int
    external: tuple[str, ...]
    is_last: bool
    is_complete: bool
    other_uses: int = 0


class _Edge(NamedTuple):
    """A call between the definition of an entry and another definition, its neighbour."""

    neighbour: DefinitionKey
    site: CallPlace
    resolution: Resolution


def find_callers(
    files: CodeFiles,
    resolver: CallResolver,
    keys: Sequence[DefinitionKey],
    query: CallQuery,
    is_over: IsOver,
) -> CallTree:
    """Find what calls a definition; calls of a constructor are those of its class."""
    other_uses = 0

    def edges(group: Sequence[DefinitionKey], is_target: bool) -> Iterator[_Edge]:
        nonlocal other_uses
        for key in _with_classes(files, group):
            for match in resolver.uses_of(key):
                if match.use.kind == "call":
                    yield _caller_edge(match)
                elif is_target and key in group:
                    other_uses += 1

    tree = _Walk(files, query, is_over).run(keys, edges)
    return replace(tree, other_uses=other_uses)


def find_callees(
    files: CodeFiles,
    resolver: CallResolver,
    keys: Sequence[DefinitionKey],
    query: CallQuery,
    is_over: IsOver,
) -> CallTree:
    """Find the callees of a definition.

    If the target is a class, these include the callees of its members.
    """
    external = dict[str, None]()

    def edges(group: Sequence[DefinitionKey], is_target: bool) -> Iterator[_Edge]:
        for key in group:
            file = files.load([key.path]).get(key.path)
            if file is None:
                continue
            for number, use in enumerate(_calls_inside(file, key, is_target=is_target)):
                if number % STEP == 0:
                    files.load(())  # raises `LimitReached` if the time is over
                resolution = resolver.resolve(file, use)
                if not resolution.definitions and len(external) < MAX_EXTERNAL:
                    external[f"{use.receiver}.{use.name}" if use.receiver else use.name] = None
                site = CallPlace(file.path, use.line, use.column, use.name)
                for neighbour in first_of_each_name(files, resolution.definitions[:MAX_MEANINGS]):
                    yield _Edge(neighbour, site, resolution)

    return _Walk(files, query, is_over, external).run(keys, edges)


class _EdgeGroup:
    """The calls between an entry and one neighbour."""

    def __init__(self, edge: _Edge) -> None:
        # Without repeats: a declaration and its definition share call sites
        self.sites = dict[CallPlace, None]()
        self.resolution = edge.resolution

    def add(self, edge: _Edge) -> None:
        """Add a call between the same two definitions."""
        self.sites[edge.site] = None
        if WEAKNESS[edge.resolution.confidence] < WEAKNESS[self.resolution.confidence]:
            self.resolution = edge.resolution


class _Edges(Protocol):
    """The direction of a tree: a function that yields the edges of a definition."""

    def __call__(self, group: Sequence[DefinitionKey], is_target: bool, /) -> Iterator[_Edge]:
        """Yield the calls of a definition with its overloads."""


class _Walk:
    """A breadth-first walk through the calls.

    The walk follows each definition only where it first reaches the definition.
    """

    def __init__(
        self,
        files: CodeFiles,
        query: CallQuery,
        is_over: IsOver,
        external: Iterable[str] = (),
    ) -> None:
        self._files = files
        self._query = query
        self._search = TimedSearch(is_over)
        self._external = external
        self._end = min(query.offset + query.limit + 1, MAX_ENTRIES)
        self._nodes = list[CallNode]()
        self._positions = dict[DefinitionKey, int]()  # of the first entry of a definition

    def run(self, keys: Sequence[DefinitionKey], edges: _Edges) -> CallTree:
        """Walk from the target and return the page."""
        self._positions = dict.fromkeys(keys, _ROOT)
        waiting = deque([(_ROOT, tuple(keys))])
        try:
            while waiting and len(self._nodes) < self._end and self._search.is_complete:
                position, group = waiting.popleft()
                if self._depth(position) >= self._query.depth:
                    break
                for key in self._expand(position, edges(group, position == _ROOT)):
                    waiting.append((self._positions[key], (key,)))
        except LimitReached:  # while the neighbours of an entry were added
            self._search.is_complete = False
        query = self._query
        return CallTree(
            nodes=tuple(self._nodes[query.offset : query.offset + query.limit]),
            total=min(len(self._nodes), query.offset + query.limit),
            external=tuple(self._external),
            is_last=len(self._nodes) <= query.offset + query.limit,
            is_complete=self._search.is_complete,
        )

    def _depth(self, position: int) -> int:
        return 0 if position == _ROOT else self._nodes[position].depth

    def _expand(self, position: int, edges: Iterator[_Edge]) -> list[DefinitionKey]:
        """Add the neighbours of an entry; return the neighbours that were not reached before."""
        groups = self._group(edges)
        ordered = sorted(groups, key=lambda key: (is_test(key.path), key))
        new_keys = list[DefinitionKey]()
        for key in ordered:
            if len(self._nodes) >= self._end:
                break
            node = self._make_node(position, key, groups[key])
            if node is None:
                continue
            if key not in self._positions:
                self._positions[key] = len(self._nodes)
                if key.position != WHOLE_FILE:
                    new_keys.append(key)
            self._nodes.append(node)
        return new_keys

    def _group(self, edges: Iterator[_Edge]) -> dict[DefinitionKey, _EdgeGroup]:
        groups = dict[DefinitionKey, _EdgeGroup]()
        weakest = WEAKNESS[self._query.min_confidence]
        for edge in self._search.limit(edges):
            if WEAKNESS[edge.resolution.confidence] <= weakest:
                groups.setdefault(edge.neighbour, _EdgeGroup(edge)).add(edge)
        return groups

    def _make_node(self, parent: int, key: DefinitionKey, group: _EdgeGroup) -> CallNode | None:
        """Make an entry; None if its file is filtered out or gone."""
        file = self._files.load([key.path]).get(key.path)
        if file is None or not file_passes(self._query.where, file):
            return None
        is_first = key not in self._positions
        return CallNode(
            key=key,
            symbol=None if key.position == WHOLE_FILE else file.symbols[key.position],
            language=file.language,
            depth=self._depth(parent) + 1,
            parent=parent,
            confidence=group.resolution.confidence,
            reason=group.resolution.reason,
            sites=tuple(islice(group.sites, MAX_SITES)),
            site_count=len(group.sites),
            first_occurrence=NO_PARENT if is_first else self._positions[key],
            is_cycle=not is_first and self._is_ancestor(key, parent),
        )

    def _is_ancestor(self, key: DefinitionKey, position: int) -> bool:
        while position != _ROOT:
            if self._nodes[position].key == key:
                return True
            position = self._nodes[position].parent
        return self._positions[key] == _ROOT


def _caller_edge(match: ResolvedUse) -> _Edge:
    position = match.use.symbol
    caller = DefinitionKey(match.file.path, WHOLE_FILE if position == TOP_LEVEL else position)
    site = CallPlace(match.file.path, match.use.line, match.use.column, match.use.name)
    return _Edge(caller, site, match.resolution)


def _with_classes(files: CodeFiles, group: Sequence[DefinitionKey]) -> list[DefinitionKey]:
    """Return definitions, and the classes that they construct."""
    keys = first_of_each_name(files, group)
    for key in tuple(keys):
        file = files.load([key.path])[key.path]
        owner = None if key.position == WHOLE_FILE else constructed_class(file, key.position)
        if owner is not None:
            keys.append(DefinitionKey(key.path, owner))
    return keys


def _calls_inside(file: CodeFile, key: DefinitionKey, *, is_target: bool) -> Iterator[Use]:
    """Yield the calls in the body of a definition.

    If a class is the target, these are the calls of all its members, else those of its
    constructors.
    """
    inside = _body(file, key.position, is_target=is_target)
    return (use for use in file.facts.uses if use.kind == "call" and use.symbol in inside)


def _body(file: CodeFile, position: int, *, is_target: bool) -> frozenset[int]:
    """Return the positions of the definitions in the body of one at `position`.

    Their calls count as calls of that definition.
    """
    if position == WHOLE_FILE:
        return frozenset({TOP_LEVEL})
    outer = file.symbols[position]
    inside = [
        i
        for i, symbol in enumerate(file.symbols)
        if outer.start_byte <= symbol.start_byte and symbol.end_byte <= outer.end_byte
    ]
    if outer.kind in FUNCTION_KINDS or is_target or outer.kind not in TYPE_KINDS:
        return frozenset(inside)
    constructors = (i for i in inside if constructed_class(file, i) == position)
    return frozenset({position, *constructors})
