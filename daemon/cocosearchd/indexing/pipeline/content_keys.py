"""Keys of contents by the code and the rules that parse them: equal keys give equal parsed files.

The path is not part of the key, except for the language that it implies.
"""

import hashlib
from collections.abc import Iterator
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from itertools import chain

from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.languages.parse import QueryOverrides, grammar_of

# The code that shapes parsed files and manifests: our modules, and the packages that parse and cut.
# All modules of `pipeline` and `languages` count as well.
_MODULES = ("indexer/row_maker.py", "pool/bulk_worker.py", "pool/parser_worker.py")
_PACKAGES = ("cocoindex", "tree-sitter", "tree-sitter-language-pack")


class ContentKeys:
    """Keys of contents by the rules of one index."""

    def __init__(
        self, limits: ChunkLimits, overrides: QueryOverrides, pipeline_digest: bytes
    ) -> None:
        """`pipeline_digest` is the result of `digest_pipeline_code`."""
        self._limits = limits
        self.code_digest = hashlib.blake2b(
            pipeline_digest + repr((limits, overrides)).encode(), digest_size=16
        ).digest()

    def key(self, source: SourceFile, language: str) -> bytes:
        """Return the key of a content in a language, by the parsers and the rules of this index."""
        name = source.path.rpartition("/")[2] if self._limits.chunker == "recursive" else ""
        kind = f"{language} {grammar_of(source.path, language)} {name}"
        text = self.code_digest + source.content_hash + kind.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).digest()


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
