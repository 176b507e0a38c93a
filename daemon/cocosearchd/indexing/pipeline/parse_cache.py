"""Parse cache: parsed files by content. A switch back to a branch parses nothing.

The path is not part of the key, except for the language that it implies: moved files, copies and
files of a worktree are cached.
"""

import hashlib
import logging
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from itertools import chain
from pathlib import Path

from cocosearchd.embedding.caching import ReuseCounters
from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.pipeline.parse_result import ParsedFile, unpack_parsed_file
from cocosearchd.languages.parse import QueryOverrides, grammar_of
from cocosearchd.runtime.disk_cache import DiskCache

log = logging.getLogger(__name__)

# The code that shapes parsed files and manifests: our modules, and the packages that parse and cut.
# All modules of `pipeline` and `languages` count as well.
_MODULES = ("worker/row_maker.py", "pool/bulk_worker.py", "pool/parser_worker.py")
_PACKAGES = ("cocoindex", "tree-sitter", "tree-sitter-language-pack")


class ParseCache:
    """Parsed files by the rules of one index. Without a disk cache it is always empty."""

    def __init__(
        self,
        limits: ChunkLimits,
        overrides: QueryOverrides,
        pipeline_digest: bytes,
        disk_cache: DiskCache | None,
        counters: ReuseCounters,
    ) -> None:
        """`pipeline_digest` is that of `digest_pipeline_code`."""
        self._limits = limits
        self._overrides = overrides
        self.disk_cache = disk_cache
        self._counters = counters
        self._counter_lock = threading.Lock()
        self.code_digest = hashlib.blake2b(
            pipeline_digest + repr((limits, overrides)).encode(), digest_size=16
        ).digest()

    def get(self, keys: Sequence[bytes]) -> list[ParsedFile | None]:
        """Return for each key the cached parsed file, or None; blocking."""
        values = self.disk_cache.get(keys) if self.disk_cache is not None else {}
        return [unpack_parsed_file(values.get(key)) for key in keys]

    def put(self, key: bytes, packed: bytes | None) -> None:
        """Count a content as parsed, and store its packed parsed file unless it is None."""
        with self._counter_lock:
            self._counters.parsed += 1
        if self.disk_cache is not None and packed is not None:
            self.disk_cache.put([(key, packed)])

    def flush_soon(self) -> None:
        """Write new entries to disk soon. Call it in the event loop."""
        if self.disk_cache is not None:
            self.disk_cache.flush_soon()

    def key(self, source: SourceFile, language: str) -> bytes:
        """Return the key of a content in a language, by the parsers and the rules of this index."""
        name = source.path.rpartition("/")[2] if self._limits.chunker == "recursive" else ""
        kind = f"{language} {grammar_of(source.path, language)} {name}"
        text = self.code_digest + source.content_hash + kind.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).digest()


def open_disk_cache(path: Path, limit_bytes: int) -> DiskCache | None:
    """Open the file of the parse cache. Return None for 0 bytes, or if it cannot be opened."""
    if limit_bytes <= 0:
        return None
    try:
        return DiskCache(path, limit_bytes, compress=True)
    except (OSError, sqlite3.Error) as error:
        log.warning("parse_cache_unusable", extra={"path": str(path), "error": str(error)})
        return None


def digest_pipeline_code() -> bytes:
    """Return a digest of the code that shapes parsed files and manifests.

    Other code may find other definitions in the same content.
    """
    digest = hashlib.blake2b(digest_size=16)
    for package in _PACKAGES:
        digest.update(f"{package} {metadata.version(package)}\n".encode())
    daemon = resources.files("cocosearchd")
    indexing = daemon / "indexing"
    values = daemon / "model.py", daemon / "store" / "chunks" / "manifest.py"
    folders = daemon / "languages", indexing / "pipeline"
    sources = chain.from_iterable(map(_sources, folders))
    for file in (*sources, *(indexing / name for name in _MODULES), *values):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.digest()


def _sources(folder: Traversable) -> Iterator[Traversable]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith((".py", ".scm")):
            yield entry
