"""References: all uses of a definition, counted, filtered and page by page"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, Protocol

from cocosearchd.filters.filter_fields import Filter, PathAndLanguage, file_passes
from cocosearchd.graph.code_files import (
    WHOLE_FILE,
    CodeFile,
    CodeFiles,
    Confidence,
    DefinitionKey,
    ResolvedImport,
    ResolvedUse,
)
from cocosearchd.graph.questions.file_places import enclosing_symbol
from cocosearchd.graph.questions.impact import STRENGTH
from cocosearchd.graph.questions.time_limit import IsOver, TimedSearch
from cocosearchd.languages.code_facts import TOP_LEVEL, Import
from cocosearchd.languages.patterns.path_kinds import is_test
from cocosearchd.model import Symbol

IMPORT = "import"
_BATCH = 64  # files that are loaded at once
KINDS = ("call", "type", "inherit", "name", IMPORT)


class ReferenceResolver(Protocol):
    """Finds what uses a definition. The first two methods yield as they find."""

    def uses_of(self, definition: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the uses of a definition with its overloads."""

    def imports_of(self, definition: DefinitionKey) -> Iterator[ResolvedImport]:
        """Yield the imports of a definition."""

    def imported_files(self, file: CodeFile, item: Import) -> Sequence[str]:
        """Return the paths of the indexed files that an import means."""


class ReferencePosition(NamedTuple):
    """The position of a reference in the list: code before tests, then by place."""

    is_in_test: bool
    path: str
    line: int
    column: int  # 0: that of an import is not known
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class FoundReference:
    """A use of a definition, and the innermost definition around it."""

    position: ReferencePosition
    language: str
    confidence: Confidence
    reason: str
    symbol: Symbol | None


@dataclass(frozen=True, slots=True)
class ReferenceQuery:
    """The references that a page may have. `kinds` without entries are all of `KINDS`."""

    where: Filter = field(default_factory=Filter)
    kinds: frozenset[str] = frozenset()
    min_confidence: Confidence = "possible"
    limit: int = 100
    after: ReferencePosition | None = None


@dataclass(frozen=True, slots=True)
class ReferencePage:
    """A page of references, and the counts of all pages: by confidence, and by path.

    `is_last` is False if more follow. `is_complete` is False if the time was not enough.
    """

    references: tuple[FoundReference, ...]
    counts: Mapping[Confidence, int]
    file_counts: Mapping[str, int]
    is_last: bool
    is_complete: bool


def find_references(
    files: CodeFiles,
    resolver: ReferenceResolver,
    keys: Sequence[DefinitionKey],
    query: ReferenceQuery,
    is_over: IsOver,
) -> ReferencePage:
    """Find the references of a definition with its overloads: all are counted, a page is kept."""
    counts = Counter[Confidence]()
    file_counts = Counter[str]()
    search = TimedSearch(is_over)

    def count_all() -> Iterator[FoundReference]:
        for reference in search.limit(_find_all(files, resolver, keys, query)):
            counts[reference.confidence] += 1
            file_counts[reference.position.path] += 1
            if query.after is None or reference.position > query.after:
                yield reference

    page = heapq.nsmallest(query.limit + 1, count_all(), key=lambda reference: reference.position)
    return ReferencePage(
        references=tuple(page[: query.limit]),
        counts=counts,
        file_counts=file_counts,
        is_last=len(page) <= query.limit,
        is_complete=search.is_complete,
    )


def first_of_each_name(files: CodeFiles, keys: Iterable[DefinitionKey]) -> list[DefinitionKey]:
    """Return one key of each group of overloads: a resolver knows the others."""
    firsts = dict[tuple[str, str], DefinitionKey]()
    for key in keys:
        file = files.load([key.path]).get(key.path)
        if file is not None:
            is_file = key.symbol == WHOLE_FILE
            name = "" if is_file else file.symbols[key.symbol].qualified_name
            firsts.setdefault((key.path, name), key)
    return list(firsts.values())


def _find_all(
    files: CodeFiles,
    resolver: ReferenceResolver,
    keys: Sequence[DefinitionKey],
    query: ReferenceQuery,
) -> Iterator[FoundReference]:
    passes = _make_test(query)
    firsts = first_of_each_name(files, keys)
    positions = set[ReferencePosition]()
    for key in firsts:
        for reference in _references_of(files, resolver, key, query.kinds):
            if passes(reference) and reference.position not in positions:
                if len(firsts) > 1:
                    positions.add(reference.position)
                yield reference


def _references_of(
    files: CodeFiles, resolver: ReferenceResolver, key: DefinitionKey, kinds: frozenset[str]
) -> Iterator[FoundReference]:
    if kinds != {IMPORT}:
        yield from map(_use_reference, resolver.uses_of(key))
    if kinds and IMPORT not in kinds:
        return
    if key.symbol == WHOLE_FILE:
        yield from _importers(files, resolver, key.path)
    else:
        yield from map(_import_reference, resolver.imports_of(key))


def _importers(
    files: CodeFiles, resolver: ReferenceResolver, path: str
) -> Iterator[FoundReference]:
    """Yield the imports that take a file, or names of it: one a line.

    Only imports are resolved that name the file, or its directory if that is a package.
    """
    directory, _, base = path.rpartition("/")
    names = {base.partition(".")[0], directory.rpartition("/")[2]} - {""}
    sources = iter(sorted({s for name in names for s in files.files_using(name)} - {path}))
    while batch := list(islice(sources, _BATCH)):
        loaded = files.load(batch)
        for file in loaded.values():
            by_line = {
                item.line: item
                for item in _near_imports(file, names)
                if path in resolver.imported_files(file, item)
            }
            for item in by_line.values():
                yield _make_import_reference(file, item, "certain", IMPORT)


def _near_imports(file: CodeFile, names: set[str]) -> Iterator[Import]:
    """Yield the imports that name one of the names, or a module with it."""
    for item in file.facts.imports:
        if item.name in names or any(name in item.module for name in names):
            yield item


def _make_test(query: ReferenceQuery) -> Callable[[FoundReference], bool]:
    """Return a test by kind, confidence and file; files are tested once if they come in a row."""
    last_file: tuple[str, bool] = ("", False)

    def passes(reference: FoundReference) -> bool:
        nonlocal last_file
        position = reference.position
        if query.kinds and position.kind not in query.kinds:
            return False
        if STRENGTH[reference.confidence] > STRENGTH[query.min_confidence]:
            return False
        if last_file[0] != position.path:
            file = PathAndLanguage(position.path, reference.language)
            is_in = file_passes(query.where, file)
            last_file = (position.path, is_in)
        return last_file[1]

    return passes


def _use_reference(match: ResolvedUse) -> FoundReference:
    file, use = match.file, match.use
    return FoundReference(
        ReferencePosition(is_test(file.path), file.path, use.line, use.column, use.kind, use.name),
        file.language,
        match.resolution.confidence,
        match.resolution.reason,
        None if use.symbol == TOP_LEVEL else file.symbols[use.symbol],
    )


def _import_reference(match: ResolvedImport) -> FoundReference:
    resolution = match.resolution
    return _make_import_reference(match.file, match.item, resolution.confidence, resolution.reason)


def _make_import_reference(
    file: CodeFile, item: Import, confidence: Confidence, reason: str
) -> FoundReference:
    name = item.name if item.name not in ("", "*") else item.module
    enclosing = enclosing_symbol(file, item.line)
    return FoundReference(
        ReferencePosition(is_test(file.path), file.path, item.line, 0, IMPORT, name),
        file.language,
        confidence,
        reason,
        None if enclosing == WHOLE_FILE else file.symbols[enclosing],
    )
