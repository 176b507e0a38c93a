"""Verbs about uses: `definition`, `references`, `callers` and `callees`, as of this moment."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from cocosearch_ipc import graph_protocol as g
from cocosearch_ipc.graph_vocabulary import CONFIDENCES, REFERENCE_KINDS
from cocosearchd.api.graph.graph_questions import (
    MAX_DEFINITIONS,
    GraphAnswer,
    GraphMoment,
    GraphQuestions,
    definition_notes,
    fit_entries,
    make_definition_entries,
    make_reply_fields,
    make_symbol_entry,
)
from cocosearchd.api.graph.line_texts import FileLines, LineTexts, clip_around_column
from cocosearchd.errors import InvalidInput
from cocosearchd.graph.code_files import CodeFiles, DefinitionKey
from cocosearchd.graph.questions import calls, name_meanings, reference_pages
from cocosearchd.graph.questions.question_limits import IsOver
from cocosearchd.graph.questions.target_search import find_target_definitions
from cocosearchd.graph.resolution.reasons import REASONS
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.search.listing.cursors import (
    PageStart,
    read_page_cursor,
    read_page_start,
    shift_notes,
    write_page_start,
)
from cocosearchd.search.request_limits import check_range

_PARTIAL = "the time was not enough for all of them: a path or a language narrows the question"
_NAMED_SENTENCE = "it is the definition itself"
_WORD = r"(?<!\w){}(?!\w)"


@dataclass(frozen=True, slots=True)
class _Meanings:
    """The definitions of a target, for a reply."""

    path: str
    names: tuple[g.ResolvedName, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class _Uses:
    """The references of a target."""

    definitions: tuple[g.GraphSymbol, ...]
    notes: tuple[str, ...]
    page: reference_pages.ReferencePage


@dataclass(frozen=True, slots=True)
class _EarlierPage:
    """The last reference of an earlier page, and the generation of the index then."""

    last: reference_pages.ReferenceLocation | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class _Calls:
    """The tree of calls of a target."""

    definitions: tuple[g.GraphSymbol, ...]
    notes: tuple[str, ...]
    tree: calls.CallTree


FindCalls = Callable[
    [CodeFiles, Resolver, Sequence[DefinitionKey], calls.CallQuery, IsOver], calls.CallTree
]


class ReferenceVerbs:
    """Implements the verbs about definitions and their uses."""

    def __init__(self, questions: GraphQuestions, texts: LineTexts) -> None:
        self._questions = questions
        self._texts = texts

    async def definition(self, request: g.DefinitionRequest) -> g.DefinitionReply:
        """Return the definition of a name, or of the name that is used at a location."""
        answer = await self._questions.ask(request, _find_meanings)
        meanings = answer.value
        names = fit_entries(meanings.names[: request.limit], request.budget_tokens, _name_text)
        is_complete = meanings.is_complete and len(names) == len(meanings.names)
        return g.DefinitionReply(
            **make_reply_fields(answer),
            complete=is_complete,
            notes=() if is_complete else ("there are more: a location with a column names one",),
            path=meanings.path,
            names=names,
        )

    async def references(self, request: g.ReferencesRequest) -> g.ReferencesReply:
        """Return all uses of a definition, page by page, with their number."""
        earlier = _read_location(request.cursor)
        query = reference_pages.ReferenceQuery(
            kinds=_check_kinds(request.kinds),
            min_confidence=request.min_confidence,
            limit=request.limit,
            counts_all=request.count_all,
            after=earlier.last,
        )
        answer = await self._questions.ask(request, partial(_find_uses, query))
        return await self._references_reply(request, answer, earlier)

    async def callers(self, request: g.CallsRequest) -> g.CallsReply:
        """Return the functions that call a function, and their callers, to a depth."""
        return await self._calls(request, calls.find_callers)

    async def callees(self, request: g.CallsRequest) -> g.CallsReply:
        """Return the functions that a function calls, and what these call, to a depth."""
        return await self._calls(request, calls.find_callees)

    async def _references_reply(
        self, request: g.ReferencesRequest, answer: GraphAnswer[_Uses], earlier: _EarlierPage
    ) -> g.ReferencesReply:
        page = answer.value.page
        locations = [
            (reference.location.path, reference.location.line) for reference in page.references
        ]
        texts = await self._read_lines(answer, locations)
        changed_paths = [path for path, lines in texts.items() if lines.changed]
        answer = answer.with_changes(changed_paths)
        entries = [
            _reference(reference, texts[reference.location.path]) for reference in page.references
        ]
        rows = list(zip(page.references, entries, strict=True))
        fitting = fit_entries(rows, request.budget_tokens, _reference_text)
        is_last = page.is_last and len(fitting) == len(rows)
        return g.ReferencesReply(
            **make_reply_fields(answer),
            complete=page.is_complete,
            cursor=None if is_last else _write_location(fitting[-1][0].location, answer.generation),
            notes=(
                *answer.value.notes,
                *(() if page.is_complete else (_PARTIAL,)),
                *shift_notes(earlier.generation, answer.generation),
            ),
            definitions=answer.value.definitions,
            files=tuple(_group_by_file(fitting, page.file_counts, texts)),
            total=sum(page.counts.values()),
            total_files=len(page.file_counts),
            counts={name: page.counts[name] for name in CONFIDENCES if name in page.counts},
            unread_files=page.unread_files,
        )

    async def _calls(self, request: g.CallsRequest, find_calls: FindCalls) -> g.CallsReply:
        check_range("depth", request.depth, 1, g.MAX_DEPTH)
        start = read_page_start(request.cursor, calls.MAX_ENTRIES)

        def find(moment: GraphMoment) -> _Calls:
            query = calls.CallQuery(
                moment.where, request.min_confidence, request.depth, request.limit, start.offset
            )
            target = find_target_definitions(moment.files, moment.resolver, moment.target)
            # made first: no file is read any more once the time is over
            entries = make_definition_entries(moment.files, target.keys)
            tree = find_calls(moment.files, moment.resolver, target.keys, query, moment.is_over)
            return _Calls(entries, (*target.notes, *definition_notes(target.keys)), tree)

        answer = await self._questions.ask(request, find)
        return await self._calls_reply(request, answer, start)

    async def _calls_reply(
        self, request: g.CallsRequest, answer: GraphAnswer[_Calls], start: PageStart
    ) -> g.CallsReply:
        tree = answer.value.tree
        locations = [(site.path, site.line) for node in tree.nodes for site in node.sites]
        texts = await self._read_lines(answer, locations)
        answer = answer.with_changes([path for path, lines in texts.items() if lines.changed])
        entries = [_call_entry(*row, texts) for row in enumerate(tree.nodes, start.offset)]
        fitting = fit_entries(entries, request.budget_tokens, _call_text)
        is_last = tree.is_last and len(fitting) == len(entries)
        return g.CallsReply(
            **make_reply_fields(answer),
            complete=tree.is_complete,
            cursor=None
            if is_last
            else write_page_start(start.offset + len(fitting), answer.generation),
            notes=(
                *answer.value.notes,
                *_call_notes(tree),
                *start.shift_notes(answer.generation),
            ),
            definitions=answer.value.definitions,
            calls=fitting,
            total=tree.total,
            external=tree.external,
        )

    async def _read_lines(
        self,
        answer: GraphAnswer[_Uses] | GraphAnswer[_Calls],
        locations: Iterable[tuple[str, int]],
    ) -> dict[str, FileLines]:
        lines = dict[str, set[int]]()
        for path, line in locations:
            lines.setdefault(path, set()).add(line)
        record = answer.index.record
        return await self._texts.read(record, answer.overlay, lines, answer.generation)


def _find_uses(query: reference_pages.ReferenceQuery, moment: GraphMoment) -> _Uses:
    target = find_target_definitions(moment.files, moment.resolver, moment.target)
    # made first: no file is read any more once the time is over
    entries = make_definition_entries(moment.files, target.keys)
    page = reference_pages.find_references(
        moment.files,
        moment.resolver,
        target.keys,
        replace(query, where=moment.where),
        moment.is_over,
    )
    return _Uses(entries, (*target.notes, *definition_notes(target.keys)), page)


def _find_meanings(moment: GraphMoment) -> _Meanings:
    meanings = name_meanings.find_meanings(
        moment.files, moment.resolver, moment.target, moment.where
    )
    names = tuple(
        g.ResolvedName(
            name=meaning.name,
            line=meaning.line,
            column=meaning.column,
            definitions=make_definition_entries(moment.files, meaning.keys),
            confidence=meaning.confidence,
            reason=meaning.reason,
            explanation=_explain(meaning.reason),
        )
        for meaning in meanings.names
    )
    is_complete = all(len(meaning.keys) <= MAX_DEFINITIONS for meaning in meanings.names)
    return _Meanings(meanings.path, names, meanings.is_complete and is_complete)


def _explain(reason: str) -> str:
    return _NAMED_SENTENCE if reason == name_meanings.NAMED else REASONS[reason].sentence


def _reference(reference: reference_pages.FoundReference, lines: FileLines) -> g.Reference:
    location = reference.location
    text = lines.lines.get(location.line, "")
    column = location.column or _find_column(text, location.name)
    return g.Reference(
        line=location.line,
        column=column,
        text=clip_around_column(text, column),
        kind=location.kind,
        confidence=reference.confidence,
        reason=reference.reason,
        explanation=_explain(reference.reason),
        symbol_type=reference.symbol.kind if reference.symbol else None,
        symbol_name=reference.symbol.qualified_name if reference.symbol else None,
    )


def _find_column(text: str, name: str) -> int:
    """Return the column of a name in a line: the facts of an import have only the line."""
    match = re.search(_WORD.format(re.escape(name)), text)
    return match.start() + 1 if match else 1


def _group_by_file(
    rows: Iterable[tuple[reference_pages.FoundReference, g.Reference]],
    counts: Mapping[str, int],
    texts: Mapping[str, FileLines],
) -> Iterable[g.ReferenceFile]:
    for path, group in groupby(rows, key=lambda row: row[0].location.path):
        file_rows = list(group)
        yield g.ReferenceFile(
            path=path,
            language=file_rows[0][0].language,
            count=counts[path],
            references=tuple(entry for _, entry in file_rows),
            changed=texts[path].changed,
            overlay=texts[path].overlay,
        )


def _call_entry(position: int, node: calls.CallNode, texts: Mapping[str, FileLines]) -> g.CallEntry:
    sites = tuple(
        g.CallSite(
            site.path,
            site.line,
            site.column,
            clip_around_column(texts[site.path].lines.get(site.line, ""), site.column),
        )
        for site in node.sites
    )
    return g.CallEntry(
        symbol=make_symbol_entry(node.key.path, node.language, node.symbol),
        position=position,
        depth=node.depth,
        parent=node.parent,
        confidence=node.confidence,
        reason=node.reason,
        explanation=_explain(node.reason),
        sites=sites,
        site_count=node.site_count,
        repeats=node.first_occurrence,
        is_cycle=node.is_cycle,
    )


def _call_notes(tree: calls.CallTree) -> Iterator[str]:
    if not tree.is_complete:
        yield _PARTIAL
    if tree.other_uses and not tree.total:
        uses = "1 use" if tree.other_uses == 1 else f"{tree.other_uses} uses"
        yield f"{uses} without a call, for example passed on: `references` shows where"


def _name_text(name: g.ResolvedName) -> str:
    definitions = (
        f"{definition.path}:{definition.start_line} {definition.signature}"
        for definition in name.definitions
    )
    return "\n".join((name.name, *definitions))


def _reference_text(row: tuple[reference_pages.FoundReference, g.Reference]) -> str:
    location, entry = row[0].location, row[1]
    return f"{location.line}:{entry.column}: {entry.text}  [{entry.symbol_name}]\n"


def _call_text(entry: g.CallEntry) -> str:
    sites = (f"{site.path}:{site.line} {site.text}" for site in entry.sites)
    return "\n".join((entry.symbol.name, entry.symbol.path, *sites))


def _check_kinds(kinds: Sequence[str]) -> frozenset[str]:
    unknown = sorted(set(kinds) - set(REFERENCE_KINDS))
    if unknown:
        raise InvalidInput(
            f"unknown kind of use {unknown[0]!r}", f"use some of {', '.join(REFERENCE_KINDS)}"
        )
    return frozenset(kinds)


def _write_location(location: reference_pages.ReferenceLocation, generation: int) -> str:
    return json.dumps([*location, generation])


def _read_location(cursor: str | None) -> _EarlierPage:
    """Read a cursor of references. Raises `InvalidInput`."""
    if cursor is None:
        return _EarlierPage()
    kinds = ((bool,), (str,), (int,), (int,), (str,), (str,))
    location, generation = read_page_cursor(cursor, kinds)
    return _EarlierPage(reference_pages.ReferenceLocation(*location), generation)
