"""Finds removed, renamed and moved definitions, changed signatures, and uses that are left. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cocosearchd.graph.code_files import (
    WHOLE_FILE,
    CodeFile,
    CodeFiles,
    DefinitionKey,
    Resolution,
    ResolvedImport,
    ResolvedUse,
)
from cocosearchd.graph.earlier_files import EarlierFile, EarlierFiles
from cocosearchd.graph.questions.file_locations import enclosing_symbol
from cocosearchd.graph.questions.question_limits import STEP
from cocosearchd.graph.questions.renamed_definitions import renamed_definitions
from cocosearchd.languages.code_facts import Import, Use
from cocosearchd.languages.symbols import FUNCTION_KINDS
from cocosearchd.model import Symbol

MAX_REMOVED = 1_000  # removed definitions whose uses are searched
MAX_USES = 10_000  # uses that are left, of all removed definitions together


@dataclass(frozen=True, slots=True)
class RemovedDefinition:
    """A definition that is gone from its file, or a file that is gone.

    `key` has the position in the earlier version. `moved_to` is the present definition, if there is
    one: with another name in the same file, or with the same name in another changed file that did
    not define the name before. `uses` still refer to the removed definition.
    """

    key: DefinitionKey
    symbol: Symbol | None  # None for the file itself
    language: str
    moved_to: DefinitionKey | None
    uses: tuple[ResolvedUse, ...]

    @property
    def name(self) -> str:
        """The qualified name, or the path of a file."""
        return self.key.path if self.symbol is None else self.symbol.qualified_name


@dataclass(frozen=True, slots=True)
class ChangedSignature:
    """A definition with a changed signature."""

    position: int  # of its symbol in the present file
    earlier_signature: str


class UseFinder(Protocol):
    """Finds the uses of definitions, and the definitions of uses, in a set of files."""

    def uses_of(self, definition: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the uses of a definition with its overloads."""

    def imports_of(self, definition: DefinitionKey) -> Iterator[ResolvedImport]:
        """Yield the imports of a definition, or of a file as a whole."""

    def resolve(self, file: CodeFile, use: Use) -> Resolution:
        """Return the definitions that a use may mean."""

    def definitions_of_import(self, file: CodeFile, item: Import) -> Resolution:
        """Return the definitions that an import may mean."""


class MakeUseFinder(Protocol):
    """A factory of finders (resolvers) for files."""

    def __call__(self, files: CodeFiles) -> UseFinder:
        """Return a finder for these files."""


def changed_signatures(earlier: CodeFile, present: CodeFile) -> tuple[ChangedSignature, ...]:
    """Return the definitions with changed signatures, by position in the present file.

    Overloads are compared as a group: only new signatures are returned.
    """
    signatures = dict[str, dict[str, None]]()
    for symbol in earlier.symbols:
        signatures.setdefault(symbol.qualified_name, {})[symbol.signature] = None
    return tuple(
        ChangedSignature(position, next(iter(signatures[symbol.qualified_name])))
        for position, symbol in enumerate(present.symbols)
        if symbol.signature not in signatures.get(symbol.qualified_name, (symbol.signature,))
    )


class RemovalSearch:
    """Finds definitions that are gone from changed files, and their remaining uses.

    For one question.
    """

    def __init__(
        self,
        files: CodeFiles,
        finder: UseFinder,
        make_finder: MakeUseFinder,
        earlier: Mapping[str, EarlierFile],
        changed: Collection[str],
    ) -> None:
        """`earlier` maps paths to earlier versions of changed files.

        `changed` has all changed paths.
        """
        self._files = files
        self._finder = finder
        self._make_finder = make_finder
        self._earlier = earlier
        self._changed = frozenset(changed)
        self._removed_count = 0
        self._use_count = 0
        self.is_complete = True

    def find(self, path: str) -> tuple[RemovedDefinition, ...]:
        """Return the definitions that are gone from a changed file, in their earlier order.

        If the file itself is gone, it comes first. Raises the errors of reading files.
        """
        earlier = self._earlier[path]
        present = self._files.load([path]).get(path)
        positions = removed_positions(earlier.file, present)
        remaining = MAX_REMOVED - self._removed_count
        self.is_complete = self.is_complete and len(positions) <= remaining
        positions = positions[: max(0, remaining)]
        self._removed_count += len(positions)
        finder = self._make_finder(EarlierFiles(self._files, earlier)) if positions else None
        renamed = _find_renamed(earlier.file, present, positions)
        firsts = dict[str, RemovedDefinition]()
        for position in positions:
            symbol = None if position == WHOLE_FILE else earlier.file.symbols[position]
            key = DefinitionKey(path, position)
            name = path if symbol is None else symbol.qualified_name
            if finder is not None and name not in firsts:  # overloads are one definition
                uses = tuple(self._uses_left(finder, key, present))
                moved_to = renamed.get(position)
                if moved_to is None and symbol is not None:
                    moved_to = self._find_moved(path, symbol)
                language = earlier.file.language
                firsts[name] = RemovedDefinition(key, symbol, language, moved_to, uses)
        return tuple(firsts.values())

    def _uses_left(
        self, finder: UseFinder, key: DefinitionKey, present: CodeFile | None
    ) -> Iterator[ResolvedUse]:
        """Yield the uses that meant a removed definition and now mean none.

        All files are searched. Imports come first.
        """
        yield from self._imports_left(finder, key)
        own_uses = set[tuple[str, str, str]]()
        for use in finder.uses_of(key):
            if use.file.path == key.path:
                own_uses.add(_use_text(use.use))
            elif _is_sure(use.resolution) and self._is_broken(use) and self._count():
                yield use
        if present is not None and own_uses:
            yield from self._own_uses_left(present, own_uses)

    def _imports_left(self, finder: UseFinder, key: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the imports of other files that meant a removed definition and now mean none."""
        for match in finder.imports_of(key):
            if match.file.path != key.path and _is_sure(match.resolution):
                resolution = self._finder.definitions_of_import(match.file, match.item)
                if not resolution.definitions and self._count():
                    yield _as_use(match)

    def _own_uses_left(
        self, present: CodeFile, written: Collection[tuple[str, str, str]]
    ) -> Iterator[ResolvedUse]:
        """Yield the broken uses in the file itself that are written like earlier uses."""
        uses = present.facts.uses_named({name for name, _, _ in written})
        for number, use in enumerate(uses):
            if number % STEP == 0:
                self._files.load(())  # raises `LimitReached` if the time is over
            match = ResolvedUse(present, use, Resolution((), "certain", "same_file"))
            if _use_text(use) in written and self._is_broken(match) and self._count():
                yield match

    def _is_broken(self, match: ResolvedUse) -> bool:
        """Return True if a use now has no definition, or only unsure ones by name alone."""
        resolution = self._finder.resolve(match.file, match.use)
        return not resolution.definitions or not _is_sure(resolution)

    def _count(self) -> bool:
        """Count a remaining use; return False if there are too many."""
        self._use_count += 1
        self.is_complete = self.is_complete and self._use_count <= MAX_USES
        return self._use_count <= MAX_USES

    def _find_moved(self, path: str, symbol: Symbol) -> DefinitionKey | None:
        """Return a definition of the same name and kind that is new in another changed file."""
        paths = self._changed.intersection(self._files.files_defining(symbol.name)) - {path}
        for file in self._files.load(sorted(paths)).values():
            version = self._earlier.get(file.path)
            if version is not None and symbol.name in version.defined_names:
                continue
            for position, item in enumerate(file.symbols):
                if (item.qualified_name, item.kind) == (symbol.qualified_name, symbol.kind):
                    return DefinitionKey(file.path, position)
        return None


def removed_positions(earlier: CodeFile, present: CodeFile | None) -> Sequence[int]:
    """Return the positions of the definitions that are gone; the file itself comes first.

    Definitions inside of functions are left out: code outside cannot use them.
    """
    names = set() if present is None else {symbol.qualified_name for symbol in present.symbols}
    kinds = {symbol.qualified_name: symbol.kind for symbol in earlier.symbols}
    gone = (
        position
        for position, symbol in enumerate(earlier.symbols)
        if symbol.qualified_name not in names
        and kinds.get(symbol.parent or "") not in FUNCTION_KINDS
    )
    return (WHOLE_FILE, *gone) if present is None else tuple(gone)


def _find_renamed(
    earlier: CodeFile, present: CodeFile | None, positions: Sequence[int]
) -> Mapping[int, DefinitionKey]:
    """Map positions of renamed definitions in the earlier file to present definitions."""
    if present is None:
        return {}
    renamed = renamed_definitions(earlier, present, positions)
    return {old: DefinitionKey(present.path, new) for old, new in renamed.items()}


def _is_sure(resolution: Resolution) -> bool:
    return resolution.confidence != "possible"


def _use_text(use: Use) -> tuple[str, str, str]:
    """Return the text of a use, without its location."""
    return use.name, use.receiver, use.kind


def _as_use(match: ResolvedImport) -> ResolvedUse:
    """Convert an import to a use of the imported name, at the start of its line."""
    item = match.item
    symbol = enclosing_symbol(match.file, item.line)
    name = item.name if item.name not in ("", "*") else item.module
    use = Use("name", name, "", is_local=False, line=item.line, column=1, symbol=symbol)
    return ResolvedUse(match.file, use, match.resolution)
