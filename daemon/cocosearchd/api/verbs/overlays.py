"""Verbs about overlays: unsaved text of a client, searched as if it were saved."""

from collections.abc import AsyncGenerator

import anyio

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol as w
from cocosearchd.api import file_references
from cocosearchd.api.overlay_sessions import OverlayRules, OverlaySessions, not_searchable
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.indexing.row_shape import chunker_limits, skip_rules


class OverlayVerbs:
    """Implements the verbs about overlays."""

    def __init__(self, indexes: IndexRegistry, sessions: OverlaySessions) -> None:
        self._indexes = indexes
        self._sessions = sessions

    async def overlay_open(self, request: p.Empty) -> AsyncGenerator[w.OverlaySession, None]:  # noqa: ARG002 - a verb
        """Open a session for unsaved text; it lasts until the client disconnects."""
        with self._sessions.session() as name:
            yield w.OverlaySession(name)
            await anyio.sleep_forever()

    async def overlay_put(self, request: w.OverlayPutRequest) -> w.OverlayReply:
        """Store the unsaved text of a file that would be indexed if it were saved."""
        index, path = await file_references.unsaved_file(
            self._indexes.lookup, request.path, request.index, request.cwd
        )
        if (rule := await index.own_root.exclusions.rule(path)) is not None:
            raise not_searchable(path, rule)
        change = await self._sessions.put(
            request.session, index.record, path, request.text.encode(), self._rules(index)
        )
        warnings = (change.warning,) if change.warning else ()
        name = index.record.name
        return w.OverlayReply(change.files, change.bytes, name, path, change.chunks, warnings)

    async def overlay_clear(self, request: w.OverlayClearRequest) -> w.OverlayReply:
        """Forget unsaved text: of one file, of an index, or of the whole session."""
        if request.path is None:
            index = None if request.index is None else self._indexes.lookup.get(request.index)
            if index is not None:
                index.check_owned()
            change = self._sessions.clear(request.session, index.record if index else None)
            return w.OverlayReply(change.files, change.bytes, request.index)
        index, path = await file_references.unsaved_file(
            self._indexes.lookup, request.path, request.index, request.cwd
        )
        index.check_owned()
        change = self._sessions.clear(request.session, index.record, path)
        return w.OverlayReply(change.files, change.bytes, index.record.name, path)

    def _rules(self, index: RunningIndex) -> OverlayRules:
        rules = self._indexes.config.rules(index.settings)
        indexing = rules.indexing
        return OverlayRules(
            chunker_limits(indexing),
            skip_rules(indexing),
            rules.queries,
        )
