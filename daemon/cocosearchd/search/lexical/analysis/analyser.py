"""Analyses the texts of files in worker processes, so that no text can block the daemon.

If a file kills its process twice in a row, only its plain words are analysed, without definitions
and comments. If these kill the process as well, only the path of the file is indexed. Other files
of the same batch are analysed as usual.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.worker_pool import PoolSize, WorkerPool
from cocosearchd.sandbox.worker_process import WorkerLost, WorkerUnavailable
from cocosearchd.search.lexical.analysis.analysis_messages import (
    AnalysisRequest,
    analysis_from_bytes,
)
from cocosearchd.search.lexical.analysis.documents import (
    BATCH_FILES,
    Analysis,
    Documents,
    FileText,
    assemble_documents,
)

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "cocosearchd.search.lexical.analysis.analysis_worker")
# Characters of one request: some 25 ms of work, so that a process is soon free for a saved file.
REQUEST_CHARACTERS = 256 << 10
# Twenty times the resources for one file of the largest size that is indexed by default.
LIMITS = ResourceLimits(address_space_bytes=1 << 30, request_cpu_s=5)
DEADLINE_S = 20.0  # wall time; the limit of CPU time comes first, unless the machine is busy
# However many texts never finish, processes stay free for saves of other files: at most two
# processes are occupied until a text is given up. A process costs 0.3 s of CPU to start, and its
# caches are empty. Therefore a spare process starts only when a request takes much longer than
# usual.
SIZE = PoolSize(
    max_processes=4, warm=1, idle_s=30.0, spare_after_s=1.0, slow_after_s=0.5, max_slow=2
)
# Chunks whose documents are assembled on the event loop, in a third of a millisecond: a thread would
# cost a save as much.
MAX_CHUNKS_ON_LOOP = 16
BATCHES_AHEAD = 2  # batches in flight: one is analysed, one is assembled
MAX_WARNINGS = 5  # files that warnings name
WITHOUT_DEFINITIONS = "searched without definitions and comments"
BY_PATH_ALONE = "searched by its path alone"


@dataclass(frozen=True, slots=True)
class ReducedFile:
    """A file that is searched by less than its text. `reason` is for people."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class AnalysedFiles:
    """Documents in the order of the files, and the files with reduced documents."""

    documents: tuple[Documents, ...] = ()
    reduced: tuple[ReducedFile, ...] = ()


class ReducedFiles:
    """The files of one index that are searched by less than their text."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    @property
    def reasons(self) -> Mapping[str, str]:
        """Reasons by path, for `restore` after a restart."""
        return dict(self._reasons)

    def restore(self, reasons: Mapping[str, str]) -> None:
        """Restore the reasons of files that are not analysed again after a restart."""
        self._reasons = dict(reasons)

    def retain(self, paths: Container[str]) -> None:
        """Drop the files that are not among `paths`."""
        self._reasons = {path: reason for path, reason in self._reasons.items() if path in paths}

    def update(self, paths: Iterable[str], reduced: Iterable[ReducedFile]) -> None:
        """Replace the entries of `paths` by `reduced`. The files were analysed again or are gone."""
        for path in paths:
            self._reasons.pop(path, None)
        self._reasons |= {file.path: file.reason for file in reduced}

    def warnings(self) -> list[str]:
        """Return a sentence for each of the first files, and one that counts the others."""
        first_paths = sorted(self._reasons)[:MAX_WARNINGS]
        further = len(self._reasons) - len(first_paths)
        return [
            *(
                f"{path} is {self._reasons[path]}; it is tried again when it changes"
                for path in first_paths
            ),
            *(
                [f"{further} more files are searched by less than their text has"]
                if further
                else []
            ),
        ]


class Analyser(Protocol):
    """An analyser turns the texts of files into documents of a lexical index."""

    async def analyse(self, files: Sequence[FileText]) -> AnalysedFiles:
        """Analyse files with vectors of one dimension. Raises `WorkerUnavailable`."""


class ProcessAnalyser:
    """An analyser that uses the worker processes of `pool`. For one event loop."""

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        limits: ResourceLimits = LIMITS,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.pool = WorkerPool("analysis", command, installed_code_digest(), limits, SIZE)
        self._deadline_s = deadline_s

    async def analyse(self, files: Sequence[FileText]) -> AnalysedFiles:
        """Analyse files with vectors of one dimension. Raises `WorkerUnavailable`.

        The worker process analyses a batch while this process assembles the documents of the batch
        before.
        """
        documents = list[Documents]()
        reduced = list[ReducedFile]()
        turn = asyncio.Lock()  # one batch at a time: two batches would start a second process
        requests = deque[asyncio.Task[list[tuple[Sequence[FileText], Analysis]]]]()
        try:
            for batch in split_into_batches(files):
                requests.append(asyncio.create_task(self._in_turn(turn, batch, reduced)))
                if len(requests) == BATCHES_AHEAD:
                    documents += await _assemble(requests.popleft())
            while requests:
                documents += await _assemble(requests.popleft())
        finally:
            for request in requests:
                request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)
        return AnalysedFiles(tuple(documents), tuple(reduced))

    async def _in_turn(
        self, turn: asyncio.Lock, batch: Sequence[FileText], reduced: list[ReducedFile]
    ) -> list[tuple[Sequence[FileText], Analysis]]:
        async with turn:
            return await self._batch(batch, reduced)

    async def _batch(
        self, files: Sequence[FileText], reduced: list[ReducedFile]
    ) -> list[tuple[Sequence[FileText], Analysis]]:
        """Analyse files together; if they kill the process, one by one."""
        try:
            return [(files, await self._request(files))]
        except WorkerLost as error:
            log.warning(
                "analysis_ended",
                extra={"files": len(files), "first": files[0].path, "how": error.reason},
            )
        return [([file], await self._analyse_alone(file, reduced)) for file in files]

    async def _analyse_alone(self, file: FileText, reduced: list[ReducedFile]) -> Analysis:
        """Analyse one file of a batch that killed its process."""
        try:
            return await self._request([file])
        except WorkerLost as error:
            first = error
        try:
            analysis = await self._request([file], plain=True)
            result = WITHOUT_DEFINITIONS
        except WorkerLost:
            analysis = await self._analyse_path(file)
            result = BY_PATH_ALONE
        log.warning(
            "analysis_reduced", extra={"path": file.path, "how": first.reason, "result": result}
        )
        reduced.append(ReducedFile(file.path, f"{result}: its analysis was ended, {first.reason}"))
        return analysis

    async def _analyse_path(self, file: FileText) -> Analysis:
        """Analyse the path of a file without its text.

        Raises `WorkerUnavailable` if this kills the process: then the text is not the cause.
        """
        try:
            return await self._request([_without_text(file)], plain=True)
        except WorkerLost as error:
            message = f"analysis processes end even without the text of {file.path}: {error.reason}"
            hint = "check the free memory of this machine; the analysis is retried automatically"
            raise WorkerUnavailable(message, hint) from error

    async def _request(self, files: Sequence[FileText], *, plain: bool = False) -> Analysis:
        """Send a request to a process.

        Raises `WorkerLost`, also for an invalid response, and `WorkerUnavailable`.
        """
        body = AnalysisRequest(tuple(files), plain).to_bytes()
        return await self.pool.call(
            body, self._deadline_s, partial(analysis_from_bytes, files=files)
        )


async def _assemble(
    request: asyncio.Task[list[tuple[Sequence[FileText], Analysis]]],
) -> list[Documents]:
    """Wait for the analysis of a batch, and assemble its documents."""
    documents = list[Documents]()
    for files, analysis in await request:
        if sum(len(file.chunks) for file in files) <= MAX_CHUNKS_ON_LOOP:
            documents.append(assemble_documents(files, analysis))
        else:
            documents.append(await asyncio.to_thread(assemble_documents, files, analysis))
    return documents


def split_into_batches(files: Sequence[FileText]) -> Iterator[list[FileText]]:
    """Group files, in order, into requests with limits on files and characters."""
    batch = list[FileText]()
    characters = 0
    for file in files:
        size = sum(len(chunk.text) for chunk in file.chunks)
        if batch and (len(batch) == BATCH_FILES or characters + size > REQUEST_CHARACTERS):
            yield batch
            batch = []
            characters = 0
        batch.append(file)
        characters += size
    if batch:
        yield batch


def _without_text(file: FileText) -> FileText:
    return replace(
        file,
        chunks=tuple(replace(chunk, text="", definitions=(), names="") for chunk in file.chunks),
    )
