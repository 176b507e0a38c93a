"""Changed files with their definitions: changed, gone, moved, or with another signature."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from cocosearch_ipc import structure_protocol as s
from cocosearch_ipc.graph_protocol import GraphSymbol
from cocosearchd.api.graph.earlier_code import EarlierCode
from cocosearchd.api.graph.graph_questions import (
    GraphMoment,
    make_definition_entries,
    make_symbol_entry,
)
from cocosearchd.api.graph.structure_pages import is_selected
from cocosearchd.graph.code_files import WHOLE_FILE, CodeFile, CodeFiles, DefinitionKey
from cocosearchd.graph.questions.changed_symbols import Hunk, changed_symbols, shift_hunks
from cocosearchd.graph.questions.question_limits import LimitReached, TimedFiles
from cocosearchd.graph.questions.removed_definitions import (
    RemovalSearch,
    RemovedDefinition,
    changed_signatures,
)
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.watching.git.git_changes import GitChanges, GitFileChange

MAX_SYMBOLS = 100  # of each kind, that are listed of one changed file
REMOVAL_S = 4.0  # for what is gone; what a change affects needs the rest of the time
# Changed files whose definitions are compared; an import of a vendored tree has more.
MAX_CHANGED_FILES = 2_000


@dataclass(frozen=True, slots=True)
class ChangedCode:
    """A changed file with its changed definitions and its removed ones."""

    path: str
    kind: s.ChangeKind
    keys: tuple[DefinitionKey, ...] = ()
    symbols: tuple[GraphSymbol, ...] = ()
    removed: tuple[RemovedDefinition, ...] = ()
    removed_symbols: tuple[s.RemovedSymbol, ...] = ()
    signatures: tuple[s.ChangedSignature, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeComparison:
    """The compared files of a change, by path, and notes about files that were not compared."""

    files: tuple[ChangedCode, ...]
    notes: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def keys(self) -> list[DefinitionKey]:
        """The changed definitions of all files."""
        return [key for file in self.files for key in file.keys]

    @property
    def removed(self) -> list[RemovedDefinition]:
        """The removed definitions of all files."""
        return [definition for file in self.files for definition in file.removed]


@dataclass(frozen=True, slots=True)
class ChangeSource:
    """A change in git. `has_untracked`: files that git does not track count as changed."""

    changes: GitChanges
    earlier: EarlierCode = field(default_factory=EarlierCode)
    has_untracked: bool = False


def compare_changes(moment: GraphMoment, source: ChangeSource) -> ChangeComparison:
    """Compare the changed files that a question selects with their earlier versions."""
    changed = _changed_files(moment.files, source)
    selected = [file for file in changed if is_selected(file.path, moment.target)]
    compared, rest = selected[:MAX_CHANGED_FILES], selected[MAX_CHANGED_FILES:]
    by_path = {change.path: change for change in source.changes.files}
    described = list(_compare_lines(moment.files, compared, by_path))
    files, is_complete = _compare_all_versions(moment, described, source.earlier, changed)
    notes = tuple(_notes(len(rest), source.earlier.unread, is_complete=is_complete))
    return ChangeComparison((*files, *rest), notes, not rest and is_complete)


def _notes(rest: int, unread: int, *, is_complete: bool) -> Iterable[str]:
    if rest:
        yield f"the definitions of {rest:,} further changed files were not compared"
    if unread:
        yield f"the earlier text of {unread:,} changed files was not compared"
    if not is_complete:
        yield "more definitions are gone, or used, than were looked for"


def _changed_files(files: CodeFiles, source: ChangeSource) -> list[ChangedCode]:
    """Return the changed files by path, with new files that git does not track."""
    changes = source.changes
    changed = {change.path: ChangedCode(change.path, change.kind) for change in changes.files}
    if source.has_untracked:
        for path in files.paths():
            if path not in changes.tracked and path not in changed:
                changed[path] = ChangedCode(path, "untracked")
    return [changed[path] for path in sorted(changed)]


def _compare_lines(
    files: CodeFiles, changed: Sequence[ChangedCode], changes: Mapping[str, GitFileChange]
) -> Iterable[ChangedCode]:
    """Add the changed definitions to files; modified files without changed lines are left out."""
    loaded = files.load([file.path for file in changed])
    for changed_file in changed:
        file = loaded.get(changed_file.path)
        change = changes.get(changed_file.path)
        if change is not None and change.hunks == ():
            continue
        if file is None or changed_file.kind == "deleted":
            yield changed_file
            continue
        positions: Sequence[int] = (WHOLE_FILE, *range(len(file.symbols)))
        if change is not None and change.hunks is not None:
            hunks = shift_hunks([Hunk(*hunk) for hunk in change.hunks], _hunks(change))
            positions = changed_symbols(file, hunks)
        keys = tuple(DefinitionKey(changed_file.path, position) for position in positions)
        symbols = tuple(_symbol_of(file, key) for key in keys[:MAX_SYMBOLS])
        yield replace(changed_file, keys=keys, symbols=symbols)


def _compare_all_versions(
    moment: GraphMoment,
    described: Sequence[ChangedCode],
    earlier: EarlierCode,
    changed: Sequence[ChangedCode],
) -> tuple[list[ChangedCode], bool]:
    """Add removed definitions to files; the second value is False if the time was not enough."""
    end = monotonic() + REMOVAL_S
    files = TimedFiles(moment.files, lambda: monotonic() > end)
    paths = [file.path for file in changed]
    search = RemovalSearch(files, moment.resolver, Resolver, earlier.files, paths)
    compared = list[ChangedCode]()
    try:
        for changed_file in described:
            compared.append(_compare_versions(files, changed_file, earlier, search))
    except LimitReached:
        return [*compared, *described[len(compared) :]], False
    return compared, search.is_complete


def _compare_versions(
    files: CodeFiles, changed_file: ChangedCode, earlier: EarlierCode, search: RemovalSearch
) -> ChangedCode:
    """Add the removed definitions of a file, and its changed signatures."""
    version = earlier.files.get(changed_file.path)
    present = files.load([changed_file.path]).get(changed_file.path)
    if version is None or (
        present is None and changed_file.kind != "deleted"
    ):  # the file is not indexed
        return changed_file
    removed = search.find(changed_file.path)
    signatures = changed_signatures(version.file, present) if present is not None else ()
    return replace(
        changed_file,
        removed=removed,
        removed_symbols=tuple(_removed_entry(files, entry) for entry in removed[:MAX_SYMBOLS]),
        signatures=tuple(
            s.ChangedSignature(
                _symbol_of(present, DefinitionKey(changed_file.path, signature.position)),
                signature.earlier_signature,
            )
            for signature in signatures
            if present is not None
        ),
    )


def _removed_entry(files: CodeFiles, removed: RemovedDefinition) -> s.RemovedSymbol:
    moved = make_definition_entries(files, [removed.moved_to] if removed.moved_to else [])
    symbol = make_symbol_entry(removed.key.path, removed.language, removed.symbol)
    return s.RemovedSymbol(symbol, len(removed.uses), moved[0] if moved else None)


def _symbol_of(file: CodeFile, key: DefinitionKey) -> GraphSymbol:
    symbol = None if key.position == WHOLE_FILE else file.symbols[key.position]
    return make_symbol_entry(file.path, file.language, symbol)


def _hunks(change: GitFileChange) -> Sequence[Hunk]:
    return [Hunk(*hunk) for hunk in change.hunks_to_disk]
