"""Texts of chunks for the embedder. Pure.

If texts change, raise `chunker.HEADER_VERSION`.
"""

from collections.abc import Iterable

from cocosearchd.model import Chunk, EmbedderPairs

# With these providers the path is part of the text, which helps the ranking. A moved file is then
# embedded again, at almost no cost. With a model server that would cost as much as the first
# indexing, so its texts have no path.
PATH_EMBEDDED = frozenset({"builtin"})


def build_embedding_texts(path: str, chunks: Iterable[Chunk], embedder: EmbedderPairs) -> list[str]:
    """Return the text to embed for each chunk of a file: header and text."""
    removed_prefix = "" if embeds_path(embedder) else path
    return [
        f"{chunk.header.removeprefix(removed_prefix).lstrip()}\n{chunk.text}" for chunk in chunks
    ]


def embeds_path(embedder: EmbedderPairs) -> bool:
    """Return true if the embedded text has the path. Keywords have it with any embedder."""
    return dict(embedder)["provider"] in PATH_EMBEDDED
