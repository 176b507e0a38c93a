"""What is embedded of chunks. Pure."""

from collections.abc import Iterable

from cocosearchd.model import Chunk

# With these a file that is moved is embedded again, since its path is part of the texts: it helps,
# and costs next to nothing. With a model behind a server it would cost what indexing the files did,
# so there a text has no path.
PATH_EMBEDDED = frozenset({"builtin"})


def build_embedding_texts(
    path: str, chunks: Iterable[Chunk], embedder: tuple[tuple[str, str], ...]
) -> list[str]:
    """What is embedded of the chunks of a file."""
    cut = "" if embeds_path(embedder) else path
    return [f"{one.header.removeprefix(cut).lstrip()}\n{one.text}" for one in chunks]


def embeds_path(embedder: tuple[tuple[str, str], ...]) -> bool:
    """Whether the path of a file is part of what is embedded; words are searched by path with any
    embedder.
    """
    return dict(embedder)["provider"] in PATH_EMBEDDED
