"""The verb `grep`: lines of files that match a pattern, read from disk for each answer."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import NoneType

import anyio

from cocosearch_ipc import workspace_protocol as w
from cocosearchd.api import file_references, replies
from cocosearchd.api.index_sync import IndexSync, least_fresh
from cocosearchd.api.missing_indexes import find_missing_indexes
from cocosearchd.api.overlay_sessions import OverlaySessions
from cocosearchd.api.search_requests import asks_all_indexes, searched_indexes
from cocosearchd.errors import InvalidInput
from cocosearchd.forms.path_forms import glob_from_client, path_from_client
from cocosearchd.freshness import Freshness
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.search.grep.file_selection import make_grep_filter
from cocosearchd.search.grep.grep_search import Grep, GrepQuery, IndexMatches, MatchingFile
from cocosearchd.search.grep.line_pattern import LinePattern, check_pattern
from cocosearchd.search.joint.index_sentences import join_names, limit_sentences
from cocosearchd.search.listing.cursors import read_page_cursor, shift_notes
from cocosearchd.search.request_limits import check_range

MODES = ("lines", "counts", "files")
SEARCH_S = 20.0  # for all indexes of a request; the command line waits for a minute
PROBLEMS_SHOWN = 5  # files
FILE_TOKENS = 4  # of the line above the matches of a file, without its path


@dataclass(frozen=True, slots=True)
class _Cursor:
    """The last line, or the last file, of an earlier reply.

    `generation` is the one that the index had then; None before the first page.
    """

    index: str = ""
    path: str = ""
    line: int | None = 0  # None: all of the file has been returned
    generation: int | None = None

    @property
    def first_path(self) -> str:
        """The path at which the reply continues."""
        return f"{self.path}\0" if self.line is None else self.path


@dataclass(frozen=True, slots=True)
class _IndexAnswer:
    """The matches in one index."""

    index: RunningIndex
    matches: IndexMatches


class GrepVerbs:
    """Implements `grep`."""

    def __init__(
        self, indexes: IndexRegistry, overlays: OverlaySessions, sync: IndexSync, grep: Grep
    ) -> None:
        self._indexes = indexes
        self._overlays = overlays
        self._sync = sync
        self._grep = grep

    async def grep(self, request: w.GrepRequest) -> w.GrepReply:
        """Return lines that match a pattern, after every change made before the request."""
        deadline = self._sync.deadline(request.sync_timeout_ms)
        began = anyio.current_time()
        query = _make_query(request)
        cursor = _read_cursor(request.cursor)
        selected = await searched_indexes(self._indexes.lookup, request, needs_vectors=False)
        indexes = tuple(sorted(selected, key=lambda index: index.record.name))
        freshness = least_fresh(indexes, await self._sync.wait_all(indexes, deadline))
        synced = anyio.current_time()
        query = replace(query, files=replace(query.files, changed=frozenset(freshness.pending)))
        answers = await self._search_indexes(request, indexes, query, cursor)
        freshness = _suspect_changes(answers, freshness)
        timings = {
            "sync": (synced - began) * 1000,
            "total": (anyio.current_time() - began) * 1000,
        }
        unmatched = await self._name_unmatched_indexes(request, answers)
        notes = (*unmatched, *_shift_notes(cursor, indexes))
        reply = _reply(request, indexes, answers, freshness, timings, notes)
        if not asks_all_indexes(request):
            return reply
        missing = find_missing_indexes(self._indexes.lookup, needs_vectors=False)
        complete = reply.complete and not missing.sentences
        return missing.mark(replace(reply, complete=complete))

    async def _search_indexes(
        self,
        request: w.GrepRequest,
        indexes: Sequence[RunningIndex],
        query: GrepQuery,
        cursor: _Cursor,
    ) -> list[_IndexAnswer]:
        """Search indexes by name, from the cursor on."""
        end = anyio.current_time() + SEARCH_S
        answers = list[_IndexAnswer]()
        for index in indexes:
            name = index.record.name
            if name < cursor.index:
                continue
            position = cursor if name == cursor.index else _Cursor()
            index_query = replace(
                query,
                files=replace(query.files, first=position.first_path),
                after_line=position.line or 0,
                max_file_bytes=index.settings.indexing.max_file_bytes,
                seconds=max(0.0, end - anyio.current_time()),
            )
            answer = await self._search_index(request, index, index_query)
            answers.append(answer)
            query = _reduce_limits(query, answer.matches.files)
        return answers

    async def _search_index(
        self, request: w.GrepRequest, index: RunningIndex, query: GrepQuery
    ) -> _IndexAnswer:
        """Search one index; `under` is relative to the root if it names indexed files there."""
        record = index.record
        overlay = await self._overlays.overlay(request.session, record, with_vectors=False)
        query = replace(query, files=query.files.relative_to(record.root))
        matches = await self._grep.search(record, index.lexical, query, overlay)
        if query.files.under and not matches.searched:
            reference = await file_references.resolve_directory(
                self._indexes.lookup, request.under, record.name, request.cwd
            )
            if reference is not None:
                query = replace(query, files=replace(query.files, under=reference[1]))
                matches = await self._grep.search(record, index.lexical, query, overlay)
        return _IndexAnswer(index, matches)

    async def _name_unmatched_indexes(
        self, request: w.GrepRequest, answers: Sequence[_IndexAnswer]
    ) -> list[str]:
        """Name the indexes in which no file passes the filters, or the rule that leaves a file out."""
        if not (request.under or request.paths or request.languages):
            return []
        unmatched = [answer.index for answer in answers if not answer.matches.searched]
        is_single = len(unmatched) == len(answers) == 1
        if is_single and (sentence := await self._describe_exclusion(request, unmatched[0])):
            return [sentence]
        names = [index.record.name for index in unmatched]
        return [f"no file of {join_names(names)} passes the filters"] if names else []

    async def _describe_exclusion(self, request: w.GrepRequest, index: RunningIndex) -> str:
        """Return a sentence with the rule that leaves a file out of an index; empty without a rule."""
        under = request.under.removeprefix("./")
        if not under:
            return ""
        path = await file_references.missing_path(self._indexes.lookup, index, under, request.cwd)
        rule = await index.root.exclusions.rule(path)
        return f"{path} is not in {index.record.name}: {rule}" if rule else ""


def _make_query(request: w.GrepRequest) -> GrepQuery:
    """Check a request. Raises `InvalidInput`."""
    pattern = LinePattern(request.pattern, request.fixed, request.ignore_case, request.whole_words)
    check_pattern(pattern)
    if request.mode not in MODES:
        raise InvalidInput(f"unknown mode {request.mode!r}", f"use one of {', '.join(MODES)}")
    check_range("limit", request.limit, 1, w.GREP_MAX_LIMIT)
    check_range("context", request.context, 0, w.GREP_MAX_CONTEXT)
    if request.budget_tokens is not None and request.budget_tokens < 1:
        raise InvalidInput(f"the budget is {request.budget_tokens} tokens", "use 1 or more")
    limit = request.limit
    if request.mode == "lines":
        limit = min(limit, w.GREP_MAX_SHOWN // (1 + 2 * request.context))
    return GrepQuery(
        pattern=pattern,
        files=make_grep_filter(
            path_from_client(request.under.removeprefix("./")).strip("/"),
            languages=request.languages,
            paths=tuple(map(glob_from_client, request.paths)),
            not_paths=tuple(map(glob_from_client, request.not_paths)),
        ),
        max_lines=limit if request.mode == "lines" else 0,
        max_files=limit,
        max_file_bytes=0,
        context=request.context,
        first_only=request.mode == "files",
    )


def _reduce_limits(query: GrepQuery, files: Sequence[MatchingFile]) -> GrepQuery:
    """Return the query for the next index, with the rest of the limits."""
    lines = sum(len(file.lines) for file in files)
    return replace(
        query,
        max_lines=max(0, query.max_lines - lines),
        max_files=max(0, query.max_files - len(files))
        if not query.max_lines or query.max_lines > lines
        else 0,
    )


def _suspect_changes(answers: Sequence[_IndexAnswer], freshness: Freshness) -> Freshness:
    """Report changed files to their roots, and return the freshness after the search."""
    changed_paths = list[str]()
    for answer in answers:
        paths = [file.path for file in answer.matches.files if file.changed]
        answer.index.root.mark_possibly_changed(paths)
        changed_paths += paths
    return freshness.with_changes(changed_paths)


def _reply(
    request: w.GrepRequest,
    indexes: Sequence[RunningIndex],
    answers: Sequence[_IndexAnswer],
    freshness: Freshness,
    timings: dict[str, float],
    notes: Sequence[str],
) -> w.GrepReply:
    files = tuple(
        _file(answer.index.record.name, file) for answer in answers for file in answer.matches.files
    )
    if request.budget_tokens is not None:
        files = _fit(files, request.budget_tokens)
    totals = _total(answers)
    return w.GrepReply(
        files=files,
        total_lines=totals.total_lines,
        total_files=totals.total_files,
        searched_files=totals.searched,
        complete=not totals.problems and not totals.unsearched,
        fresh=freshness.fresh,
        stale_reason=freshness.reason,
        stale_code=freshness.code,
        as_of=replies.as_of(freshness.as_of) if len(indexes) == 1 else None,
        indexes=tuple(index.record.name for index in indexes),
        roots={index.record.name: index.root_text for index in indexes},
        cursor=_make_cursor(files, totals, indexes, has_lines=request.mode == "lines"),
        pending=freshness.pending,
        notes=limit_sentences(
            [
                *(note for answer in answers for note in _notes(answer)),
                *notes,
            ]
        ),
        timings_ms=timings,
    )


def _total(answers: Sequence[_IndexAnswer]) -> IndexMatches:
    """Return the counts of all indexes."""
    matches = [answer.matches for answer in answers]
    return IndexMatches(
        files=(),
        total_lines=sum(part.total_lines for part in matches),
        total_files=sum(part.total_files for part in matches),
        searched=sum(part.searched for part in matches),
        problems=tuple(problem for part in matches for problem in part.problems),
        unsearched=sum(part.unsearched for part in matches),
    )


def _file(index: str, file: MatchingFile) -> w.GrepFile:
    lines = tuple(
        w.GrepLine(
            line=described.line.number,
            column=described.line.column,
            text=described.line.text,
            symbol_type=described.definition.kind if described.definition else None,
            symbol_name=described.definition.name if described.definition else None,
            lines_before=described.line.lines_before,
            lines_after=described.line.lines_after,
        )
        for described in file.lines
    )
    return w.GrepFile(
        index, file.path, file.language, file.count, lines, file.changed, file.overlay
    )


def _fit(files: Sequence[w.GrepFile], budget: int) -> tuple[w.GrepFile, ...]:
    """Return the first files and lines that fit into a budget of tokens, at least one line."""
    fitting = list[w.GrepFile]()
    for file in files:
        budget -= estimate_tokens(file.path) + FILE_TOKENS
        lines = _fitting_lines(file.lines, budget, at_least=0 if fitting else 1)
        if fitting and (budget < 0 or len(lines) < min(1, len(file.lines))):
            break
        fitting.append(replace(file, lines=lines))
        budget -= sum(map(_line_tokens, lines))
        if len(lines) < len(file.lines):
            break
    return tuple(fitting)


def _fitting_lines(
    lines: Sequence[w.GrepLine], budget: int, at_least: int
) -> tuple[w.GrepLine, ...]:
    """Return the first lines that fit into a budget."""
    count = 0
    for line in lines:
        budget -= _line_tokens(line)
        if budget < 0 and count >= at_least:
            break
        count += 1
    return tuple(lines[:count])


def _line_tokens(line: w.GrepLine) -> int:
    symbol = f"  [{line.symbol_name}]" if line.symbol_name else ""
    match = f"{line.line}:{line.column}: {line.text}{symbol}\n"
    context = (f"{line.line}  {text}\n" for text in (*line.lines_before, *line.lines_after))
    return sum(map(estimate_tokens, (match, *context)))


def _notes(answer: _IndexAnswer) -> list[str]:
    """Return sentences about the gaps of an answer."""
    matches = answer.matches
    notes = [f"{path} was not searched: {problem}" for path, problem in matches.problems]
    if len(notes) > PROBLEMS_SHOWN:
        further = len(notes) - PROBLEMS_SHOWN
        notes = [*notes[:PROBLEMS_SHOWN], f"{further} more files were not searched"]
    if matches.unsearched:
        notes.append(
            f"{matches.unsearched} of {matches.searched} files were not searched in time: "
            "a path or a language narrows the search"
        )
    if matches.approximate:
        notes.append(
            f"{matches.approximate} files were searched as stored: bytes that are not UTF-8, and "
            "blanks between chunks, may differ"
        )
    return notes


def _make_cursor(
    files: Sequence[w.GrepFile],
    totals: IndexMatches,
    indexes: Sequence[RunningIndex],
    *,
    has_lines: bool,
) -> str | None:
    """Return a cursor after the last line or file of a reply; None at the end of all matches."""
    line_count = sum(len(file.lines) for file in files)
    is_complete = (
        line_count == totals.total_lines if has_lines else len(files) == totals.total_files
    )
    if is_complete or not files:
        return None
    last = files[-1]
    generation = _generations(indexes)[last.index]
    line = last.lines[-1].line if has_lines else None
    return json.dumps([last.index, last.path, line, generation])


def _read_cursor(cursor: str | None) -> _Cursor:
    if cursor is None:
        return _Cursor()
    values, generation = read_page_cursor(cursor, ((str,), (str,), (int, NoneType)))
    index, path, line = values
    return _Cursor(index, path, line, generation)


def _shift_notes(cursor: _Cursor, indexes: Sequence[RunningIndex]) -> tuple[str, ...]:
    """Return a note if the lines of the cursor's index may have moved since the earlier page."""
    generation = _generations(indexes).get(cursor.index)
    return () if generation is None else shift_notes(cursor.generation, generation)


def _generations(indexes: Sequence[RunningIndex]) -> dict[str, int]:
    return {index.record.name: index.record.generation for index in indexes}
