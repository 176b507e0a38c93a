"""Settings that shape the rows of an index: its identity, and the shaping settings beside it. Pure.

Shaping settings hold a few settings of `indexing`, and for each language digests of its queries and of
its row in the table of languages, and its dialects with their versions. A new default counts like a new
value. A version that finds other symbols or facts in a language, or takes other files for it, reads the
files of that language again.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline.chunker import HEADER_VERSION, ChunkLimits, chunker_id
from cocosearchd.indexing.pipeline.embedding_text import embeds_path
from cocosearchd.indexing.pipeline.skip_rules import SkipRules
from cocosearchd.languages import blocks, language_table
from cocosearchd.languages.references import reference_query
from cocosearchd.languages.symbols import QueryOverrides, query_texts
from cocosearchd.model import EmbedderPairs, IndexIdentity
from cocosearchd.store.invalidation import NO_LIMIT, AffectedFiles

ShapingSettings = Mapping[str, str]

_WITHOUT_PATH = 100  # added to the version of headers

_QUERY = "query."  # prefix of a language
_LANGUAGE = "language."  # prefix of a language, too
_DIALECTS = "dialects."  # prefix of a language that has dialects
# Raise it if more values of symbols or facts are stored, or if the same queries give other symbols or
# facts: files with symbols are then read again. `tests/versions.py` notices a forgotten raise.
SYMBOLS_VERSION = 9
# The limit under which rows were written that name none: earlier versions stored only another one.
_EARLIER_MAX_FILE_BYTES = str(1 << 20)
# The dialects by which rows were written that name none: do not change them with the dialects.
_EARLIER_DIALECTS = {
    f"{_DIALECTS}gotemplate": "helm-template 1",
    f"{_DIALECTS}text": "helm-template 1",
    f"{_DIALECTS}yaml": (
        "github-actions 1, gitlab-ci 1, docker-compose 1, helm-chart 1, helm-template 1, "
        "helm-values 1, argocd 1, kubernetes 1, ansible 1"
    ),
}
_PRIVATE_KEY_TEXT = "PRIVATE KEY"  # text of every file that `skip_rules.is_secret` may exclude


def chunker_limits(indexing: IndexingSettings) -> ChunkLimits:
    """Return the chunker's part of the settings."""
    return ChunkLimits(indexing.chunker, indexing.chunk_size, indexing.chunk_overlap)


def skip_rules(indexing: IndexingSettings) -> SkipRules:
    """Return the part of the settings that decides which files are skipped."""
    names_files = bool(indexing.include or indexing.extend_include)
    return SkipRules(indexing.max_file_bytes, indexing.index_secrets, any_type=names_files)


def index_identity(embedder: EmbedderPairs, indexing: IndexingSettings) -> IndexIdentity:
    """Return the identity of an index, from an embedder's fingerprint pairs and the chunker."""
    version = HEADER_VERSION if embeds_path(embedder) else HEADER_VERSION + _WITHOUT_PATH
    return IndexIdentity(embedder, chunker_id(chunker_limits(indexing)), version)


def collect_shaping_settings(indexing: IndexingSettings, queries: QueryOverrides) -> dict[str, str]:
    """Return the settings that shape rows, beside the identity."""
    shaping_settings = {"max_file_bytes": str(indexing.max_file_bytes)}
    if indexing.index_secrets:
        shaping_settings["index_secrets"] = "true"
    if indexing.include or indexing.extend_include:
        shaping_settings["named"] = _digest(repr((indexing.include, indexing.extend_include)))
    return shaping_settings | digest_languages(queries)


def digest_languages(queries: QueryOverrides) -> dict[str, str]:
    """Return digests of each language: of the rules that recognise and cut its files, its dialects
    and its queries.
    """
    dialects = {f"{_DIALECTS}{base}": names for base, names in blocks.dialects_by_base().items()}
    return dialects | _digest_table() | _digest_queries(queries)


def _digest_table() -> dict[str, str]:
    """Return for each language a digest of the rules that recognise and cut its files."""
    return {
        f"{_LANGUAGE}{info.name}": _digest(
            repr((info.extensions, info.file_names, info.interpreters, info.grammar, info.chunking))
        )
        for info in language_table.languages()
    }


def _digest_queries(queries: QueryOverrides) -> dict[str, str]:
    """Return a digest of each language's queries, with the user's additions."""
    languages = {info.name for info in language_table.languages() if info.symbols} | {
        name.removesuffix(reference_query.SUFFIX) for name, _ in queries
    }
    return {
        f"{_QUERY}{language}": _digest(f"{SYMBOLS_VERSION} {query_texts(language, queries)}")
        for language in sorted(languages)
    }


def find_affected_files(stored: ShapingSettings, current: ShapingSettings) -> AffectedFiles:
    """Return the files to read again when shaping settings change from `stored` to `current`.

    It ignores the scope: a scan finds the files that enter and leave it.
    """
    stored = {"max_file_bytes": _EARLIER_MAX_FILE_BYTES} | _EARLIER_DIALECTS | dict(stored)
    names = stored.keys() | current.keys()
    changes = {name for name in names if stored.get(name) != current.get(name)}
    languages = _names_after(_QUERY, changes) + list(_languages_of_dialects(stored, changes))
    skipped = list[str]()
    if changed_languages := _names_after(_LANGUAGE, changes):
        # a script without extension: its interpreter may be known now
        skipped.append("unsupported")
        languages.append("")  # an unknown file type that the user includes
        if _names_after(_LANGUAGE, stored):  # an earlier version stored no digests of languages
            languages += changed_languages
    containing = ""
    limit = NO_LIMIT
    if "named" in changes:
        skipped.append("unsupported")  # an unknown file type is text where the user includes it
    if "index_secrets" in changes:
        skipped.append("secret")
        containing = _PRIVATE_KEY_TEXT
    if "max_file_bytes" in changes:
        skipped.append("too_large")
        limit = int(current["max_file_bytes"])
    return AffectedFiles(
        languages=tuple(_with_dialects(languages)),
        skipped=tuple(skipped),
        larger_than=limit,
        containing=containing,
    )


def _names_after(prefix: str, names: Iterable[str]) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def _languages_of_dialects(stored: ShapingSettings, changes: Iterable[str]) -> Iterator[str]:
    """Yield the languages whose dialects have changed, and the dialects that they had."""
    for base in _names_after(_DIALECTS, changes):
        yield base
        entries = stored.get(f"{_DIALECTS}{base}", "")
        yield from (entry.partition(" ")[0] for entry in entries.split(", ") if entry)


def _with_dialects(languages: Iterable[str]) -> Iterable[str]:
    """Return languages with their dialects: only the content of a file tells its dialect."""
    return sorted(
        {name for language in languages for name in (language, *blocks.language_dialects(language))}
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
