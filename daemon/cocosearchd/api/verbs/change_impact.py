"""Verbs about the impact of changes: of a definition or a file, and of changed lines in git."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cocosearch_ipc import structure_protocol as s
from cocosearch_ipc.graph_protocol import MAX_DEPTH, GraphSymbol
from cocosearchd.api.graph.graph_questions import (
    GraphMoment,
    GraphQuestions,
    fit_budget,
    make_definition_entries,
    make_reply_fields,
    make_symbol_entry,
)
from cocosearchd.api.graph.structure_pages import check_range, is_selected, read_offset
from cocosearchd.errors import InvalidInput, Refused
from cocosearchd.filters.filter_fields import Filter, PathAndLanguage, file_passes
from cocosearchd.graph.code_files import WHOLE_FILE, CodeFile, CodeFiles, DefinitionKey
from cocosearchd.graph.questions.changed_symbols import Hunk, changed_symbols, shift_hunks
from cocosearchd.graph.questions.impact import Affected, Impact, ImpactBounds, find_impact
from cocosearchd.graph.questions.target_search import find_definitions
from cocosearchd.graph.resolution.reasons import REASONS
from cocosearchd.indexes.config_sync import RunningIndex
from cocosearchd.watching.git.git_changes import (
    GitChanges,
    GitFileChange,
    NoRepository,
    UnknownRevision,
    read_changes,
)
from cocosearchd.watching.git.git_command import GitRefused, GitUnresponsive

MAX_TEST_FILES = 200
MAX_SYMBOLS = 100  # that are listed of one changed file
# Changed files whose definitions are compared; an import of a vendored tree has more.
MAX_CHANGED_FILES = 2_000


@dataclass(frozen=True, slots=True)
class _Changed:
    """A changed file with its changed definitions."""

    path: str
    kind: s.ChangeKind
    keys: tuple[DefinitionKey, ...] = ()
    symbols: tuple[GraphSymbol, ...] = ()


@dataclass(frozen=True, slots=True)
class _Finding:
    """The findings of a question. `changed` is empty for `impact`, which has `definitions`."""

    impact: Impact
    definitions: tuple[GraphSymbol, ...] = ()
    changed: tuple[_Changed, ...] = ()
    notes: tuple[str, ...] = ()


class ImpactVerbs:
    """Implements `impact` and `changes`."""

    def __init__(self, questions: GraphQuestions) -> None:
        self._questions = questions

    async def impact(self, request: s.ImpactRequest) -> s.ImpactReply:
        """All that a change of a definition or a file affects, with the tests among it."""
        check_range("depth", request.depth, 1, MAX_DEPTH)
        offset = read_offset(request.cursor)
        answer = await self._questions.ask(request, partial(_find_impact, request))
        finding = answer.value
        return s.ImpactReply(
            **make_reply_fields(answer),
            complete=finding.impact.complete,
            notes=finding.notes,
            definitions=finding.definitions,
            **_affected_fields(request, finding.impact, offset),
        )

    async def changes(self, request: s.ChangesRequest) -> s.ChangesReply:
        """The definitions that a change in git touches, what it affects, and the tests to run."""
        check_range("depth", request.depth, 1, MAX_DEPTH)
        offset = read_offset(request.cursor)
        selection = await self._questions.ask(request, _select_nothing)
        index = selection.index
        changes = await _read_changes(index, request.revisions)
        has_untracked = changes.head is None and index.settings.indexing.respect_gitignore
        request = replace(request, index=index.record.name)
        answer = await self._questions.ask(
            request, partial(_find_changes, request, changes, has_untracked)
        )
        finding = answer.value
        return s.ChangesReply(
            **make_reply_fields(answer),
            complete=finding.impact.complete,
            notes=(*finding.notes, *_untracked_note(changes, has_untracked=has_untracked)),
            base=changes.base,
            head=changes.head,
            changed=tuple(map(_changed_entry, finding.changed[: request.limit])),
            total_changed=len(finding.changed),
            **_affected_fields(request, finding.impact, offset),
        )


def _select_nothing(moment: GraphMoment) -> None:
    """Ask for nothing but the index and its freshness."""


async def _read_changes(index: RunningIndex, revisions: str) -> GitChanges:
    """Ask git for changes. Raises `InvalidInput` and `Refused`."""
    try:
        return await index.root.threads.run(read_changes, index.record.root, revisions)
    except UnknownRevision as error:
        raise InvalidInput(
            str(error), "use a commit, as in HEAD~3, or a range, as in main..HEAD"
        ) from error
    except NoRepository as error:
        raise InvalidInput(
            f"{index.record.name} is in no git repository",
            "ask for the impact of a definition or a file instead",
        ) from error
    except (GitRefused, GitUnresponsive) as error:
        raise Refused(
            f"git does not compare the files: {error}", "try again, or look there"
        ) from error


def _find_impact(request: s.ImpactRequest, moment: GraphMoment) -> _Finding:
    definitions = find_definitions(moment.files, moment.resolver, moment.target)
    return _Finding(
        _search(request, moment, definitions.keys),
        make_definition_entries(moment.files, definitions.keys),
        notes=definitions.notes,
    )


def _find_changes(
    request: s.ChangesRequest, changes: GitChanges, has_untracked: bool, moment: GraphMoment
) -> _Finding:
    changed = _changed_files(moment.files, changes, has_untracked=has_untracked)
    selected = [file for file in changed if is_selected(file.path, moment.target)]
    compared = selected[:MAX_CHANGED_FILES]
    by_path = {change.path: change for change in changes.files}
    described = tuple(_compare(moment.files, compared, by_path))
    keys = [key for file in described for key in file.keys]
    impact = _search(request, moment, keys)
    rest = selected[MAX_CHANGED_FILES:]
    note = f"the definitions of {len(rest):,} further changed files were not compared"
    return _Finding(
        replace(impact, complete=impact.complete and not rest),
        changed=(*described, *rest),
        notes=(note,) if rest else (),
    )


def _search(
    request: s.ImpactRequest | s.ChangesRequest,
    moment: GraphMoment,
    keys: Sequence[DefinitionKey],
) -> Impact:
    """Find what changed definitions affect, in the files that pass the filters of a request."""
    bounds = ImpactBounds(request.depth, request.min_confidence, moment.is_over)
    impact = find_impact(moment.files, moment.resolver, keys, bounds)
    if moment.where == Filter():
        return impact
    passing = (
        item
        for item in impact.affected
        if file_passes(moment.where, PathAndLanguage(item.key.path, item.language))
    )
    return replace(impact, affected=tuple(passing))


def _changed_files(files: CodeFiles, changes: GitChanges, *, has_untracked: bool) -> list[_Changed]:
    """Return the changed files by path, with new files that git does not track."""
    changed = {change.path: _Changed(change.path, change.kind) for change in changes.files}
    if has_untracked:
        for path in files.paths():
            if path not in changes.tracked and path not in changed:
                changed[path] = _Changed(path, "untracked")
    return [changed[path] for path in sorted(changed)]


def _compare(
    files: CodeFiles, changed: Sequence[_Changed], changes: Mapping[str, GitFileChange]
) -> Iterable[_Changed]:
    """Add the changed definitions to files; modified files without changed lines are left out."""
    loaded = files.load([file.path for file in changed])
    for item in changed:
        file = loaded.get(item.path)
        change = changes.get(item.path)
        if change is not None and change.hunks == ():
            continue
        if file is None or item.kind == "deleted":
            yield item
            continue
        positions: Sequence[int] = (WHOLE_FILE, *range(len(file.symbols)))
        if change is not None and change.hunks is not None:
            hunks = shift_hunks([Hunk(*hunk) for hunk in change.hunks], _hunks(change))
            positions = changed_symbols(file, hunks)
        keys = tuple(DefinitionKey(item.path, position) for position in positions)
        symbols = tuple(_symbol_of(file, key) for key in keys[:MAX_SYMBOLS])
        yield replace(item, keys=keys, symbols=symbols)


def _symbol_of(file: CodeFile, key: DefinitionKey) -> GraphSymbol:
    symbol = None if key.symbol == WHOLE_FILE else file.symbols[key.symbol]
    return make_symbol_entry(file.path, file.language, symbol)


def _hunks(change: GitFileChange) -> Sequence[Hunk]:
    return [Hunk(*hunk) for hunk in change.later]


def _affected_fields(
    request: s.ImpactRequest | s.ChangesRequest, impact: Impact, offset: int
) -> dict[str, Any]:
    """Return the fields that both replies share."""
    test_files = list(dict.fromkeys(item.key.path for item in impact.affected if item.is_test))
    page = list(map(_affected_entry, impact.affected[offset : offset + request.limit]))
    fitting = fit_budget(page, request.budget_tokens, _affected_text)
    end = offset + len(fitting)
    return {
        "affected": fitting,
        "total": len(impact.affected),
        "total_files": len({item.key.path for item in impact.affected}),
        "distances": {str(distance): count for distance, count in impact.distances.items()},
        "test_files": tuple(test_files[:MAX_TEST_FILES]),
        "total_test_files": len(test_files),
        "cursor": str(end) if end < len(impact.affected) else None,
    }


def _affected_text(entry: s.AffectedEntry) -> str:
    symbol = entry.symbol
    return f"{symbol.path}:{symbol.start_line}  {symbol.kind} {symbol.name}  uses {entry.via}\n"


def _affected_entry(item: Affected) -> s.AffectedEntry:
    entry = make_symbol_entry(item.key.path, item.language, item.symbol)
    return s.AffectedEntry(
        symbol=entry,
        distance=item.distance,
        confidence=item.confidence,
        reason=item.reason,
        explanation=REASONS[item.reason].sentence,
        via=item.via_name,
        line=item.use_place.line,
        column=item.use_place.column,
        is_test=item.is_test,
    )


def _changed_entry(file: _Changed) -> s.ChangedFile:
    return s.ChangedFile(file.path, file.kind, file.symbols, len(file.keys))


def _untracked_note(changes: GitChanges, *, has_untracked: bool) -> tuple[str, ...]:
    if has_untracked or changes.head is not None:
        return ()
    note = "files that git does not track are not listed, as ignored files are indexed here too"
    return (note,)
