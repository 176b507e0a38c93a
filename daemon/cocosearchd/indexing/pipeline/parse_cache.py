"""What parsing and cutting found out of a content, kept by it: a branch that is switched back to
parses nothing.

A path is no part of it, but for the language that it gives: a file that is moved, copied or in a
worktree is known.
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
from cocosearchd.indexing.pipeline.chunker import Limits
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.pipeline.parse_result import ParsedFile, unpack_parsed_file
from cocosearchd.languages.parse import QueryOverrides, grammar_of
from cocosearchd.runtime.disk_cache import DiskCache

log = logging.getLogger(__name__)

# What outlines and sheets are made by, beside the settings: our own code, and the packages that
# parse and cut.
# beside all of `pipeline`
_MODULES = ("worker/row_maker.py", "pool/bulk_worker.py", "pool/parser_worker.py")
_PACKAGES = ("cocoindex", "tree-sitter", "tree-sitter-language-pack")


class ParseCache:
    """Keeps outlines by the rules of one index, where there is something to keep them in."""

    def __init__(
        self,
        limits: Limits,
        overrides: QueryOverrides,
        made_by: bytes,
        kept: DiskCache | None,
        counters: ReuseCounters,
    ) -> None:
        self._limits, self._overrides, self.disk_cache, self._counters = (
            limits,
            overrides,
            kept,
            counters,
        )
        self._counting = threading.Lock()
        self.code_digest = hashlib.blake2b(
            made_by + repr((limits, overrides)).encode(), digest_size=16
        ).digest()

    def get(self, keys: Sequence[bytes]) -> list[ParsedFile | None]:
        """Return for each key the outline that was made before, or None; blocking."""
        kept = self.disk_cache.get(keys) if self.disk_cache is not None else {}
        return [unpack_parsed_file(kept.get(key)) for key in keys]

    def put(self, key: bytes, packed: bytes | None) -> None:
        """Count a content as parsed; keep its outline, None where it is not worth keeping."""
        with self._counting:
            self._counters.parsed += 1
        if self.disk_cache is not None and packed is not None:
            self.disk_cache.put([(key, packed)])

    def flush_soon(self) -> None:
        """What was made is on disk in a while. For the event loop."""
        if self.disk_cache is not None:
            self.disk_cache.flush_soon()

    def key(self, source: SourceFile, language: str) -> bytes:
        """Return the key of a content as a file of this language, by the parsers and the rules of
        this index.
        """
        name = source.path.rpartition("/")[2] if self._limits.chunker == "recursive" else ""
        kind = f"{language} {grammar_of(source.path, language)} {name}"
        whole = self.code_digest + source.content_hash + kind.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(whole, digest_size=16).digest()


def open_disk_cache(path: Path, limit_bytes: int) -> DiskCache | None:
    """The file that outlines are kept in; None for 0 bytes, or where there cannot be one."""
    if limit_bytes <= 0:
        return None
    try:
        return DiskCache(path, limit_bytes)
    except (OSError, sqlite3.Error) as error:
        log.warning("not_kept", extra={"path": str(path), "error": str(error)})
        return None


def digest_pipeline_code() -> bytes:
    """What makes outlines and sheets, as a digest: other code may find other definitions in the
    same content.
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
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith((".py", ".scm")):
            yield entry
