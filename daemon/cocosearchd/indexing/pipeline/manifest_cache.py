"""Manifest cache: file manifests by path and content. A switch back to a branch describes nothing.

For a cached file nothing else is looked up: neither its language nor its parsed file. Texts are cut
out of the file only for chunks that are not stored.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from cocosearchd.indexing.pipeline.chunker import HEADER_VERSION
from cocosearchd.indexing.pipeline.file_manifest import FileManifest, pack_manifest, unpack_manifest
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.runtime.disk_cache import DiskCache
from cocosearchd.store.chunks.manifest import ROW_VERSION


class ManifestCache:
    """The file manifests of one index. Without a disk cache it is always empty. For any thread."""

    def __init__(self, rules: bytes, disk_cache: DiskCache | None) -> None:
        """`rules`: all inputs that shape rows except the file, with `ParseCache.code_digest`."""
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
        """Store manifests of files that are neither skipped nor failed to parse.

        A parser that took too long may not do so the next time.
        """
        if self._disk_cache is not None:
            self._disk_cache.put(
                [
                    (self._key(source), pack_manifest(manifest))
                    for source, manifest in manifests
                    if manifest.skip is None and manifest.report.status != "error"
                ]
            )

    def put_packed(self, source: SourceFile, manifest: FileManifest, raw: bytes) -> None:
        """Store a manifest that another process has packed as `raw`; see `put`."""
        if self._disk_cache is not None and manifest.report.status != "error":
            self._disk_cache.put([(self._key(source), raw)])

    def _key(self, source: SourceFile) -> bytes:
        path = source.path.encode("utf-8", "surrogatepass")
        text = self._rules_digest + source.content_hash + path
        return hashlib.blake2b(text, digest_size=16).digest()
