"""Manifest cache: file manifests by path and content, so a switch back to a branch parses nothing.

For a cached file nothing else is looked up, not even its language. Texts are cut out of the file
only for chunks that are not stored.
"""

import hashlib
import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cocosearchd.indexing.pipeline.chunker import HEADER_VERSION
from cocosearchd.indexing.pipeline.file_manifest import FileManifest, pack_manifest, unpack_manifest
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.runtime.disk_cache import DiskCache, remove_file
from cocosearchd.store.chunks.manifest import ROW_VERSION

log = logging.getLogger(__name__)

_FILE = "manifests.sqlite"
# The file of earlier versions, which had parse results as well. It is removed.
_OLD_FILE = "outlines.sqlite"


class ManifestCache:
    """The file manifests of one index. Without a disk cache it is always empty. For any thread."""

    def __init__(self, rules: bytes, disk_cache: DiskCache | None) -> None:
        """`rules`: all inputs that shape rows except the file, with `ContentKeys.code_digest`."""
        versions = f" {ROW_VERSION} {HEADER_VERSION}".encode()
        self._rules_digest = hashlib.blake2b(
            b"manifest " + rules + versions, digest_size=16
        ).digest()
        self._disk_cache = disk_cache

    def get(self, sources: Sequence[SourceFile]) -> list[FileManifest | None]:
        """Return for each file its manifest by path and content; None if it is not cached."""
        keys = [self._key(source) for source in sources]
        values: Mapping[bytes, bytes] = {}
        if self._disk_cache is not None:
            values = self._disk_cache.get(keys)
        return [unpack_manifest(values.get(key)) for key in keys]

    def put(self, manifests: Iterable[tuple[SourceFile, FileManifest]]) -> None:
        """Store the manifests of files; skipped files are left out."""
        self.put_packed(
            (source, pack_manifest(manifest))
            for source, manifest in manifests
            if manifest.skip is None
        )

    def put_packed(self, manifests: Iterable[tuple[SourceFile, bytes]]) -> None:
        """Store manifests that are packed already."""
        if self._disk_cache is not None:
            self._disk_cache.put([(self._key(source), packed) for source, packed in manifests])

    def flush_soon(self) -> None:
        """Write new manifests to disk soon. Call it in the event loop."""
        if self._disk_cache is not None:
            self._disk_cache.flush_soon()

    def _key(self, source: SourceFile) -> bytes:
        path = source.path.encode("utf-8", "surrogatepass")
        text = self._rules_digest + source.content_hash + path
        return hashlib.blake2b(text, digest_size=16).digest()


def open_manifest_file(folder: Path, limit_bytes: int) -> DiskCache | None:
    """Open the file of manifests in `folder`; None for 0 bytes, or if it cannot be opened."""
    path = folder / _FILE
    try:
        remove_file(folder / _OLD_FILE)
        return DiskCache(path, limit_bytes, compress=True) if limit_bytes > 0 else None
    except (OSError, sqlite3.Error) as error:
        log.warning("manifest_cache_unusable", extra={"path": str(path), "error": str(error)})
        return None
