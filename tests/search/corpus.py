"""Puts files on disk and into an index, as the write flow does, in the test's own process."""
# ruff: noqa: ASYNC240 - the files are tiny, and nothing else waits

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cocosearchd.config.settings import IndexingSettings, SearchSettings
from cocosearchd.embedding.base import Embedder, Vectors
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.forms.path_forms import path_text
from cocosearchd.indexing.pipeline.chunker import (
    HEADER_VERSION,
    chunk_file,
    chunk_keywords,
    chunker_id,
)
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import parse
from cocosearchd.model import Commit, IndexIdentity, IndexRecord, SkipReason, hash_content
from cocosearchd.search.classic.word_splitter import split_in_thread
from cocosearchd.search.lexical.lexical_index import LexicalIndex
from cocosearchd.search.pipeline import Answer, Pipeline
from cocosearchd.search.plan import Query, parse_query
from cocosearchd.search.trace import Trace
from cocosearchd.store.chunks.file_writer import delete_file, replace_file
from cocosearchd.store.chunks.rows import FileWrite
from cocosearchd.store.connection.database import Database
from cocosearchd.store.index_records import create_index
from cocosearchd.store.words.words_table import fill_words
from tests.search.lexical.direct import DirectAnalyser


class CountingEmbedder(BuiltinEmbedder):
    """Counts the questions that it embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> Vectors:
        self.asked.append(text)
        return await super().embed_query(text)


@dataclass
class Corpus:
    """An index over `root`, and a pipeline that answers from it."""

    db: Database
    root: Path
    record: IndexRecord
    embedder: Embedder
    pipeline: Pipeline
    lexical: LexicalIndex | None = None

    async def save(self, path: str, text: str) -> int:
        """Write a file and index it; the generation after that."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        return await self.index(path, text.encode())

    async def index(self, path: str, data: bytes, skip: SkipReason | None = None) -> int:
        """Index `data` as the content of a file, whatever is on disk."""
        parsed = parse(path, data)
        chunks = () if skip else chunk_file(parsed, chunker_limits(IndexingSettings()))
        vectors = await self.embedder.embed_documents(
            [f"{chunk.header}\n{chunk.text}" for chunk in chunks]
        )
        write = FileWrite(
            path_text(path.encode()),
            hash_content(data),
            None,
            parsed.language,
            chunks,
            vectors,
            parsed.report,
            skip,
            code=pack_code(parsed.symbols, b""),
            keywords=chunk_keywords,
        )
        return await self._at(path, await replace_file(self.db, self.record, write))

    async def delete(self, path: str) -> int:
        (self.root / path).unlink(missing_ok=True)
        return await self._at(path, await delete_file(self.db, self.record, path))

    async def ask(self, query: Query | str, trace: Trace | None = None) -> Answer:
        question = parse_query(query) if isinstance(query, str) else query
        return await self.pipeline.run(self.record, question, trace or Trace())

    async def _at(self, path: str, generation: int) -> int:
        """Do the daemon's work after a commit: words first, then the generation by which answers
        are kept.
        """
        if self.lexical is not None:
            await self.lexical.apply(
                Commit(self.record.name, generation, (path_text(path.encode()),))
            )
        self.record = replace(self.record, generation=max(self.record.generation, generation))
        return generation


async def new_corpus(
    db: Database,
    root: Path,
    files: Mapping[str, str] | None = None,
    *,
    name: str = "code",
    settings: SearchSettings | None = None,
    embedder: Embedder | None = None,
    pipeline: Pipeline | None = None,
    lexical: Path | None = None,
) -> Corpus:
    """`lexical` is where the lexical index keeps its snapshots; without it PostgreSQL answers
    alone, with the words of all chunks.
    """
    root.mkdir(parents=True, exist_ok=True)
    embedder = embedder or BuiltinEmbedder()
    fingerprint = embedder.fingerprint
    identity = IndexIdentity(
        fingerprint.pairs(), chunker_id(chunker_limits(IndexingSettings())), HEADER_VERSION
    )
    record = await create_index(
        db, name, bytes(root.resolve()), (), fingerprint.dimension, identity
    )
    if lexical is None:
        await fill_words(db, record, split_in_thread)
    words = LexicalIndex(db, record, lexical, DirectAnalyser()) if lexical is not None else None
    pipeline = pipeline or Pipeline(db, embedder, settings or SearchSettings(), lambda _: words)
    corpus = Corpus(db, root.resolve(), record, embedder, pipeline, words)
    for path, text in (files or {}).items():
        await corpus.save(path, text)
    if words is not None:
        await words.catch_up()
    return corpus
