"""Verbs about the structure of code: dependencies, outlines, and maps of central definitions."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cocosearch_ipc import protocol as p
from cocosearch_ipc import structure_protocol as s
from cocosearch_ipc.graph_protocol import MAX_DEPTH
from cocosearchd.api.graph.graph_questions import GraphMoment, GraphQuestions, make_reply_fields
from cocosearchd.api.graph.structure_pages import (
    find_directory,
    passing_paths,
    paths_below,
)
from cocosearchd.errors import InvalidInput
from cocosearchd.graph.questions.target_search import find_file, missing_file
from cocosearchd.graph.structure.central_symbols import MapFiles, RepositoryMap, map_repository
from cocosearchd.graph.structure.dependencies import (
    Direction,
    ModuleEdge,
    ModuleGraph,
    Reach,
    file_cycles,
    module_graph,
    module_of,
    reach,
    restrict_reach,
)
from cocosearchd.graph.structure.file_imports import ImportGraph
from cocosearchd.graph.structure.outline import Outline, outline_files
from cocosearchd.model import Symbol
from cocosearchd.search.request_limits import check_range

DIRECTIONS = ("both", "imports", "importers")
MAX_REACHED_FILES = 10_000  # of a walk along imports
MAX_PACKAGES = 200
MAX_CYCLES = 50
MAX_EDGES = 5_000  # of a reply
_LISTS = ("imports", "importers", "modules")  # fields that `limit` limits
MAX_OUTLINED = 2_000  # files whose definitions are read for an outline
QUERY_HITS = 20  # results of a query whose files a map prefers
ALL_LEVELS = 1_000
_PARTIAL_MAP = "the time was not enough to check all central definitions"

Search = Callable[[p.SearchRequest], Awaitable[p.SearchReply]]


@dataclass(frozen=True, slots=True)
class _Dependencies:
    """The findings of a question: the requested walks, and the `modules` of a directory."""

    target: str
    imports: Reach | None = None
    importers: Reach | None = None
    modules: ModuleGraph | None = None

    @property
    def walks(self) -> list[Reach]:
        """The requested walks."""
        return [walk for walk in (self.imports, self.importers) if walk is not None]

    @property
    def complete(self) -> bool:
        """True if all files that the answer needs were read."""
        has_all_modules = self.modules is None or self.modules.complete
        return has_all_modules and all(walk.complete for walk in self.walks)


@dataclass(frozen=True, slots=True)
class _MapFinding:
    """A map, and the number of all files of the index."""

    repository_map: RepositoryMap
    file_count: int


class StructureVerbs:
    """Implements `dependencies`, `outline` and `map`."""

    def __init__(self, questions: GraphQuestions, search: Search) -> None:
        """`search` answers the queries of maps."""
        self._questions = questions
        self._search = search

    async def dependencies(self, request: s.DependenciesRequest) -> s.DependenciesReply:
        """Return the imports of files or modules, their importers, and cycles."""
        check_range("depth", request.depth, 1, MAX_DEPTH)
        check_range("level", request.level, 1, s.MAX_LEVEL)
        if request.direction not in DIRECTIONS:
            raise InvalidInput(
                f"unknown direction {request.direction!r}", f"use one of {', '.join(DIRECTIONS)}"
            )
        answer = await self._questions.ask(request, partial(_find_dependencies, request))
        fields = _dependency_fields(answer.value, request)
        return s.DependenciesReply(**make_reply_fields(answer), **fields)

    async def outline(self, request: s.OutlineRequest) -> s.OutlineReply:
        """Return the definitions of a file, or of each file of a directory."""
        check_range("depth", request.depth, 0, MAX_DEPTH)
        budget = _budget(request.budget_tokens, s.OUTLINE_TOKENS)
        answer = await self._questions.ask(request, partial(_find_outline, request, budget))
        return s.OutlineReply(
            **make_reply_fields(answer),
            files=tuple(
                s.OutlineFile(
                    file.path,
                    file.language,
                    tuple(_outline_symbol(item.symbol, item.depth) for item in file.symbols),
                    file.omitted,
                )
                for file in answer.value.files
            ),
            omitted_files=answer.value.omitted_files,
        )

    async def map(self, request: s.MapRequest) -> s.MapReply:
        """Return the central definitions of an index within a budget of tokens."""
        budget = _budget(request.budget_tokens, s.MAP_TOKENS)
        preferred = await self._matching_paths(request) if request.query else []
        answer = await self._questions.ask(request, partial(_find_map, preferred, budget))
        repository_map = answer.value.repository_map
        return s.MapReply(
            **make_reply_fields(answer),
            complete=repository_map.complete,
            notes=() if repository_map.complete else (_PARTIAL_MAP,),
            files=tuple(
                s.MapFile(
                    file.path,
                    file.language,
                    round(file.rank, 6),
                    tuple(_outline_symbol(item.symbol, 0) for item in file.symbols),
                )
                for file in repository_map.files
            ),
            total_files=answer.value.file_count,
            tokens=repository_map.tokens,
        )

    async def _matching_paths(self, request: s.MapRequest) -> list[str]:
        """Return the files of the best results of a query."""
        reply = await self._search(
            p.SearchRequest(
                query=request.query,
                index=request.index,
                cwd=request.cwd,
                limit=QUERY_HITS,
                sync_timeout_ms=request.sync_timeout_ms,
                session=request.session,
                linked=False,
            )
        )
        return [result.path for result in reply.results]


def _budget(tokens: int | None, default: int) -> int:
    budget = default if tokens is None else tokens
    check_range("the budget", budget, 1, s.MAX_TOKENS)
    return budget


def _find_dependencies(request: s.DependenciesRequest, moment: GraphMoment) -> _Dependencies:
    graph = ImportGraph(moment.files, moment.resolver)
    select = partial(passing_paths, moment.where, languages=moment.languages)
    path = find_file(moment.files, moment.target)
    if path is not None:
        walks = {
            direction: restrict_reach(
                reach(graph, [path], direction, request.depth, MAX_REACHED_FILES, moment.is_over),
                select,
            )
            for direction in _directions(request)
        }
        return _Dependencies(path, walks.get("imports"), walks.get("importers"))
    directory = _directory(moment)
    paths = select(paths_below(moment.files, directory))
    modules = module_graph(graph, directory, paths, request.level, moment.is_over, select)
    importers = None
    if directory and "importers" in _directions(request):
        walk = reach(graph, paths, "importers", 1, MAX_REACHED_FILES, moment.is_over)
        importers = restrict_reach(walk, select)
    return _Dependencies(directory, importers=importers, modules=modules)


def _directory(moment: GraphMoment) -> str:
    """Return the directory that a target names. Raises `NotFound`."""
    directory = find_directory(moment.files, moment.target)
    if directory is None:
        raise missing_file(moment.files, moment.target)
    return directory


def _directions(request: s.DependenciesRequest) -> Sequence[Direction]:
    if request.direction == "both":
        return ("imports", "importers")
    return (request.direction,)


def _find_outline(request: s.OutlineRequest, budget: int, moment: GraphMoment) -> Outline:
    path = find_file(moment.files, moment.target)
    if path is not None:
        paths = [path]
    else:
        below = paths_below(moment.files, _directory(moment))
        paths = passing_paths(moment.where, below, moment.languages)
    read_paths = paths[:MAX_OUTLINED]
    loaded = moment.files.load(read_paths)
    outline = outline_files(read_paths, loaded, request.depth or ALL_LEVELS, budget)
    unread = len(paths) - len(read_paths)
    return replace(outline, omitted_files=outline.omitted_files + unread)


def _find_map(matching: Sequence[str], budget: int, moment: GraphMoment) -> _MapFinding:
    select = partial(passing_paths, moment.where, languages=moment.languages)
    map_files = MapFiles([*matching, *_target_paths(moment)], select)
    chosen = map_repository(moment.files, moment.resolver, map_files, budget, moment.is_over)
    return _MapFinding(chosen, len(moment.files.paths()))


def _target_paths(moment: GraphMoment) -> Sequence[str]:
    """Return the files that a map prefers because of its target; none without a target."""
    if not moment.target.text:
        return ()
    path = find_file(moment.files, moment.target)
    if path is not None:
        return (path,)
    directory = _directory(moment)
    return paths_below(moment.files, directory) if directory else ()


def _notes_on_length(fields: Mapping[str, Any], limit: int) -> Iterator[str]:
    """Yield a note about each list that is longer than the shown part."""
    for name in _LISTS:
        further = len(fields.get(name, ())) - limit
        if further > 0:
            yield f"{further:,} further {name} are not listed: raise the limit"
    further = len(fields["edges"]) - MAX_EDGES
    if further > 0:
        yield f"{further:,} further edges are not listed"


def _dependency_fields(finding: _Dependencies, request: s.DependenciesRequest) -> dict[str, Any]:
    """Return the fields of a reply."""
    if finding.modules is None:
        fields = _file_fields(finding, finding.walks)
    else:
        fields = _module_fields(finding, finding.modules, request)
    notes = list(_notes_on_length(fields, request.limit))
    lists = {name: fields[name][: request.limit] for name in _LISTS if name in fields}
    if not finding.complete:
        notes.append("not all files were read: a directory narrows the question")
    return (
        fields
        | lists
        | {
            "target": finding.target,
            "edges": fields["edges"][:MAX_EDGES],
            "packages": tuple(s.PackageUse(*use) for use in fields["packages"][:MAX_PACKAGES]),
            "cycles": fields["cycles"][:MAX_CYCLES],
            "complete": finding.complete,
            "direction": request.direction,
            "notes": tuple(notes),
        }
    )


def _file_fields(finding: _Dependencies, walks: Sequence[Reach]) -> dict[str, Any]:
    edges = sorted({edge for walk in walks for edge in walk.edges})
    imports = _nodes(finding.imports)
    importers = _nodes(finding.importers)
    return {
        "kind": "file",
        "imports": imports,
        "importers": importers,
        "edges": tuple(s.DependencyEdge(edge.source, edge.target, edge.line) for edge in edges),
        "packages": finding.imports.packages if finding.imports is not None else (),
        "cycles": file_cycles(edges),
        "total_imports": len(imports),
        "total_importers": len(importers),
    }


def _inbound_edges(
    finding: _Dependencies, modules: Collection[str], level: int
) -> list[ModuleEdge]:
    """Count the imports of each module by each module outside of the directory."""
    if finding.importers is None:
        return []
    counts = Counter[tuple[str, str]]()
    for edge in finding.importers.edges:
        source = module_of(edge.source, finding.target, level)
        target = module_of(edge.target, finding.target, level)
        if source not in modules and target in modules:
            counts[source, target] += 1
    return [ModuleEdge(source, target, count) for (source, target), count in counts.items()]


def _module_fields(
    finding: _Dependencies, modules: ModuleGraph, request: s.DependenciesRequest
) -> dict[str, Any]:
    names = {name for name, _ in modules.modules}
    outside = sorted({edge.target for edge in modules.edges} - names)
    inbound = _inbound_edges(finding, names, request.level)
    edges = sorted([*modules.edges, *inbound], key=lambda edge: (edge.source, edge.target))
    importers = sorted({edge.source for edge in inbound})
    return {
        "kind": "directory",
        "modules": tuple(s.DependencyNode(name, 0, count) for name, count in modules.modules),
        "imports": tuple(s.DependencyNode(name, 1) for name in outside),
        "importers": tuple(s.DependencyNode(name, 1) for name in importers),
        "edges": tuple(s.DependencyEdge(e.source, e.target, 0, e.count) for e in edges),
        "packages": modules.packages,
        "cycles": modules.cycles,
        "total_imports": len(outside),
        "total_importers": len(importers),
    }


def _nodes(walk: Reach | None) -> tuple[s.DependencyNode, ...]:
    """Return the files of a walk without its start."""
    files = walk.files if walk is not None else ()
    return tuple(s.DependencyNode(file.path, file.depth) for file in files if file.depth)


def _outline_symbol(symbol: Symbol, depth: int) -> s.OutlineSymbol:
    return s.OutlineSymbol(
        kind=symbol.kind,
        name=symbol.qualified_name,
        signature=symbol.signature,
        start_line=symbol.start_line,
        end_line=symbol.end_line,
        depth=depth,
    )
