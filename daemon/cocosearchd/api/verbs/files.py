"""Verbs about files: list them, read them, find related code."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol as w
from cocosearchd.api import file_references, replies
from cocosearchd.api.index_sync import IndexSync, least_fresh
from cocosearchd.api.overlay_sessions import OverlaySessions
from cocosearchd.errors import NotFound
from cocosearchd.forms.path_forms import glob_from_client, path_from_client
from cocosearchd.freshness import Freshness, stale_reason
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.model import IndexRecord
from cocosearchd.search.answers import file_content, file_listing
from cocosearchd.search.answers.context import fit_budget
from cocosearchd.search.answers.disk_files import VerifiedFiles
from cocosearchd.search.answers.related import find_related
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.request_limits import check_budget
from cocosearchd.store.connection.database import Database


class FileVerbs:
    """Implements the verbs about files over the running indexes."""

    def __init__(
        self,
        db: Database,
        indexes: IndexRegistry,
        overlays: OverlaySessions,
        disk: VerifiedFiles,
        sync: IndexSync,
    ) -> None:
        self._db = db
        self._indexes = indexes
        self._overlays = overlays
        self._disk = disk
        self._sync = sync

    async def list_files(self, request: w.ListFilesRequest) -> w.ListFilesReply:
        """Return indexed files, page by page, after every change made before the request."""
        deadline = self._sync.deadline(request.sync_timeout_ms)
        indexes = await self._select_indexes(request)
        page, freshness = await self._page(
            request, indexes, path_from_client(request.under), deadline
        )
        if request.under and not page.files:
            directory = await file_references.resolve_directory(
                self._indexes.lookup, request.under, request.index, request.cwd
            )
            if directory is not None:
                index, path = directory
                indexes = (index,)
                page, freshness = await self._page(request, indexes, path, deadline)
        entries = tuple(
            w.FileEntry(file.index, file.path, file.language, file.chunks) for file in page.files
        )
        return replies.files(
            entries,
            page.cursor,
            freshness,
            has_several_indexes=len(indexes) > 1,
            total=page.total,
        )

    async def _select_indexes(self, request: w.ListFilesRequest) -> tuple[RunningIndex, ...]:
        """Return indexes of the requested topic, narrowed by the index of the request."""
        lookup = self._indexes.lookup
        if request.topic is None:
            return (await lookup.select(request.index, request.cwd),)
        names = () if request.index is None else (request.index,)
        return lookup.intersect((names,), ((request.topic,),))

    async def _page(
        self,
        request: w.ListFilesRequest,
        indexes: tuple[RunningIndex, ...],
        directory: str,
        deadline: float | None,
    ) -> tuple[file_listing.FilePage, Freshness]:
        freshness = least_fresh(indexes, await self._sync.wait_all(indexes, deadline))
        page = await file_listing.list_files(
            self._db,
            _records(indexes),
            under=directory,
            pattern=None if request.pattern is None else glob_from_client(request.pattern),
            limit=request.limit,
            cursor=request.cursor,
            budget_tokens=request.budget_tokens,
        )
        return page, freshness

    async def get_file(self, request: w.GetFileRequest) -> w.GetFileReply:
        """Return a file or some of its lines, from the disk if the file is as it was indexed."""
        check_budget(request.budget_tokens)
        deadline = self._sync.deadline(None)
        freshness: dict[str, Freshness] = {}

        async def read(indexes: tuple[RunningIndex, ...], path: str) -> file_content.FileContent:
            followed = [index for index in indexes if index.record.is_followed]
            waited = await self._sync.wait_all(followed, deadline)
            freshness.update(zip((index.record.name for index in followed), waited, strict=True))
            with suppress(NotFound):
                content = await self._read(request, indexes, path)
                if content.source != "index":
                    return content
            await self._sync.catch_up(indexes, deadline)
            try:
                return await self._read(request, indexes, path)
            except NotFound as error:
                raise await _with_rule(error, indexes, path) from None

        content = await file_references.first_result(
            self._indexes.lookup, request.path, request.index, request.cwd, request.topic, read
        )
        if request.budget_tokens is not None:
            content = file_content.fit_content(content, request.budget_tokens)
        return _file_reply(content, freshness)

    async def _read(
        self, request: w.GetFileRequest, indexes: tuple[RunningIndex, ...], path: str
    ) -> file_content.FileContent:
        records = _records(indexes)
        return await file_content.get_file(
            self._db,
            records,
            path,
            self._disk,
            first_line=1 if request.start_line is None else request.start_line,
            last_line=request.end_line,
            overlays=await self._overlays.overlays(request.session, records, with_vectors=False),
        )

    async def find_related(self, request: w.FindRelatedRequest) -> p.SearchReply:
        """Return code in other files that resembles the code at a line."""
        check_budget(request.budget_tokens)
        deadline = self._sync.deadline(None)

        async def find(indexes: tuple[RunningIndex, ...], path: str) -> p.SearchReply:
            overlays = await self._overlays.overlays(request.session, _records(indexes))
            index = await self._owner(indexes, path, overlays, deadline)
            if index.error is not None:
                raise index.error
            freshness = await self._sync.wait(index, deadline)
            name = index.record.name
            began = anyio.current_time()
            hits = await find_related(
                self._db, index.record, path, request.line, request.limit, overlays.get(name)
            )
            timings = {"total": (anyio.current_time() - began) * 1000}
            query = p.SearchRequest(f"{path}:{request.line}")
            shown_hits = fit_budget(hits, None, request.budget_tokens)
            omitted = len(hits) - len(shown_hits)
            return replies.search(
                query, shown_hits, (name,), freshness, timings_ms=timings, omitted=omitted
            )

        return await file_references.first_result(
            self._indexes.lookup, request.path, request.index, request.cwd, None, find
        )

    async def _owner(
        self,
        indexes: tuple[RunningIndex, ...],
        path: str,
        overlays: dict[str, Overlay],
        deadline: float | None,
    ) -> RunningIndex:
        """Return the index that has a file; wait for pending changes if no index has it yet."""
        records = _records(indexes)
        try:
            name = await file_content.find_owner(self._db, records, path, overlays)
        except NotFound:
            await self._sync.catch_up(indexes, deadline)
            name = await file_content.find_owner(self._db, records, path, overlays)
        return self._indexes.lookup.get(name)


def _file_reply(
    content: file_content.FileContent, freshness: Mapping[str, Freshness]
) -> w.GetFileReply:
    """Make the reply with a content. `freshness` is that of followed indexes, by name."""
    stale = stale_reason("content_outdated") if content.source == "index" else None
    if content.source == "rows":
        stale = freshness[content.index].stale
    return w.GetFileReply(
        index=content.index,
        path=content.path,
        language=content.language,
        content=content.content,
        start_line=content.first_line,
        end_line=content.last_line,
        total_lines=content.lines,
        fresh=stale is None,
        stale_reason=stale.sentence if stale else None,
        stale_code=stale.code if stale else None,
        overlay=content.source == "overlay",
    )


async def _with_rule(error: NotFound, indexes: Sequence[RunningIndex], path: str) -> NotFound:
    """Add the rule that leaves a missing file out of the only index that was asked."""
    rule = await indexes[0].root.exclusions.rule(path) if len(indexes) == 1 else None
    return NotFound(f"{error.message}: {rule}", error.hint) if rule else error


def _records(indexes: Sequence[RunningIndex]) -> list[IndexRecord]:
    return [index.record for index in indexes]
