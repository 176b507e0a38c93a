"""Runs one grep of one index: selects files, searches them in processes, describes the matches.

The lines come from disk or from unsaved text. A file that has changed since it was indexed is
searched in its current state and marked; its definitions are unknown.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from weakref import WeakKeyDictionary

import anyio

from cocosearchd.errors import CocoSearchError
from cocosearchd.model import IndexRecord
from cocosearchd.sandbox.worker_process import WorkerLost
from cocosearchd.search.answers.stored_contents import StoredContentReader
from cocosearchd.search.grep.bloom_cache import BloomCache, FileBloom
from cocosearchd.search.grep.enclosing_definitions import (
    EnclosingDefinition,
    enclosing_definitions,
)
from cocosearchd.search.grep.file_selection import GrepFilter, SelectedFile, select_files
from cocosearchd.search.grep.grep_messages import GrepResult, GrepTask, SearchedFile
from cocosearchd.search.grep.grep_processes import GrepProcesses
from cocosearchd.search.grep.line_pattern import LinePattern
from cocosearchd.search.grep.matching_lines import LineOptions, MatchingLine
from cocosearchd.search.grep.required_literals import required_literals
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.overlay import Overlay
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_states import FileState, file_states

BATCH_FILES = 256  # files of a task: some 10 ms
MIN_BATCH_FILES = 32
MAX_TASK_BYTES = 8 << 20  # unsaved or stored text of a task
_PATH = attrgetter("path")

Match = tuple[SelectedFile, SearchedFile]
ReadTexts = Callable[[Sequence[SelectedFile]], Awaitable[Sequence[SelectedFile]]]
Describe = Callable[[Sequence[Match]], Awaitable[tuple["MatchingFile", ...]]]


@dataclass(frozen=True, slots=True)
class GrepQuery:
    """A grep of one index.

    At most `max_files` files with at most `max_lines` lines are described; all are counted. In the
    file `files.first`, lines up to `after_line` are skipped.
    """

    pattern: LinePattern
    files: GrepFilter
    max_lines: int
    max_files: int
    max_file_bytes: int
    context: int = 0
    first_only: bool = False
    after_line: int = 0
    seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class DescribedLine:
    """A matching line with its innermost definition."""

    line: MatchingLine
    definition: EnclosingDefinition | None = None


@dataclass(frozen=True, slots=True)
class MatchingFile:
    """A file with `count` matching lines; `lines` are the described ones.

    `changed` is True if the searched content differs from the indexed content.
    """

    path: str
    language: str
    count: int
    lines: tuple[DescribedLine, ...]
    changed: bool = False
    overlay: bool = False


@dataclass(frozen=True, slots=True)
class IndexMatches:
    """The matches in one index, ordered by path. `files` are the first of `total_files` files.

    `searched` counts the files that pass the filter. `problems` names files that could not be
    searched, with reasons. `unsearched` counts files that were not searched because the time was
    over.
    """

    files: tuple[MatchingFile, ...]
    total_lines: int
    total_files: int
    searched: int
    problems: tuple[tuple[str, str], ...] = ()
    unsearched: int = 0
    approximate: int = 0  # files of a followed index that were searched with possibly other blanks


class Grep:
    """Finds lines in the files of indexes. For one event loop."""

    def __init__(
        self, db: Database, processes: GrepProcesses, stored: StoredContentReader | None = None
    ) -> None:
        """`stored` reads the files of followed indexes; without it there are none."""
        self._db = db
        self._processes = processes
        self._stored = stored
        self._blooms = WeakKeyDictionary[LexicalIndex, BloomCache]()

    async def search(
        self, record: IndexRecord, lexical: LexicalIndex, query: GrepQuery, overlay: Overlay | None
    ) -> IndexMatches:
        """Search one index.

        Raises `InvalidInput` for an invalid expression, `StoreUnavailable` and `WorkerUnavailable`.
        """
        blooms = self._blooms.setdefault(lexical, BloomCache())
        pattern = query.pattern
        literals = required_literals(pattern.expression, ignore_case=pattern.ignore_case)
        grep_filter = replace(query.files, literals=literals)
        selection = await select_files(self._db, record, lexical, blooms, grep_filter, overlay)
        approximate = set[str]()
        read = partial(self._read_texts, record, approximate) if record.is_followed else None
        describe = partial(self._describe, record, query, overlay)
        run = _GrepRun(
            self._db, self._processes, record, query, blooms, read_texts=read, describe=describe
        )
        files = await run.search(selection.files)
        return IndexMatches(
            files=files,
            total_lines=run.total_lines,
            total_files=run.total_files,
            searched=selection.total,
            problems=tuple(run.problems),
            unsearched=len(selection.files) - run.done,
            approximate=len(approximate),
        )

    async def _read_texts(
        self, record: IndexRecord, approximate: set[str], files: Sequence[SelectedFile]
    ) -> tuple[SelectedFile, ...]:
        """Return files with their stored texts. A file of blanks alone has no stored text.

        Paths of files with inexact texts are added to `approximate`.
        """
        assert self._stored is not None, "a daemon that follows reads stored contents"
        contents = await self._stored.read(record, [file.path for file in files])
        approximate.update(path for path, content in contents.items() if not content.is_exact)
        return tuple(
            file._replace(text=contents[file.path].contents.data if file.path in contents else b"")
            for file in files
        )

    async def _describe(
        self,
        record: IndexRecord,
        query: GrepQuery,
        overlay: Overlay | None,
        matches: Sequence[Match],
    ) -> tuple[MatchingFile, ...]:
        """Describe the first files and lines, with file states and enclosing definitions."""
        described_matches = _first_matches(matches, query)
        saved = [file.path for file, _ in described_matches if not file.is_unsaved]
        states = (
            (await file_states(self._db, record, saved, with_symbols=query.max_lines > 0)).files
            if saved
            else {}
        )
        unchanged = {
            file.path: states[file.path]
            for file, searched in described_matches
            if _is_unchanged(states.get(file.path), searched)
        }
        definitions = await _find_definitions(described_matches, unchanged, overlay)
        return tuple(
            MatchingFile(
                path=file.path,
                language=file.language,
                count=searched.matches.count,
                lines=tuple(
                    DescribedLine(line, definitions.get((file.path, line.number)))
                    for line in searched.matches.lines
                ),
                changed=file.text is None and file.path not in unchanged,
                overlay=file.is_unsaved,
            )
            for file, searched in described_matches
        )


class _GrepRun:
    """The tasks of one grep and their results. Matches are in the order of the files.

    The matches that are shown are described while the other files are still being counted.
    """

    def __init__(
        self,
        db: Database,
        processes: GrepProcesses,
        record: IndexRecord,
        query: GrepQuery,
        blooms: BloomCache,
        *,
        read_texts: ReadTexts | None,
        describe: Describe,
    ) -> None:
        """`read_texts` supplies the texts that are searched instead of files on disk."""
        self._db = db
        self._describe = describe
        self._described: tuple[MatchingFile, ...] | None = None
        self._first_batches = FirstBatches(query)
        self._read_texts = read_texts
        self._processes = processes
        self._record = record
        self._query = query
        self._blooms = blooms
        self._results: dict[int, list[Match]] = {}  # by batch
        self._files_left = query.max_files  # to return; of lines, beside those of running tasks
        self._lines_left = query.max_lines
        self.total_files = 0
        self.total_lines = 0
        self._error: CocoSearchError | None = None
        self.problems: list[tuple[str, str]] = []
        self.done = 0  # files

    def _matches(self) -> list[Match]:
        """Return the first `max_files` matching files, in order, and maybe some more."""
        return [match for number in sorted(self._results) for match in self._results[number]]

    async def search(self, files: Sequence[SelectedFile]) -> tuple[MatchingFile, ...]:
        """Search files until the time is over, and describe the first matches.

        Raises `InvalidInput`, `WorkerUnavailable` and `StoreUnavailable`.
        """
        batches = iter(enumerate(_split(files, self._processes.count)))

        async def work() -> None:
            for number, batch in batches:
                if self._error is not None:
                    return
                await self._search_batch(number, batch)
                if self._first_batches.become_complete(self._results):
                    tasks.start_soon(self._describe_first)

        if not files:  # an empty task still checks the pattern
            await self._search_batch(0, ())
        with anyio.move_on_after(self._query.seconds):
            async with anyio.create_task_group() as tasks:
                for _ in range(self._processes.count):
                    tasks.start_soon(work)
        if self._error is not None:
            raise self._error
        return await self._describe(self._matches()) if self._described is None else self._described

    async def _describe_first(self) -> None:
        """Describe the first matches while other files are being searched."""
        try:
            self._described = await self._describe(self._matches())
        except CocoSearchError as error:
            self._error = error

    async def _search_batch(self, number: int, batch: Sequence[SelectedFile]) -> None:
        try:
            task_results = [
                (part, await self._processes.search(self._task(part)))
                for part in await self._parts(batch)
            ]
            results = [
                (part[file.number], file)
                for part, task_result in task_results
                for file in task_result.files
            ]
            await self._keep_blooms(results)
        except CocoSearchError as error:
            self._error = error
            return
        except WorkerLost as error:
            reason = f"its search was ended: {error.reason}"
            self.problems += [(file.path, reason) for file in batch]
            self.done += len(batch)
            return
        self.problems += [(file.path, result.problem) for file, result in results if result.problem]
        self._results[number] = [match for match in results if match[1].matches.count]
        self._count([task_result for _, task_result in task_results])
        self.done += len(batch)

    def _count(self, results: Sequence[GrepResult]) -> None:
        for result in results:
            matching = result.matching
            self._files_left -= len(matching)
            self._lines_left -= sum(len(file.matches.lines) for file in matching)
            self.total_files += len(matching) + result.more_files
            self.total_lines += sum(file.matches.count for file in matching) + result.more_lines

    async def _parts(self, batch: Sequence[SelectedFile]) -> Iterable[Sequence[SelectedFile]]:
        """Split a batch into tasks.

        For a followed index, the files get their texts, and the size of a task is bounded.
        """
        if self._read_texts is None or not batch:
            return (batch,)
        return _split(await self._read_texts(batch), 1)

    def _task(self, batch: Sequence[SelectedFile]) -> GrepTask:
        query = self._query
        # A file whose lines are beyond the limit is not shown, only counted.
        is_counted = query.max_lines > 0 and self._lines_left <= 0
        is_continued = bool(batch) and batch[0].path == query.files.first
        return GrepTask(
            # All files of a followed index have their texts, so no directory is read.
            root=b"/" if self._record.is_followed else self._record.root,
            pattern=query.pattern,
            options=LineOptions(max(0, self._lines_left), query.context, query.first_only),
            max_file_bytes=query.max_file_bytes,
            max_files=0 if is_counted else max(0, self._files_left),
            paths=tuple(map(_PATH, batch)),
            after_line=query.after_line if is_continued else 0,
            without_bloom=self._without_bloom(batch),
            texts={number: file.text for number, file in enumerate(batch) if file.text is not None},
        )

    def _without_bloom(self, batch: Sequence[SelectedFile]) -> frozenset[int]:
        """Return the numbers of the files whose Bloom filters are to be made."""
        if self._blooms.full:
            return frozenset()
        return frozenset(number for number, file in enumerate(batch) if not file.has_bloom)

    async def _keep_blooms(self, results: Sequence[Match]) -> None:
        """Cache the Bloom filters of files whose searched content is the indexed content."""
        results_by_path = {file.path: result for file, result in results if result.bloom}
        if not results_by_path:
            return
        states = (await file_states(self._db, self._record, list(results_by_path))).files
        self._blooms.add(
            FileBloom(path, state.generation, results_by_path[path].bloom)
            for path, state in states.items()
            if state.content_hash == results_by_path[path].content_hash
        )


class FirstBatches:
    """The first batches of a grep, up to the one that reaches the limits of what is described."""

    def __init__(self, query: GrepQuery) -> None:
        self._files_left = query.max_files
        self._lines_left: float = query.max_lines or math.inf  # without lines, files alone count
        self._count = 0
        self._is_complete = False

    def become_complete(self, results: Mapping[int, Sequence[Match]]) -> bool:
        """Count further results by batch. Return True once: when all first batches are there."""
        if self._is_complete:
            return False
        while self._files_left > 0 and self._lines_left > 0 and self._count in results:
            for _, searched in results[self._count]:
                self._files_left -= 1
                self._lines_left -= len(searched.matches.lines)
            self._count += 1
        self._is_complete = self._files_left <= 0 or self._lines_left <= 0
        return self._is_complete


async def _find_definitions(
    described_matches: Sequence[Match], unchanged: Mapping[str, FileState], overlay: Overlay | None
) -> dict[tuple[str, int], EnclosingDefinition]:
    """Find the definitions around the lines of unchanged and of unsaved files."""
    unsaved = overlay.files if overlay is not None else {}
    packed = {path: state.symbols for path, state in unchanged.items()}
    packed |= {path: file.code.symbols for path, file in unsaved.items()}
    lines = [
        (file.path, line.number)
        for file, searched in described_matches
        for line in searched.matches.lines
    ]
    if not lines:
        return {}
    symbols = {path: value for path, value in packed.items() if value}
    return await asyncio.to_thread(enclosing_definitions, symbols, lines)


def _first_matches(matches: Sequence[Match], query: GrepQuery) -> list[Match]:
    """Return the first `max_files` files with, together, the first `max_lines` lines."""
    room = query.max_lines
    first_matches = list[Match]()
    for file, searched in matches[: query.max_files]:
        lines = searched.matches.lines[:room]
        if query.max_lines and not lines:
            break
        room -= len(lines)
        first_matches.append(
            (file, replace(searched, matches=replace(searched.matches, lines=lines)))
        )
    return first_matches


def _is_unchanged(state: FileState | None, searched: SearchedFile) -> bool:
    return state is not None and state.content_hash == searched.content_hash


def _split(files: Sequence[SelectedFile], processes: int) -> Iterable[Sequence[SelectedFile]]:
    """Split files into tasks that occupy all processes and do not exceed the size of a request."""
    size = min(BATCH_FILES, max(MIN_BATCH_FILES, len(files) // processes))
    if not any(file.text for file in files):
        yield from (files[first : first + size] for first in range(0, len(files), size))
        return
    batch = list[SelectedFile]()
    text_bytes = 0
    for file in files:
        added_bytes = len(file.text or b"")
        if batch and (len(batch) == size or text_bytes + added_bytes > MAX_TASK_BYTES):
            yield batch
            batch = []
            text_bytes = 0
        batch.append(file)
        text_bytes += added_bytes
    if batch:
        yield batch
