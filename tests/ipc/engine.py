"""An implementation of the port `protocol.Engine` with fixed answers.

Why not the daemon's own: the front ends know shapes only, and these tests are of shapes, sockets
and clients. The real engine behind the real front ends is what tests/flows runs.
"""

from collections.abc import AsyncGenerator
from dataclasses import replace

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from cocosearch_ipc import error_codes
from cocosearch_ipc import graph_protocol as g
from cocosearch_ipc import protocol as p
from cocosearch_ipc import structure_protocol as s
from cocosearch_ipc import workspace_protocol as w
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.request_id import REQUEST_ID
from cocosearchd.config.settings import ServerSettings

SERVER = ServerSettings()  # the defaults
AS_OF = p.AsOf("3f0c9a52-0000-4000-8000-000000000000", 7)
RESULT = p.SearchResult(
    index="demo",
    path="src/retry.py",
    start_line=3,
    end_line=5,
    start_byte=40,
    end_byte=110,
    language="python",
    score=0.731,
    relevance=0.73,
    match_type="both",
    block_type="function",
    hierarchy="Client.retry",
    symbol_type="method",
    symbol_name="Client.retry",
    symbol_signature="def retry(self, times: int) -> None",
    content="    def retry(self, times: int) -> None:\n        for _ in range(times):\n            self.send()\n",
    context_before="class Client:",
    context_after="",
)
RETRY = g.GraphSymbol(
    "src/retry.py", "python", "method", "Client.retry", 3, 5, "def retry(self, times: int) -> None"
)
MAIN = g.GraphSymbol("src/app.py", "python", "function", "main", 6, 8, "def main()")
AFFECTED = (
    s.AffectedEntry(MAIN, 1, "certain", "import", "sure", "Client.retry", 7, 3),
    s.AffectedEntry(RETRY, 2, "likely", "unique_name", "only one", "main", 4, 5, is_test=True),
)
OUTLINED = (
    s.OutlineSymbol("class", "Client", "class Client:", 1, 9, 0),
    s.OutlineSymbol("method", "Client.retry", RETRY.signature, 3, 5, 1),
)
PROGRESS = p.IndexProgress("demo", "live", 2, 2, 5, 0)


class FixedEngine:
    """Records the requests it got; `busy` makes `search` wait, to be cancelled."""

    def __init__(self) -> None:
        self.requests = list[object]()
        self.request_ids = list[str]()
        self.busy = 0.0
        self.fresh_files = True
        self.worker = "running"
        self.paused: str | None = None
        self.stale: str | None = None  # why no search is fresh
        self.notes: tuple[str, ...] = ()  # of searches
        self.version = "0.1.0"
        self.cancelled = 0
        self.indexes = {"demo": "/srv/demo"}
        self.results: tuple[p.SearchResult, ...] = (RESULT,)
        self.steps = 3
        self.step_s = 0.01
        self.stopped = anyio.Event()
        self.mcp: dict[str, str] = {}
        self.watchers = list[MemoryObjectSendStream[w.WatchEvent]]()
        self.dependencies_reply: s.DependenciesReply | None = None

    async def search(self, request: p.SearchRequest) -> p.SearchReply:
        self.requests.append(request)
        self.request_ids.append(REQUEST_ID.get(""))
        try:
            await anyio.sleep(self.busy)
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        if request.query == "defect":
            raise ZeroDivisionError("a defect")
        index = None if request.all_indexes else self._index(request.index)
        return p.SearchReply(
            query=request.query,
            results=self.results[: request.limit],
            fresh=self.stale is None,
            stale_reason=self.stale,
            as_of=AS_OF,
            cache="miss",
            timings_ms={"total": 1.5},
            index=index,
            notes=self.notes,
        )

    async def index_codebase(self, request: p.IndexCodebaseRequest) -> p.IndexCodebaseReply:
        self.requests.append(request)
        name = request.name or request.path.rpartition("/")[2]
        created = self.indexes.get(name) != request.path
        self.indexes[name] = request.path
        return p.IndexCodebaseReply(
            name, request.path, created, replace(PROGRESS, index=name, state="scanning")
        )

    async def report_progress(
        self, request: p.IndexRequest
    ) -> AsyncGenerator[p.IndexProgress, None]:
        index = self._index(request.index)
        try:
            for step in range(self.steps):
                yield p.IndexProgress(index, "indexing", step, self.steps, step * 2, 0)
                await anyio.sleep(self.step_s)
        except (anyio.get_cancelled_exc_class(), GeneratorExit):
            self.cancelled += 1
            raise
        yield p.IndexProgress(index, "live", self.steps, self.steps, self.steps * 2, 0)

    async def list_indexes(self, request: p.Empty) -> p.IndexesReply:
        return p.IndexesReply(tuple(self._status(name) for name in sorted(self.indexes)))

    async def index_stats(self, request: p.StatsRequest) -> p.StatsReply:
        self.requests.append(request)
        name = self._index(request.index)
        return p.StatsReply(
            index=name,
            root=self.indexes[name],
            files=2,
            chunks=5,
            symbols=4,
            size_bytes=12_345,
            languages={"python": {"files": 2, "chunks": 5}},
            parse_health={"python": {"ok": 2, "partial": 0, "error": 0, "no_grammar": 0}},
            skipped={},
            last_change="2026-01-02T03:04:05Z",
            embedder={"provider": "builtin"},
            generation=7,
            fresh=True,
            as_of=AS_OF,
        )

    async def clear_index(self, request: p.IndexRequest) -> p.ClearReply:
        self.requests.append(request)
        name = self._index(request.index)
        del self.indexes[name]
        return p.ClearReply(name, 2, 5)

    async def reindex(self, request: p.IndexRequest) -> p.IndexProgress:
        return replace(PROGRESS, index=self._index(request.index), state="indexing", done=0)

    async def sync(self, request: p.SyncRequest) -> p.SyncReply:
        self.requests.append(request)
        return p.SyncReply(self._index(request.index), True, AS_OF)

    async def status(self, request: p.Empty) -> p.StatusReply:
        return p.StatusReply(
            version=self.version,
            protocol=p.PROTOCOL_VERSION,
            pid=1,
            uptime_s=12.5,
            mcp=self.mcp,
            store={"kind": "embedded", "state": "ok"},
            embedder={"provider": "builtin", "state": "ok"},
            worker={"state": self.worker, "paused": self.paused},
            cache={"hits": 1},
            rss_bytes={"daemon": 1 << 20, "total": 1 << 20},
            indexes=tuple(self._status(name) for name in sorted(self.indexes)),
            warnings=(self.paused, "port 7 is taken") if self.paused else (),
            queries={"count": 3, "p50_ms": 4.0, "p95_ms": 90.0, "recent_ms": [4.0, 3.5, 90.0]},
        )

    async def list_files(self, request: w.ListFilesRequest) -> w.ListFilesReply:
        self.requests.append(request)
        return w.ListFilesReply(
            (w.FileEntry("demo", "src/a.py", "python", 3),),
            "next",
            fresh=True,
            as_of=AS_OF,
            total=7,
        )

    async def get_file(self, request: w.GetFileRequest) -> w.GetFileReply:
        self.requests.append(request)
        reason = None if self.fresh_files else "the file has changed since"
        first = request.start_line or 1
        return w.GetFileReply(
            "demo", request.path, "python", "b\nc\n", first, 3, 3, self.fresh_files, reason
        )

    async def find_related(self, request: w.FindRelatedRequest) -> p.SearchReply:
        self.requests.append(request)
        return p.SearchReply("related", (RESULT,), True, None, AS_OF, "miss", {}, "demo")

    async def grep(self, request: w.GrepRequest) -> w.GrepReply:
        self.requests.append(request)
        line = w.GrepLine(
            3, 9, "    def retry(self):", "method", "Client.retry", ("class Client:",)
        )
        mode = request.mode
        file = w.GrepFile("demo", "src/retry.py", "python", 4, (line,) if mode == "lines" else ())
        return w.GrepReply(
            files=(file,),
            total_lines=4,
            total_files=1,
            searched_files=2,
            complete=False,
            fresh=True,
            stale_reason=None,
            as_of=AS_OF,
            indexes=("demo",),
            cursor="next",
            notes=("src/big.py was not searched: it has grown",),
        )

    async def definition(self, request: g.DefinitionRequest) -> g.DefinitionReply:
        self.requests.append(request)
        name = g.ResolvedName("retry", 7, 3, (RETRY,), "likely", "inferred_member", "it seems so")
        return g.DefinitionReply("demo", True, None, AS_OF, path="src/app.py", names=(name,))

    async def references(self, request: g.ReferencesRequest) -> g.ReferencesReply:
        self.requests.append(request)
        uses = (
            g.Reference(
                7,
                3,
                "client.retry(2)",
                "call",
                "certain",
                "class_member",
                "sure",
                "function",
                "main",
            ),
            g.Reference(9, 1, "x.retry(2)", "call", "possible", "name_only", "by its name alone"),
        )
        return g.ReferencesReply(
            "demo",
            True,
            None,
            AS_OF,
            cursor="[1]",
            definitions=(RETRY,),
            files=(g.ReferenceFile("src/app.py", "python", 2, uses),),
            total=3,
            total_files=2,
            counts={"certain": 2, "possible": 1},
        )

    async def callers(self, request: g.CallsRequest) -> g.CallsReply:
        self.requests.append(request)
        main = g.GraphSymbol("src/app.py", "python", "function", "main", 6, 8, "def main()")
        site = g.CallSite("src/app.py", 7, 3, "client.retry(2)")
        entries = (
            g.CallEntry(main, 0, 1, -1, "certain", "class_member", "sure", (site,), 2),
            g.CallEntry(
                RETRY, 1, 2, 0, "likely", "unique_name", "only one", (site,), 1, is_cycle=True
            ),
        )
        return g.CallsReply("demo", True, None, AS_OF, definitions=(RETRY,), calls=entries, total=2)

    async def callees(self, request: g.CallsRequest) -> g.CallsReply:
        return replace(await self.callers(request), external=("print",))

    async def scip(self, request: g.ScipRequest) -> g.ScipReply:
        self.requests.append(request)
        if request.remove:
            return g.ScipReply("demo", removed=3)
        return g.ScipReply("demo", files=2, uses=1200, skipped={"changed": 1, "not_indexed": 4})

    async def impact(self, request: s.ImpactRequest) -> s.ImpactReply:
        self.requests.append(request)
        return s.ImpactReply(
            "demo",
            True,
            None,
            AS_OF,
            cursor="2",
            definitions=(RETRY,),
            affected=AFFECTED,
            total=3,
            total_files=3,
            distances={"1": 1, "2": 2},
            test_files=("tests/test_app.py",),
            total_test_files=1,
        )

    async def changes(self, request: s.ChangesRequest) -> s.ChangesReply:
        self.requests.append(request)
        return s.ChangesReply(
            "demo",
            True,
            None,
            AS_OF,
            base="1" * 40,
            changed=(s.ChangedFile("src/retry.py", "modified", (RETRY,), 1),),
            total_changed=1,
            affected=AFFECTED,
            total=2,
            total_files=2,
            distances={"1": 1, "2": 1},
        )

    async def dependencies(self, request: s.DependenciesRequest) -> s.DependenciesReply:
        self.requests.append(request)
        if self.dependencies_reply is not None:
            return self.dependencies_reply
        return s.DependenciesReply(
            "demo",
            True,
            None,
            AS_OF,
            target="src/app.py",
            imports=(s.DependencyNode("src/retry.py", 1),),
            edges=(s.DependencyEdge("src/app.py", "src/retry.py", 2),),
            packages=(s.PackageUse("os", 1),),
            cycles=(("src/a.py", "src/b.py"),),
            total_imports=1,
        )

    async def outline(self, request: s.OutlineRequest) -> s.OutlineReply:
        self.requests.append(request)
        file = s.OutlineFile("src/retry.py", "python", OUTLINED, omitted=1)
        return s.OutlineReply("demo", True, None, AS_OF, files=(file,), omitted_files=2)

    async def map(self, request: s.MapRequest) -> s.MapReply:
        self.requests.append(request)
        file = s.MapFile("src/retry.py", "python", 0.25, OUTLINED)
        return s.MapReply("demo", True, None, AS_OF, files=(file,), total_files=9, tokens=20)

    async def languages(self, request: p.Empty) -> w.LanguagesReply:
        return w.LanguagesReply((w.LanguageEntry("go", (".go",), "tree-sitter", True, True),))

    async def models(self, request: p.Empty) -> w.ModelsReply:
        return w.ModelsReply(
            {"provider": "builtin"}, (w.ModelEntry("builtin", "static_v1", "in use"),)
        )

    async def locate(self, request: w.LocateRequest) -> w.LocateReply:
        for path in request.paths:
            for name, root in self.indexes.items():
                if f"{path}/".startswith(f"{root}/"):
                    return w.LocateReply(name, root, path)
        return w.LocateReply()

    async def watch(self, request: w.WatchRequest) -> AsyncGenerator[w.WatchEvent, None]:
        self.requests.append(request)
        send, receive = anyio.create_memory_object_stream[w.WatchEvent](10)
        self.watchers.append(send)
        try:
            async for event in receive:
                yield event
        finally:
            self.watchers.remove(send)
            send.close()
            receive.close()

    def happened(self, event: w.WatchEvent) -> None:
        """Send an event to all watchers. Call it in the engine's event loop."""
        for send in self.watchers:
            send.send_nowait(event)

    async def shutdown(self, request: p.Empty) -> p.ShutdownReply:
        self.stopped.set()
        return p.ShutdownReply(1)

    def _index(self, name: str | None) -> str:
        if name is None and len(self.indexes) == 1:
            return next(iter(self.indexes))
        if name not in self.indexes:
            raise Failure(
                f"no index {name!r}",
                f"there are {', '.join(self.indexes)}",
                code=error_codes.NOT_FOUND,
            )
        return name

    def _status(self, name: str) -> p.IndexStatus:
        return p.IndexStatus(
            name, self.indexes[name], ("backend",), "live", 2, 5, 0, 7, AS_OF, watcher="inotify"
        )


EngineWithFiles = FixedEngine  # as the tests of the command line call it
