"""What a file is compared and stored by, kept by path and content: a branch that is switched back
to describes nothing.

Of a file that is known in this way nothing is looked up but this: neither its language nor its
outline. Its texts are cut out of it, and only those of chunks that are not stored.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from cocosearchd.indexing.pipeline.chunker import HEADER_VERSION
from cocosearchd.indexing.pipeline.file_manifest import FileManifest, pack_manifest, unpack_manifest
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.runtime.disk_cache import DiskCache
from cocosearchd.store.chunks.manifest import ROW_VERSION


class ManifestCache:
    """Those of one index, kept where there is something to keep them in. For any thread."""

    def __init__(self, shaped_by: bytes, kept: DiskCache | None) -> None:
        """`shaped_by`: all that shapes rows apart from the file itself, for what code does see
        `outlines.code_digest`.
        """
        versions = f" {ROW_VERSION} {HEADER_VERSION}".encode()
        self._made_by = hashlib.blake2b(b"sheet " + shaped_by + versions, digest_size=16).digest()
        self._kept = kept

    def get(self, sources: Sequence[SourceFile]) -> list[FileManifest | None]:
        """For each file: as it was made before, at this path, from these bytes."""
        keys = [self._key(source) for source in sources]
        kept: Mapping[bytes, bytes] = self._kept.get(keys) if self._kept is not None else {}
        return [unpack_manifest(kept.get(key)) for key in keys]

    def put(self, sheets: Iterable[tuple[SourceFile, FileManifest]]) -> None:
        """Keep what was made of files that were looked into.

        A parser that took too long may not do so the next time: what could not be parsed is left
        out.
        """
        if self._kept is not None:
            kept = (
                file for file in sheets if file[1].skip is None and file[1].report.status != "error"
            )
            self._kept.put([(self._key(source), pack_manifest(one)) for source, one in kept])

    def put_packed(self, source: SourceFile, sheet: FileManifest, raw: bytes) -> None:
        """As `keep`, of a sheet that another process has packed: raw."""
        if self._kept is not None and sheet.report.status != "error":
            self._kept.put([(self._key(source), raw)])

    def _key(self, source: SourceFile) -> bytes:
        whole = self._made_by + source.content_hash + source.path.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(whole, digest_size=16).digest()
