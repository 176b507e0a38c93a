"""Verbs about the impact of changes: of a definition or a file, and of changed lines in git."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cocosearch_ipc import structure_protocol as s
from cocosearch_ipc.graph_protocol import MAX_DEPTH, GraphSymbol
from cocosearchd.api.graph.changed_files import (
    MAX_SYMBOLS,
    ChangedCode,
    ChangeSource,
    compare_changes,
)
from cocosearchd.api.graph.earlier_code import EarlierCodeReader
from cocosearchd.api.graph.graph_questions import (
    GraphMoment,
    GraphQuestions,
    definition_notes,
    fit_entries,
    make_definition_entries,
    make_reply_fields,
    make_symbol_entry,
)
from cocosearchd.api.graph.structure_pages import is_selected, passing_paths
from cocosearchd.errors import InvalidInput, Refused
from cocosearchd.filters.filter_fields import Filter, PathAndLanguage, file_passes
from cocosearchd.graph.code_files import DefinitionKey
from cocosearchd.graph.questions.impact import AffectedDefinition, Impact, ImpactBounds, find_impact
from cocosearchd.graph.questions.removed_definitions import RemovedDefinition
from cocosearchd.graph.questions.target import Target
from cocosearchd.graph.questions.target_search import find_target_definitions
from cocosearchd.graph.resolution.reasons import REASONS
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.search.listing.cursors import MAX_NUMBER, read_page_start, write_page_start
from cocosearchd.search.request_limits import check_range
from cocosearchd.watching.git.git_changes import read_changes
from cocosearchd.watching.git.git_command import GitRefused, GitUnresponsive
from cocosearchd.watching.git.object_reader import NoRepository, UnknownRevision

MAX_TEST_FILES = 200
SUMMARY_TOKENS = 80  # the first line of an answer, its notes and the headings of distances


@dataclass(frozen=True, slots=True)
class _Finding:
    """The findings of a question. `changed` is empty for `impact`, which has `definitions`."""

    impact: Impact
    definitions: tuple[GraphSymbol, ...] = ()
    changed: tuple[ChangedCode, ...] = ()
    notes: tuple[str, ...] = ()


class ImpactVerbs:
    """Implements `impact` and `changes`."""

    def __init__(self, questions: GraphQuestions, earlier_code: EarlierCodeReader) -> None:
        self._questions = questions
        self._earlier_code = earlier_code

    async def impact(self, request: s.ImpactRequest) -> s.ImpactReply:
        """Return the definitions that a change of a definition or a file affects, and the tests."""
        check_range("depth", request.depth, 1, MAX_DEPTH)
        start = read_page_start(request.cursor, MAX_NUMBER)
        answer = await self._questions.ask(request, partial(_find_impact, request))
        finding = answer.value
        return s.ImpactReply(
            **make_reply_fields(answer),
            complete=finding.impact.complete,
            notes=(*finding.notes, *start.shift_notes(answer.generation)),
            definitions=finding.definitions,
            **_affected_fields(request, finding.impact, start.offset, answer.generation),
        )

    async def changes(self, request: s.ChangesRequest) -> s.ChangesReply:
        """Return the changed definitions of a change in git, the affected ones, and tests to run."""
        check_range("depth", request.depth, 1, MAX_DEPTH)
        start = read_page_start(request.cursor, MAX_NUMBER)
        selection = await self._questions.ask(request, _read_target)
        index = selection.index
        source = await self._read_source(index, selection.value, request.revisions)
        request = replace(request, index=index.record.name)
        answer = await self._questions.ask(request, partial(_find_changes, request, source))
        finding = answer.value
        return s.ChangesReply(
            **make_reply_fields(answer),
            complete=finding.impact.complete,
            notes=(
                *finding.notes,
                *_untracked_note(source),
                *start.shift_notes(answer.generation),
            ),
            base=source.changes.base,
            head=source.changes.head,
            changed=tuple(map(_changed_entry, finding.changed[: request.limit])),
            total_changed=len(finding.changed),
            **_affected_fields(request, finding.impact, start.offset, answer.generation),
        )

    async def _read_source(
        self, index: RunningIndex, target: Target, revisions: str
    ) -> ChangeSource:
        """Read a change from git, with the earlier versions of its files."""
        with _git_errors(index):
            changes = await index.own_root.git_threads.run(
                read_changes, index.record.root, revisions
            )
            selected = [change for change in changes.files if is_selected(change.path, target)]
            earlier = await self._earlier_code.read(index, changes, selected)
        has_untracked = changes.head is None and index.settings.indexing.respect_gitignore
        return ChangeSource(changes, earlier, has_untracked)


def _read_target(moment: GraphMoment) -> Target:
    """Return the target of a question: the first question only selects and syncs the index."""
    return moment.target


@contextmanager
def _git_errors(index: RunningIndex) -> Iterator[None]:
    """Convert errors of git. Raises `InvalidInput` and `Refused`."""
    try:
        yield
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
    definitions = find_target_definitions(moment.files, moment.resolver, moment.target)
    # made first: no file is read any more once the time is over
    entries = make_definition_entries(moment.files, definitions.keys)
    impact = _search(request, moment, definitions.keys)
    notes = (*definitions.notes, *definition_notes(definitions.keys))
    return _Finding(impact, entries, notes=notes)


def _find_changes(request: s.ChangesRequest, source: ChangeSource, moment: GraphMoment) -> _Finding:
    """Find what a change affects. A filter selects what the answer names, not the change itself."""
    comparison = compare_changes(moment, source)
    paths = [file.path for file in comparison.files]
    passing = frozenset(passing_paths(moment.where, paths, moment.languages))
    changed = tuple(file for file in comparison.files if file.path in passing)
    impact = _search(request, moment, comparison.keys, comparison.removed)
    return _Finding(
        replace(impact, complete=impact.complete and comparison.is_complete),
        changed=changed,
        notes=(*comparison.notes, *_filter_note(len(paths) - len(changed))),
    )


def _filter_note(count: int) -> tuple[str, ...]:
    """Return a note about changed files that a filter leaves out."""
    if not count:
        return ()
    files = "file does" if count == 1 else "files do"
    return (f"{count:,} further changed {files} not pass the filters",)


def _search(
    request: s.ImpactRequest | s.ChangesRequest,
    moment: GraphMoment,
    keys: Sequence[DefinitionKey],
    removed: Sequence[RemovedDefinition] = (),
) -> Impact:
    """Find the affected definitions in the files that pass the filters of a request."""
    bounds = ImpactBounds(request.depth, request.min_confidence, moment.is_over)
    impact = find_impact(moment.files, moment.resolver, keys, bounds, removed)
    if moment.where == Filter():
        return impact
    passing = (
        affected
        for affected in impact.affected
        if file_passes(moment.where, PathAndLanguage(affected.key.path, affected.language))
    )
    return replace(impact, affected=tuple(passing))


def _affected_fields(
    request: s.ImpactRequest | s.ChangesRequest, impact: Impact, offset: int, generation: int
) -> dict[str, Any]:
    """Return the fields that both replies share: the affected definitions from `offset` on."""
    test_files = list(dict.fromkeys(item.key.path for item in impact.affected if item.is_test))
    named_tests = _fit_test_files(test_files[:MAX_TEST_FILES], request.budget_tokens)
    page = list(map(_affected_entry, impact.affected[offset : offset + request.limit]))
    fitting = fit_entries(page, _room_beside(named_tests, request.budget_tokens), _affected_text)
    end = offset + len(fitting)
    return {
        "affected": fitting,
        "total": len(impact.affected),
        "total_files": len({affected.key.path for affected in impact.affected}),
        "distances": {str(distance): count for distance, count in impact.distances.items()},
        "test_files": named_tests,
        "total_test_files": len(test_files),
        "cursor": write_page_start(end, generation) if end < len(impact.affected) else None,
    }


def _fit_test_files(paths: Sequence[str], budget: int | None) -> tuple[str, ...]:
    """Return the first files with tests whose names take at most a third of a budget."""
    return fit_entries(paths, None if budget is None else budget // 3, _line_of_path)


def _room_beside(test_files: Sequence[str], budget: int | None) -> int | None:
    """Return the tokens that the tests leave of a budget for affected definitions."""
    if budget is None:
        return None
    return budget - SUMMARY_TOKENS - sum(map(estimate_tokens, map(_line_of_path, test_files)))


def _line_of_path(path: str) -> str:
    return f"  {path}\n"


def _affected_text(entry: s.AffectedEntry) -> str:
    """Return roughly the text that front ends show for an entry."""
    symbol = entry.symbol
    doubt = "" if entry.confidence == "certain" else f"  {entry.confidence}: {entry.explanation}"
    definition = f"  {symbol.path}:{symbol.start_line}  {symbol.kind} {symbol.name}"
    return f"{definition}  uses {entry.via} at {entry.line}{doubt}\n"


def _affected_entry(affected: AffectedDefinition) -> s.AffectedEntry:
    entry = make_symbol_entry(affected.key.path, affected.language, affected.symbol)
    return s.AffectedEntry(
        symbol=entry,
        distance=affected.distance,
        confidence=affected.confidence,
        reason=affected.reason,
        explanation=REASONS[affected.reason].sentence,
        via=affected.via_name,
        line=affected.use_location.line,
        column=affected.use_location.column,
        is_test=affected.is_test,
        broken=affected.is_broken,
    )


def _changed_entry(file: ChangedCode) -> s.ChangedFile:
    return s.ChangedFile(
        path=file.path,
        kind=file.kind,
        symbols=file.symbols,
        symbol_count=len(file.keys),
        removed=file.removed_symbols,
        removed_count=len(file.removed),
        signatures=file.signatures[:MAX_SYMBOLS],
        signature_count=len(file.signatures),
    )


def _untracked_note(source: ChangeSource) -> tuple[str, ...]:
    if source.has_untracked or source.changes.head is not None:
        return ()
    note = "files that git does not track are not listed, as ignored files are indexed here too"
    return (note,)
