"""Precise uses that are removed while PostgreSQL goes away, or while another index is promoted."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from cocosearch_ipc import graph_protocol as g
from cocosearchd.api.verbs import precise_index
from cocosearchd.api.verbs.precise_index import PreciseIndexVerbs
from cocosearchd.errors import StoreUnavailable
from cocosearchd.graph.code_graph import CodeGraph
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.model import IndexRecord
from cocosearchd.store.chunks.file_writer import replace_file
from cocosearchd.store.connection.database import Database
from cocosearchd.store.index_roles import ensure_next_index, promote_index
from cocosearchd.store.precise_use_rows import (
    PreciseUseRow,
    count_precise_uses,
    delete_precise_uses,
    replace_precise_uses,
)
from cocosearchd.store.reads.file_states import file_states
from tests.store.support import file_write, new_index

pytestmark = pytest.mark.anyio
REMOVAL = g.ScipRequest(index="code", remove=True)


class RecordingGraph(CodeGraph):
    """A code graph that counts how often it forgets its files."""

    forgotten = 0

    def forget_files(self) -> None:
        self.forgotten += 1
        super().forget_files()


@dataclass
class Running:
    """The part of a running index that the verb uses."""

    record: IndexRecord
    graph: RecordingGraph
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    error: None = None
    use_imports: int = 0

    def check_owned(self) -> None:
        """Do nothing: the index is this daemon's own."""


async def index_with_uses(db: Database) -> Running:
    record = await new_index(db)
    await replace_file(db, record, file_write("a.py", "text"))
    state = (await file_states(db, record, ["a.py"])).files["a.py"]
    await replace_precise_uses(db, record, [PreciseUseRow("a.py", state.content_hash, b"uses")])
    return Running(record, RecordingGraph(db, record))


def verbs_over(db: Database, indexes: dict[str, Running]) -> PreciseIndexVerbs:
    lookup = IndexLookup(cast(dict[str, RunningIndex], indexes))
    registry = cast(IndexRegistry, SimpleNamespace(lookup=lookup))
    unused = cast(Any, None)
    return PreciseIndexVerbs(db, registry, unused, unused)


async def test_the_graph_forgets_its_files_also_if_the_answer_is_lost(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = await index_with_uses(db)

    async def delete_and_lose(db: Database, record: IndexRecord) -> int:
        await delete_precise_uses(db, record)
        raise StoreUnavailable("PostgreSQL went away")

    monkeypatch.setattr(precise_index, "delete_precise_uses", delete_and_lose)
    with pytest.raises(StoreUnavailable):
        await verbs_over(db, {"code": index}).scip(REMOVAL)
    assert index.graph.forgotten == 1


async def test_a_change_during_a_promotion_is_one_of_the_promoted_index(db: Database) -> None:
    index = await index_with_uses(db)
    identity = index.record.identity
    following = await ensure_next_index(
        db, index.record, index.record.dimension, type(identity)(identity.embedder, "other", 1)
    )
    indexes = {"code": index}
    async with anyio.create_task_group() as tasks, index.lock:
        tasks.start_soon(verbs_over(db, indexes).scip, REMOVAL)
        await anyio.sleep(0.2)
        promoted = await promote_index(db, index.record, following)
        assert (await count_precise_uses(db, promoted))[0] == 1
        promoted_graph = RecordingGraph(db, promoted)
        indexes["code"] = Running(promoted, promoted_graph, lock=index.lock)
    assert (await count_precise_uses(db, promoted))[0] == 0
    assert promoted_graph.forgotten == 1
