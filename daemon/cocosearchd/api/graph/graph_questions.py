"""Questions about the code graph of one index: they run in a thread, in bounded time.

All verbs about the graph go through `GraphQuestions.ask`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from cocosearch_ipc import graph_protocol as g
from cocosearch_ipc.graph_vocabulary import CONFIDENCES
from cocosearchd.api import file_references, replies
from cocosearchd.api.graph.nearest_names import find_nearest_names
from cocosearchd.api.graph.structure_pages import FileLanguages
from cocosearchd.api.graph.unsaved_code import unsaved_files
from cocosearchd.api.index_sync import IndexSync
from cocosearchd.api.overlay_sessions import OverlaySessions
from cocosearchd.errors import TIMED_OUT, InvalidInput, NotFound
from cocosearchd.filters.filter_fields import Filter, make_filter, make_relative
from cocosearchd.forms.path_forms import glob_from_client, path_from_client
from cocosearchd.freshness import Freshness
from cocosearchd.graph.code_files import WHOLE_FILE, CodeFiles, DefinitionKey
from cocosearchd.graph.code_files_view import CodeFilesView
from cocosearchd.graph.questions.question_limits import IsOver, LimitReached, TimedFiles
from cocosearchd.graph.questions.target import Target, parse_target
from cocosearchd.graph.questions.target_search import UnknownName
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import Symbol
from cocosearchd.search.answers import file_content
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.request_limits import check_budget, check_filters, check_range
from cocosearchd.store.connection.database import Database

QUESTION_S = 10.0  # for one question in its thread; the command line waits for a minute
# Questions at a time, over all indexes. Python runs one of them while the others wait for
# PostgreSQL. All other work shares the event loop's 40 threads with them.
MAX_RUNNING = 4
# Definitions of one name that a reply lists, whatever its budget: a file may define a name
# thousands of times.
MAX_DEFINITIONS = 20

T = TypeVar("T")
Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class GraphMoment:
    """The input of a question: the files of one moment, its target, and its limits.

    `where` selects the files that an answer may name; `is_over` returns True once the time is over.
    `languages` are those of all files.
    """

    files: CodeFiles
    resolver: Resolver
    target: Target
    where: Filter
    is_over: IsOver
    languages: FileLanguages = field(default_factory=FileLanguages)


# Synchronous and without effects: it may run again if files change meanwhile.
Question = Callable[[GraphMoment], T]


@dataclass(frozen=True, slots=True)
class GraphAnswer(Generic[T]):
    """The answer to a question, with the index that was asked and its freshness.

    A file of a later generation than `generation` has changed since the question saw it.
    """

    value: T
    index: RunningIndex
    generation: int
    overlay: Overlay | None
    freshness: Freshness
    timings_ms: dict[str, float]

    def with_changes(self, paths: list[str]) -> "GraphAnswer[T]":
        """Return the answer with files that have changed meanwhile: changed files make it stale."""
        self.index.root.mark_possibly_changed(paths)
        return replace(self, freshness=self.freshness.with_changes(paths))


class QuestionClock:
    """Ends a question `QUESTION_S` after its start in a thread, and once nobody waits for it."""

    def __init__(self) -> None:
        self._end: float | None = None

    def start(self) -> None:
        """Start the time, once: a question that runs again has the rest of it."""
        if self._end is None:
            self._end = monotonic() + QUESTION_S

    def is_over(self) -> bool:
        """Return True after the time. Ends the thread of a request that was cancelled."""
        anyio.from_thread.check_cancelled()
        return self._end is not None and monotonic() > self._end


class GraphQuestions:
    """Asks the code graphs of the running indexes."""

    def __init__(
        self, db: Database, indexes: IndexRegistry, overlays: OverlaySessions, sync: IndexSync
    ) -> None:
        self._db = db
        self._indexes = indexes
        self._overlays = overlays
        self._sync = sync
        self._slots = anyio.CapacityLimiter(MAX_RUNNING)

    async def ask(self, request: g.GraphRequest, question: Question[T]) -> GraphAnswer[T]:
        """Ask one index, after every change made before the request.

        Raises the errors of `question`. The error of an unknown name suggests similar names.
        """
        check_request(request)
        deadline = self._sync.deadline(request.sync_timeout_ms)
        began = anyio.current_time()
        index, target = await self._select(request, parse_target(request.target), deadline)
        if index.error is not None:
            raise index.error
        freshness = await self._sync.wait(index, deadline)
        synced = anyio.current_time()
        overlay = await self._overlays.overlay(request.session, index.record, with_vectors=False)
        where = make_file_filter(request, index.record.root)
        generation = index.record.generation
        value = await self._run(index, overlay, target, where, question)
        timings = {
            "sync": (synced - began) * 1000,
            "total": (anyio.current_time() - began) * 1000,
        }
        return GraphAnswer(value, index, generation, overlay, freshness, timings)

    async def _run(
        self,
        index: RunningIndex,
        overlay: Overlay | None,
        target: Target,
        where: Filter,
        question: Question[T],
    ) -> T:
        clock = QuestionClock()
        languages = FileLanguages(index.lexical.current_snapshot, overlay)

        def answer(files: CodeFilesView) -> T:
            clock.start()
            timed = TimedFiles(files, clock.is_over)
            resolver = Resolver(timed, files.use_cache)
            return question(GraphMoment(timed, resolver, target, where, clock.is_over, languages))

        try:
            # some 30 ms of CPU for a file of a megabyte
            unsaved = await anyio.to_thread.run_sync(unsaved_files, overlay) if overlay else ()
            return await index.graph.ask(answer, unsaved, self._slots)
        except LimitReached:
            raise NotFound(
                f"{target.text!r} was not found in {QUESTION_S:.0f} seconds",
                "give a location, as in src/a.py:12",
                code=TIMED_OUT,
            ) from None
        except UnknownName as error:
            if error.hint:
                raise
            names = await find_nearest_names(self._db, index.record, error.name)
            hint = f"did you mean {' or '.join(names)}?" if names else "search for it instead"
            raise NotFound(error.message, hint) from None

    async def _select(
        self, request: g.GraphRequest, target: Target, deadline: float | None
    ) -> tuple[RunningIndex, Target]:
        """Select the index of a request, and resolve the paths that its target may name."""
        lookup = self._indexes.lookup
        if target.path.startswith("/"):
            reference = await file_references.resolve_file(lookup, target.path, request.index)
            if reference is None:
                raise NotFound(
                    f"{target.path} is in no index", "`cocosearchctl list` shows the roots"
                )
            return reference[0], replace(target, paths=(reference[1],))
        written = path_from_client(target.path.removeprefix("./"))
        index = await self._select_index(request, target, written, deadline)
        paths = [written]
        if request.cwd is not None and target.path:
            absolute = f"{request.cwd}/{target.path}"
            reference = await file_references.resolve_file(lookup, absolute, index.record.name)
            paths += [] if reference is None else [reference[1]]
        return index, replace(target, paths=tuple(dict.fromkeys(paths)))

    async def _select_index(
        self, request: g.GraphRequest, target: Target, path: str, deadline: float | None
    ) -> RunningIndex:
        """Select the named index, else the one around `cwd`, else the one with the target's path."""
        lookup = self._indexes.lookup
        running = lookup.own()
        is_chosen = request.index is not None or len(running) < 2
        if is_chosen or not target.is_path:
            return await lookup.select(request.index, request.cwd)
        if request.cwd is not None and (around := await lookup.around(request.cwd)) is not None:
            return around
        records = [index.record for index in running]
        overlays = await self._overlays.overlays(request.session, records, with_vectors=False)
        try:
            name = await file_content.find_owner(self._db, records, path, overlays)
        except NotFound:
            await self._sync.catch_up(running, deadline)
            name = await file_content.find_owner(self._db, records, path, overlays)
        return lookup.get(name)


def check_request(request: g.GraphRequest) -> None:
    """Check the common parameters of a request. Raises `InvalidInput`."""
    check_range("limit", request.limit, 1, g.GRAPH_MAX_LIMIT)
    if request.min_confidence not in CONFIDENCES:
        raise InvalidInput(
            f"unknown confidence {request.min_confidence!r}",
            f"use one of {', '.join(CONFIDENCES)}",
        )
    check_budget(request.budget_tokens)
    check_filters([*request.languages, *request.paths, *request.not_paths])


def make_file_filter(request: g.GraphRequest, root: bytes) -> Filter:
    """Return the filter of a request on the files of its answer. Raises `InvalidInput`."""
    where = make_filter(
        {
            "languages": request.languages,
            "paths": tuple(map(glob_from_client, request.paths)),
            "not_paths": tuple(map(glob_from_client, request.not_paths)),
        }
    )
    return make_relative(where, root)


def make_reply_fields(answer: GraphAnswer[Any]) -> dict[str, Any]:
    """Make the fields that all replies share, without `complete`, `cursor` and `notes`."""
    freshness = answer.freshness
    return {
        "index": answer.index.record.name,
        "fresh": freshness.fresh,
        "stale_reason": freshness.reason,
        "stale_code": freshness.code,
        "as_of": replies.as_of(freshness.as_of),
        "pending": freshness.pending,
        "timings_ms": {name: round(value, 3) for name, value in answer.timings_ms.items()},
    }


def make_symbol_entry(path: str, language: str, symbol: Symbol | None) -> g.GraphSymbol:
    """Make a definition of a reply; without a symbol, it stands for the whole file."""
    if symbol is None:
        return g.GraphSymbol(path, language, "file", path, 0, 0)
    return g.GraphSymbol(
        path=path,
        language=language,
        kind=symbol.kind,
        name=symbol.qualified_name,
        start_line=symbol.start_line,
        end_line=symbol.end_line,
        signature=symbol.signature,
    )


def make_definition_entries(
    files: CodeFiles, keys: Sequence[DefinitionKey]
) -> tuple[g.GraphSymbol, ...]:
    """Make the first `MAX_DEFINITIONS` definitions of a reply, in order."""
    keys = keys[:MAX_DEFINITIONS]
    loaded = files.load({key.path for key in keys})
    return tuple(
        make_symbol_entry(
            key.path,
            loaded[key.path].language,
            None if key.position == WHOLE_FILE else loaded[key.path].symbols[key.position],
        )
        for key in keys
        if key.path in loaded
    )


def definition_notes(keys: Sequence[DefinitionKey]) -> tuple[str, ...]:
    """Return a note if a reply does not list all definitions of a target."""
    rest = len(keys) - MAX_DEFINITIONS
    return (f"{rest:,} further definitions of the name are not listed",) if rest > 0 else ()


def fit_entries(
    entries: Sequence[Entry], budget_tokens: int | None, text_of: Callable[[Entry], str]
) -> tuple[Entry, ...]:
    """Return the first entries whose texts fit into a budget, at least one."""
    if budget_tokens is None:
        return tuple(entries)
    fitting = list[Entry]()
    for entry in entries:
        budget_tokens -= estimate_tokens(text_of(entry))
        if budget_tokens < 0 and fitting:
            break
        fitting.append(entry)
    return tuple(fitting)
