"""Finds references: the uses of a definition, filtered, ordered by page, and counted.

Files are read in the order of the list. A page does not need the files after it, but the counts do.
Therefore, after the page is full, files are read only up to `COUNTED_FILES`, and the page says how
many files are unread.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from cocosearch_ipc.graph_vocabulary import Confidence
from cocosearchd.filters.filter_fields import Filter, PathAndLanguage, file_passes
from cocosearchd.graph.code_files import (
    WEAKNESS,
    WHOLE_FILE,
    CodeFile,
    CodeFiles,
    DefinitionKey,
    ResolvedImport,
    ResolvedUse,
)
from cocosearchd.graph.questions.file_locations import enclosing_symbol
from cocosearchd.graph.questions.question_limits import IsOver, TimedSearch
from cocosearchd.languages.code_facts import TOP_LEVEL, Import
from cocosearchd.languages.patterns.path_roles import is_test
from cocosearchd.model import Symbol

IMPORT = "import"
# Files that are read at least, for the counts of an answer: some 30 ms.
COUNTED_FILES = 64
_BATCH = 32  # files that are loaded at once


class ReferenceResolver(Protocol):
    """Finds the uses and imports of a definition, file by file."""

    def mentioning_paths(self, definition: DefinitionKey) -> Sequence[str]:
        """Return the paths of all files that may use or import a definition."""

    def may_mention(self, definition: DefinitionKey, path: str) -> bool:
        """Return False if a file is known to have neither a use nor an import of a definition."""

    def uses_in(self, definition: DefinitionKey, file: CodeFile) -> Iterator[ResolvedUse]:
        """Yield the uses in a file of a definition with its overloads."""

    def imports_in(self, definition: DefinitionKey, file: CodeFile) -> Iterator[ResolvedImport]:
        """Yield the imports in a file of a definition."""

    def imported_files(self, file: CodeFile, item: Import) -> Sequence[str]:
        """Return the paths of the indexed files that an import means."""


class ReferenceLocation(NamedTuple):
    """The position of a reference in the list: code before tests, then path and location."""

    is_in_test: bool
    path: str
    line: int
    column: int  # 0 for an import, whose column is unknown
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class FoundReference:
    """A use of a definition, and the innermost definition around it."""

    location: ReferenceLocation
    language: str
    confidence: Confidence
    reason: str
    symbol: Symbol | None


@dataclass(frozen=True, slots=True)
class ReferenceQuery:
    """The filter and the page of references. Empty `kinds` stand for all kinds."""

    where: Filter = field(default_factory=Filter)
    kinds: frozenset[str] = frozenset()
    min_confidence: Confidence = "possible"
    limit: int = 100
    counts_all: bool = False  # read all files, also those after the page
    after: ReferenceLocation | None = None


@dataclass(frozen=True, slots=True)
class ReferencePage:
    """A page of references, with counts by confidence and by path for all files that were read.

    `unread_files` counts files after the page that have the name but were not read. `is_last` is
    False if more references may follow. `is_complete` is False after a timeout.
    """

    references: tuple[FoundReference, ...]
    counts: Mapping[Confidence, int]
    file_counts: Mapping[str, int]
    unread_files: int
    is_last: bool
    is_complete: bool


def find_references(
    files: CodeFiles,
    resolver: ReferenceResolver,
    keys: Sequence[DefinitionKey],
    query: ReferenceQuery,
    is_over: IsOver,
) -> ReferencePage:
    """Find a page of references to a definition with its overloads."""
    timed = TimedSearch(is_over)
    search = _PageSearch(files, resolver, query)
    counts = Counter[Confidence]()
    file_counts = Counter[str]()
    for reference in timed.limit(search.run(keys)):
        counts[reference.confidence] += 1
        file_counts[reference.location.path] += 1
    return ReferencePage(
        references=tuple(search.page[: query.limit]),
        counts=counts,
        file_counts=file_counts,
        unread_files=search.unread_files,
        is_last=len(search.page) <= query.limit,
        is_complete=timed.is_complete,
    )


def first_of_each_name(files: CodeFiles, keys: Iterable[DefinitionKey]) -> list[DefinitionKey]:
    """Return one key per group of overloads: a resolver finds the others."""
    firsts = dict[tuple[str, str], DefinitionKey]()
    for key in keys:
        file = files.load([key.path]).get(key.path)
        if file is not None:
            is_file = key.position == WHOLE_FILE
            name = "" if is_file else file.symbols[key.position].qualified_name
            firsts.setdefault((key.path, name), key)
    return list(firsts.values())


class _PageSearch:
    """A search for a page. It yields all references in the files that it reads, in order.

    `page` has the references of the page, and one more.
    """

    def __init__(
        self, files: CodeFiles, resolver: ReferenceResolver, query: ReferenceQuery
    ) -> None:
        self._files = files
        self._resolver = resolver
        self._query = query
        self._passes = _make_predicate(query)
        self.page: list[FoundReference] = []
        self.unread_files = 0

    def run(self, keys: Sequence[DefinitionKey]) -> Iterator[FoundReference]:
        """Yield references until the page is full and enough files are counted."""
        firsts = first_of_each_name(self._files, keys)
        paths = self._page_order({path for key in firsts for path in self._sources(key)})
        self.unread_files = len(paths)
        for first in range(0, len(paths), _BATCH):
            if first >= COUNTED_FILES and self._has_enough():
                return
            batch = paths[first : first + _BATCH]
            loaded = self._load_users(firsts, batch)
            for path in batch:
                if path in loaded and file_passes(self._query.where, loaded[path]):
                    yield from self._in_file(firsts, loaded[path])
                self.unread_files -= 1

    def _load_users(
        self, firsts: Sequence[DefinitionKey], batch: Sequence[str]
    ) -> Mapping[str, CodeFile]:
        """Load those files of a batch that may have a reference."""
        paths = [path for path in batch if self._may_mention(firsts, path)]
        return self._files.load(paths) if paths else {}

    def _may_mention(self, firsts: Iterable[DefinitionKey], path: str) -> bool:
        return any(self._resolver.may_mention(key, path) for key in firsts)

    def _has_enough(self) -> bool:
        return len(self.page) > self._query.limit and not self._query.counts_all

    def _sources(self, key: DefinitionKey) -> Iterable[str]:
        """Return the paths of the files that may have references to a definition."""
        if key.position != WHOLE_FILE:
            return self._resolver.mentioning_paths(key)
        importers = (path for name in _module_names(key) for path in self._files.files_using(name))
        return {*self._resolver.mentioning_paths(key), *importers}

    def _page_order(self, paths: Iterable[str]) -> Sequence[str]:
        """Filter paths by the query, and sort them in the order of pages."""
        where = replace(self._query.where, languages=())
        if where != Filter():
            paths = (path for path in paths if file_passes(where, PathAndLanguage(path, "")))
        return sorted(paths, key=lambda path: (is_test(path), path))

    def _in_file(self, firsts: Sequence[DefinitionKey], file: CodeFile) -> Iterator[FoundReference]:
        """Yield the references in a file, in order, without repeats."""
        references = dict[ReferenceLocation, FoundReference]()
        for key in firsts:
            for reference in self._references_to_definition(key, file):
                if self._passes(reference):
                    references.setdefault(reference.location, reference)
        after = self._query.after
        for position in sorted(references):
            is_after = after is None or position > after
            if is_after and len(self.page) <= self._query.limit:
                self.page.append(references[position])
            yield references[position]

    def _references_to_definition(
        self, key: DefinitionKey, file: CodeFile
    ) -> Iterator[FoundReference]:
        kinds = self._query.kinds
        if kinds != {IMPORT}:
            yield from map(_use_reference, self._resolver.uses_in(key, file))
        if kinds and IMPORT not in kinds:
            return
        if key.position == WHOLE_FILE:
            yield from self._imports_of_file(key, file)
        else:
            yield from map(_import_reference, self._resolver.imports_in(key, file))

    def _imports_of_file(self, key: DefinitionKey, file: CodeFile) -> Iterator[FoundReference]:
        """Yield the imports of another file or of its names, one per line."""
        if file.path == key.path:
            return
        by_line = {
            item.line: item
            for item in _near_imports(file, _module_names(key))
            if key.path in self._resolver.imported_files(file, item)
        }
        for item in by_line.values():
            yield _make_import_reference(file, item, "certain", IMPORT)


def _module_names(key: DefinitionKey) -> set[str]:
    """Return the stem and the directory of a file: every import of the file has one of these names."""
    directory, _, base = key.path.rpartition("/")
    return {base.partition(".")[0], directory.rpartition("/")[2]} - {""}


def _near_imports(file: CodeFile, names: set[str]) -> Iterator[Import]:
    """Yield the imports of one of the names, or of a module with one of them in its path."""
    for item in file.facts.imports:
        if item.name in names or any(name in item.module for name in names):
            yield item


def _make_predicate(query: ReferenceQuery) -> Callable[[FoundReference], bool]:
    """Return a predicate that tests the kind and the confidence of references."""
    weakest = WEAKNESS[query.min_confidence]

    def passes(reference: FoundReference) -> bool:
        if query.kinds and reference.location.kind not in query.kinds:
            return False
        return WEAKNESS[reference.confidence] <= weakest

    return passes


def _use_reference(match: ResolvedUse) -> FoundReference:
    file, use = match.file, match.use
    return FoundReference(
        ReferenceLocation(is_test(file.path), file.path, use.line, use.column, use.kind, use.name),
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
        ReferenceLocation(is_test(file.path), file.path, item.line, 0, IMPORT, name),
        file.language,
        confidence,
        reason,
        None if enclosing == WHOLE_FILE else file.symbols[enclosing],
    )
