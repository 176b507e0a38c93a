"""The engine behind all front ends: `protocol.Engine`, composed of one object per family of verbs."""

from collections.abc import Callable

from cocosearchd.api.graph.earlier_code import EarlierCodeReader
from cocosearchd.api.graph.graph_questions import GraphQuestions
from cocosearchd.api.graph.line_texts import LineTexts
from cocosearchd.api.health import Dependencies
from cocosearchd.api.index_reports import IndexReports
from cocosearchd.api.index_sync import IndexSync
from cocosearchd.api.overlay_sessions import OverlaySessions
from cocosearchd.api.verbs.change_impact import ImpactVerbs
from cocosearchd.api.verbs.files import FileVerbs
from cocosearchd.api.verbs.grep import GrepVerbs
from cocosearchd.api.verbs.indexes import IndexVerbs
from cocosearchd.api.verbs.overlays import OverlayVerbs
from cocosearchd.api.verbs.precise_index import PreciseIndexVerbs
from cocosearchd.api.verbs.references import ReferenceVerbs
from cocosearchd.api.verbs.search import SearchVerbs
from cocosearchd.api.verbs.status import DaemonInfo, StatusVerbs
from cocosearchd.api.verbs.structure import StructureVerbs
from cocosearchd.api.verbs.watch import WatchVerbs
from cocosearchd.config.settings import SearchSettings
from cocosearchd.embedding.embedder_registry import EmbedderRegistry
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexing.coordinator.updater import Updater
from cocosearchd.indexing.cores import count_usable_cores
from cocosearchd.indexing.pool.overlay_parser import OverlayParser
from cocosearchd.search.grep.grep_processes import GrepProcesses
from cocosearchd.search.grep.grep_search import Grep
from cocosearchd.search.pipeline import Pipeline
from cocosearchd.store.connection.database import Database


class Engine:
    """The engine of a daemon: it implements all ports of front ends.

    The ports are `Engine`, `WorkspaceEngine`, `GraphEngine` and `StructureEngine`. Each verb is a
    bound method of the object of its family; a new verb needs a line here.
    """

    def __init__(
        self,
        db: Database,
        embedders: EmbedderRegistry,
        indexes: IndexRegistry,
        pipeline: Pipeline,
        updater: Updater,
        settings: SearchSettings,
        info: DaemonInfo,
        dependencies: Dependencies,
        is_owner: Callable[[], bool],
    ) -> None:
        """`is_owner` returns True while no other daemon can use the database."""
        self._indexes = indexes
        self._pipeline = pipeline
        parser = OverlayParser()
        self._sessions = OverlaySessions(embedders.get, parser)
        self.index_sync = IndexSync(indexes, settings, lambda: updater.status.paused, is_owner)
        reports = IndexReports(db, updater)

        search_verbs = SearchVerbs(indexes, pipeline, self._sessions, self.index_sync, reports)
        self.search = search_verbs.search

        index_verbs = IndexVerbs(db, embedders, indexes, pipeline, self.index_sync, reports)
        self._add_index_verbs(index_verbs)

        file_verbs = FileVerbs(db, indexes, self._sessions, pipeline.disk, self.index_sync)
        self.list_files = file_verbs.list_files
        self.get_file = file_verbs.get_file
        self.find_related = file_verbs.find_related

        self._grep_processes = GrepProcesses(count_usable_cores())
        grep = Grep(db, self._grep_processes, pipeline.stored_contents)
        self.grep = GrepVerbs(indexes, self._sessions, self.index_sync, grep).grep

        questions = GraphQuestions(db, indexes, self._sessions, self.index_sync)
        texts = LineTexts(db, pipeline.disk, pipeline.stored_contents)
        self._add_graph_verbs(questions, texts, search_verbs)
        self._add_impact_verbs(questions, EarlierCodeReader(indexes, parser))

        self.scip = PreciseIndexVerbs(db, indexes, self.index_sync, pipeline.disk).scip

        self.watch = WatchVerbs(db, indexes, search_verbs.search).watch

        self._add_overlay_verbs(OverlayVerbs(indexes, self._sessions))

        status_verbs = StatusVerbs(
            info=info,
            dependencies=dependencies,
            db=db,
            embedders=embedders,
            indexes=indexes,
            pipeline=pipeline,
            updater=updater,
            sync=self.index_sync,
            list_indexes=index_verbs.list_indexes,
            latency=search_verbs.latency,
        )
        self._add_status_verbs(status_verbs)

    def _add_index_verbs(self, index_verbs: IndexVerbs) -> None:
        self.index_codebase = index_verbs.index_codebase
        self.report_progress = index_verbs.report_progress
        self.list_indexes = index_verbs.list_indexes
        self.index_stats = index_verbs.index_stats
        self.clear_index = index_verbs.clear_index
        self.reindex = index_verbs.reindex
        self.sync = index_verbs.sync
        self.locate = index_verbs.locate

    def _add_overlay_verbs(self, overlay_verbs: OverlayVerbs) -> None:
        self.overlay_open = overlay_verbs.overlay_open
        self.overlay_put = overlay_verbs.overlay_put
        self.overlay_clear = overlay_verbs.overlay_clear

    def _add_status_verbs(self, status_verbs: StatusVerbs) -> None:
        self.status = status_verbs.status
        self.models = status_verbs.models
        self.config = status_verbs.config
        self.languages = status_verbs.languages
        self.shutdown = status_verbs.shutdown

    def _add_graph_verbs(
        self, questions: GraphQuestions, texts: LineTexts, search_verbs: SearchVerbs
    ) -> None:
        reference_verbs = ReferenceVerbs(questions, texts)
        self.definition = reference_verbs.definition
        self.references = reference_verbs.references
        self.callers = reference_verbs.callers
        self.callees = reference_verbs.callees

        structure_verbs = StructureVerbs(questions, search_verbs.search)
        self.dependencies = structure_verbs.dependencies
        self.outline = structure_verbs.outline
        self.map = structure_verbs.map

    def _add_impact_verbs(self, questions: GraphQuestions, earlier_code: EarlierCodeReader) -> None:
        impact_verbs = ImpactVerbs(questions, earlier_code)
        self.impact = impact_verbs.impact
        self.changes = impact_verbs.changes

    def configure(self, settings: SearchSettings) -> None:
        """Use these settings for later searches. `IndexRegistry.configure` takes the others."""
        self.index_sync.configure(settings)
        self._pipeline.configure(settings)

    async def aclose(self) -> None:
        """Stop the worker processes that serve requests."""
        await self._sessions.aclose()
        await self._grep_processes.pool.aclose()
        await self._indexes.analyser.pool.aclose()
        await self._indexes.splitter.pool.aclose()
