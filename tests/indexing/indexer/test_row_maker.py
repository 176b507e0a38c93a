"""Rows of several files made together equal rows made one by one, and a failed embedding affects
few files.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.embedding.base import Embedder, Vectors
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.errors import EmbedderUnavailable
from cocosearchd.indexing.indexer import row_maker
from cocosearchd.indexing.indexer.index_threads import IndexThreads
from cocosearchd.indexing.indexer.row_maker import RowMaker, RowRules
from cocosearchd.indexing.indexer.work_priority import WorkPriority
from cocosearchd.indexing.pipeline.file_reader import SourceFile, read_files
from cocosearchd.indexing.pipeline.skip_rules import SkipRules
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.model import IndexIdentity
from cocosearchd.store.chunks.rows import FileWrite
from tests.indexing.conftest import python
from tests.indexing.parsing import ParserHere, open_caches

pytestmark = pytest.mark.anyio

RULES = RowRules(
    1,
    IndexIdentity((), "", 0),
    chunker_limits(IndexingSettings()),
    (),
    (),
    SkipRules(1 << 16, index_secrets=False, any_type=False),
)


class Refusing(BuiltinEmbedder):
    """Fails whenever a text has a certain word in it, as a server may."""

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if any("poison" in text for text in texts):
            raise EmbedderUnavailable("no", "none")
        return await super().embed_documents(texts)


def maker(embedder: Embedder) -> RowMaker:
    work_priority = WorkPriority()
    caches = open_caches(rules=RULES)
    return RowMaker(
        RULES,
        embedder,
        caches.keys,
        caches.manifests,
        caches.counters,
        work_priority,
        IndexThreads(work_priority),
        ParserHere(RULES.limits),
    )


def sources(root: Path, files: dict[str, bytes]) -> list[SourceFile]:
    for path, data in files.items():
        (root / path).write_bytes(data)
    return [
        file for file in read_files(bytes(root), files, 1 << 16) if isinstance(file, SourceFile)
    ]


@pytest.mark.parametrize("urgent", [False, True])
async def test_files_made_together_are_what_they_are_alone(tmp_path: Path, urgent: bool) -> None:
    # more than one batch of texts
    long = "\n".join(python(f"long{number}") for number in range(90)).encode()
    files = {
        "a.py": python("a").encode(),
        "empty.py": b"",
        "long.py": long,
        "b.bin": b"\0\1",
        "c.md": b"# Title\n\nText",
    }
    read, make = sources(tmp_path, files), maker(BuiltinEmbedder())
    together = await make(read, None, urgent=urgent)
    alone = [write for source in read for write in await make([source], None, urgent=urgent)]
    assert len(together) == len(alone) == len(files)
    for write, single in zip(together, alone, strict=True):
        assert isinstance(write, FileWrite)
        assert isinstance(single, FileWrite)
        assert (write.path, write.chunks, write.skip_reason) == (
            single.path,
            single.chunks,
            single.skip_reason,
        )
        assert write.vectors.shape[0] == len(write.chunks)
        assert np.array_equal(write.vectors, single.vectors)
    assert (
        sum(len(write.chunks) for write in together if isinstance(write, FileWrite))
        > row_maker.BATCH_TEXTS
    )


async def test_an_embedding_failure_fails_only_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_maker, "BATCH_TEXTS", 2)
    files = {
        f"{name}.py": f"def {name}(): return 1\n".encode()
        for name in ("a", "b", "c", "poison", "e", "f", "g")
    }
    writes = await maker(Refusing())(sources(tmp_path, files), None, urgent=False)
    assert [isinstance(write, FileWrite) for write in writes] == [
        True,
        True,
        False,
        False,
        True,
        True,
        True,
    ]
    assert all(isinstance(write, FileWrite | EmbedderUnavailable) for write in writes)


@pytest.mark.parametrize(("lines", "is_on_loop"), [(10, True), (5_000, False)])
async def test_small_saves_are_cut_without_another_thread(
    root: Path, monkeypatch: pytest.MonkeyPatch, lines: int, is_on_loop: bool
) -> None:
    """The rows are the same, and a large file must not hold the event loop."""
    (root / "saved.py").write_text("value = 1\n" * lines)
    (source,) = read_files(bytes(root), ["saved.py"], 1 << 20)
    assert isinstance(source, SourceFile)
    threads = list[threading.Thread]()
    extract_files = row_maker.extract_files

    def note_thread(*arguments: Any) -> list[row_maker.FileExtract]:
        threads.append(threading.current_thread())
        return extract_files(*arguments)

    monkeypatch.setattr(row_maker, "extract_files", note_thread)
    (write,) = await maker(BuiltinEmbedder())([source], None, urgent=True)
    assert isinstance(write, FileWrite)
    assert len(write.chunks) >= 1
    assert [thread is threading.main_thread() for thread in threads] == [is_on_loop]
