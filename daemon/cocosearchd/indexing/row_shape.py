"""What of the settings shapes the rows of an index: its identity, and what is noted beside it.
Pure.

Of settings, only what differs from the defaults is noted. Of symbol queries, each is noted as it is
in this version: a version that finds other symbols in a language reads the files of that language
again.
"""

import hashlib
from collections.abc import Iterable, Mapping

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline.chunker import HEADER_VERSION, Limits, chunker_id
from cocosearchd.indexing.pipeline.embedding_text import embeds_path
from cocosearchd.languages import blocks, language_table
from cocosearchd.languages.symbols import QueryOverrides, query_text
from cocosearchd.model import IndexIdentity
from cocosearchd.store.invalidation import NO_LIMIT, AffectedFiles

RowSettings = Mapping[str, str]

_WITHOUT_PATH = 100  # added to the version of headers

_QUERY = "query."  # and a language
_KEY = "PRIVATE KEY"  # what every file that `read.is_secret` may refuse has in it


def chunker_limits(indexing: IndexingSettings) -> Limits:
    """The chunker's share of the settings."""
    return Limits(indexing.chunker, indexing.chunk_size, indexing.chunk_overlap)


def index_identity(
    embedder: tuple[tuple[str, str], ...], indexing: IndexingSettings
) -> IndexIdentity:
    """What an embedder (pairs of its fingerprint) and the chunker make of an index."""
    version = HEADER_VERSION if embeds_path(embedder) else HEADER_VERSION + _WITHOUT_PATH
    return IndexIdentity(embedder, chunker_id(chunker_limits(indexing)), version)


def collect_row_settings(indexing: IndexingSettings, queries: QueryOverrides) -> dict[str, str]:
    """What beside the identity shapes rows."""
    plain, noted = IndexingSettings(), dict[str, str]()
    if indexing.max_file_bytes != plain.max_file_bytes:
        noted["max_file_bytes"] = str(indexing.max_file_bytes)
    if indexing.index_secrets:
        noted["index_secrets"] = "true"
    if indexing.include or indexing.extend_include:
        noted["named"] = _digest(repr((indexing.include, indexing.extend_include)))
    return noted | digest_queries(queries)


def digest_queries(queries: QueryOverrides) -> dict[str, str]:
    """What finds the symbols of each language that has any: the built-in query with the user's
    additions.
    """
    languages = {info.name for info in language_table.languages() if info.symbols} | {
        language for language, _ in queries
    }
    return {
        f"{_QUERY}{language}": _digest(query_text(language, queries))
        for language in sorted(languages)
    }


def find_affected_files(before: RowSettings, now: RowSettings) -> AffectedFiles:
    """The files that are to be read again when the rows were made with `before` and shall be made
    with `now`.

    What is in the scope is no matter of this: a scan finds files that come and go.
    """
    differ = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    languages = [name.removeprefix(_QUERY) for name in differ if name.startswith(_QUERY)]
    skipped, holding, limit = list[str](), "", NO_LIMIT
    if "named" in differ:
        skipped.append("unsupported")  # files of no known type are texts where the user names them
    if "index_secrets" in differ:
        skipped.append("secret")
        holding = _KEY
    if "max_file_bytes" in differ:
        skipped.append("too_large")
        limit = int(now.get("max_file_bytes", IndexingSettings().max_file_bytes))
    return AffectedFiles(
        languages=tuple(_kinds(languages)),
        skipped=tuple(skipped),
        larger_than=limit,
        containing=holding,
    )


def _kinds(languages: Iterable[str]) -> Iterable[str]:
    """Languages with the kinds of them that are told apart by content."""
    return sorted(
        {kind for language in languages for kind in (language, *blocks.language_kinds(language))}
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
