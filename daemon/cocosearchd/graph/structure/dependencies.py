"""Finds dependencies of files and modules, in both directions, with cycles."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cocosearchd.graph.questions.question_limits import IsOver, LimitReached
from cocosearchd.graph.structure.cycles import find_cycles
from cocosearchd.graph.structure.file_imports import LOADED_AT_ONCE, FileEdge, ImportGraph

Direction = Literal["imports", "importers"]
# Returns those of some paths that an answer may name.
SelectPaths = Callable[[Sequence[str]], Collection[str]]


@dataclass(frozen=True, slots=True)
class ReachedFile:
    """A file, and its distance in imports from the nearest start."""

    path: str
    depth: int  # 0 for a start


@dataclass(frozen=True, slots=True)
class Reach:
    """The files that are reached from some start files along imports in one direction.

    `edges` are all followed imports. `complete` is False if a limit ended the walk. Imports of
    files at the last depth are not followed.
    """

    files: tuple[ReachedFile, ...]  # by depth and path
    edges: tuple[FileEdge, ...]
    packages: tuple[tuple[str, int], ...]  # (name, number of importing files), outside of the index
    complete: bool


@dataclass(frozen=True, slots=True)
class ModuleEdge:
    """The imports from files of one module to files of another. A module is a directory or a file."""

    source: str
    target: str
    count: int  # pairs of files


@dataclass(frozen=True, slots=True)
class ModuleGraph:
    """The modules of a directory, and the imports between them and to the rest of the index."""

    modules: tuple[tuple[str, int], ...]  # (name, number of read files)
    edges: tuple[ModuleEdge, ...]
    packages: tuple[tuple[str, int], ...]
    cycles: tuple[tuple[str, ...], ...]
    complete: bool


def reach(
    graph: ImportGraph,
    starts: Sequence[str],
    direction: Direction,
    depth: int,
    max_files: int,
    is_over: IsOver,
) -> Reach:
    """Follow imports from the start files, breadth first, up to a depth."""
    depths = dict.fromkeys(sorted(starts)[:max_files], 0)
    complete = len(starts) <= max_files
    edges = set[FileEdge]()
    level = list(depths)
    for distance in range(1, depth + 1):
        step, step_complete = _follow(graph, level, direction, is_over)
        complete = complete and step_complete
        edges.update(step)
        ends = {_end(edge, direction) for edge in step} - depths.keys()
        level = sorted(ends)[: max(0, max_files - len(depths))]
        complete = complete and len(level) == len(ends)
        depths |= dict.fromkeys(level, distance)
        if not level:
            break
    files = tuple(ReachedFile(path, distance) for path, distance in depths.items())
    return Reach(
        files,
        tuple(sorted(edge for edge in edges if {edge.source, edge.target} <= depths.keys())),
        _count_packages(graph, starts if direction == "imports" else ()),
        complete,
    )


def restrict_reach(walk: Reach, select: SelectPaths) -> Reach:
    """Return a walk with its starts, and those of the reached files that `select` returns."""
    starts = {file.path for file in walk.files if not file.depth}
    selected = starts.union(select([file.path for file in walk.files if file.depth]))
    return replace(
        walk,
        files=tuple(file for file in walk.files if file.path in selected),
        edges=tuple(edge for edge in walk.edges if {edge.source, edge.target} <= selected),
    )


def module_graph(
    graph: ImportGraph,
    directory: str,
    paths: Sequence[str],
    level: int,
    is_over: IsOver,
    select: SelectPaths = tuple,
) -> ModuleGraph:
    """Group the imports of the files below a directory by module.

    `paths` are the files below the directory. A module of `level` 1 is a file or a directory
    directly in it; a module of level 2 is one level deeper. Files elsewhere are grouped in the same
    way, but from the root. `select` returns those of the imported files that count.
    """
    read = _resolve_in_time(graph, paths, is_over)
    modules = Counter(module_of(path, directory, level) for path in read)
    imports = [edge for path in read for edge in graph.imports(path).edges]
    selected = frozenset(select(list(dict.fromkeys(edge.target for edge in imports))))
    counts = Counter(
        (module_of(edge.source, directory, level), module_of(edge.target, directory, level))
        for edge in imports
        if edge.target in selected
    )
    edges = tuple(
        ModuleEdge(source, target, count)
        for (source, target), count in sorted(counts.items())
        if source != target
    )
    return ModuleGraph(
        tuple(sorted(modules.items())),
        edges,
        _count_packages(graph, read),
        tuple(find_cycles(_neighbours(edges))),
        complete=len(read) == len(paths),
    )


def module_of(path: str, directory: str, level: int) -> str:
    """Return the module of a file: its first `level` parts below a directory, or below the root."""
    prefix = f"{directory}/" if directory else ""
    base = prefix if path.startswith(prefix) else ""
    return base + "/".join(path.removeprefix(base).split("/")[:level])


def file_cycles(edges: Collection[FileEdge]) -> tuple[tuple[str, ...], ...]:
    """Return the sets of files that import each other in a circle."""
    return tuple(find_cycles(_neighbours(edges)))


def _follow(
    graph: ImportGraph, level: Sequence[str], direction: Direction, is_over: IsOver
) -> tuple[list[FileEdge], bool]:
    """Return the imports from or to some files, and whether these are complete."""
    if direction == "imports":
        read = _resolve_in_time(graph, level, is_over)
        return [edge for path in read for edge in graph.imports(path).edges], len(read) == len(
            level
        )
    edges = list[FileEdge]()
    complete = True
    try:
        for path in level:
            if is_over():
                raise LimitReached
            importers = graph.importers(path)
            edges += importers.edges
            complete = complete and importers.complete
    except LimitReached:
        return edges, False
    return edges, complete


def _resolve_in_time(graph: ImportGraph, paths: Sequence[str], is_over: IsOver) -> Sequence[str]:
    """Resolve the imports of files; return the files that were resolved before the time was over."""
    for first in range(0, len(paths), LOADED_AT_ONCE):
        try:
            if is_over():
                raise LimitReached
            graph.resolve(paths[first : first + LOADED_AT_ONCE])
        except LimitReached:
            return paths[:first]
    return paths


def _end(edge: FileEdge, direction: Direction) -> str:
    return edge.target if direction == "imports" else edge.source


def _count_packages(graph: ImportGraph, paths: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return the packages that files import, with their counts, most used first."""
    counts = Counter(package for imports in graph.resolved(paths) for package in imports.packages)
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _neighbours(edges: Collection[FileEdge] | Collection[ModuleEdge]) -> Mapping[str, list[str]]:
    neighbours = dict[str, list[str]]()
    for edge in edges:
        neighbours.setdefault(edge.source, []).append(edge.target)
    return neighbours
