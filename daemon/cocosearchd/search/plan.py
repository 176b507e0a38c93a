"""Analyse a query into a `Plan`: frozen, hashable, all that retrieval and ranking need. Pure.

Filters may stand inside the text: `lang:go`, `path:src/**`, `-path:vendor`, `sym:function`,
`name:User*`, `index:a`, `topic:b`, and `"exact phrases"`, inside of which blanks are as typed.
Lists are separated by commas. A word with a colon that is none of these (`std::vector`, `http://x`)
is an ordinary word.
"""

import difflib
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from cocosearchd.config.settings import SearchSettings
from cocosearchd.errors import InvalidInput
from cocosearchd.languages import blocks, language_table
from cocosearchd.languages.stems import Stemmer
from cocosearchd.languages.symbols import FUNCTION_KINDS, MINOR_KINDS, TYPE_KINDS
from cocosearchd.model import Filter, encode_path
from cocosearchd.search.declaration_query import declared_name
from cocosearchd.search.lexical.analysis.terms import STOP_WORDS
from cocosearchd.search.query_bounds import check_filters, check_question

Profile = Literal["code", "classic"]
RerankerName = Literal["auto", "functional", "spacy", "disabled"]

# Symbol type of a query -> kinds as stored. The four documented types include the names that other
# languages have for the same thing.
SYMBOL_TYPES: dict[str, tuple[str, ...]] = {
    kind: (kind,) for kind in TYPE_KINDS | FUNCTION_KINDS | MINOR_KINDS
} | {
    "function": ("function", "macro"),
    "method": ("method", "constructor"),
    "class": (
        "class",
        "struct",
        "enum",
        "union",
        "record",
        "object",
        "actor",
        "contract",
        "extension",
    ),
    "interface": ("interface", "trait", "protocol", "type"),
}
MAX_LIMIT = 200
RRF_DEPTH = 100  # most candidates of a retriever in `classic` (CocoSearch, retrieval.md)
# CocoRAG, reranker-design.md: candidates fetched for each result when a reranker runs
CANDIDATE_MULTIPLIER = 8
MAX_DEPTH = 800
# candidates of each retriever in `code`; recall@100 is complete on the development corpora
CODE_DEPTH = 100

_FILTER = re.compile(r'(?<!\S)(-?)(language|lang|path|sym|name|index|topic):("[^"]+"|[^\s"]+)')
_PHRASE = re.compile(r'(?<!\S)"([^"]+)"(?!\S)')
# CocoSearch, retrieval.md, "Query Analysis": camelCase, PascalCase, snake_case.
_PATTERN = re.compile(r"[a-z][A-Z]|[A-Z][a-z]+[A-Z]|[a-zA-Z0-9]_[a-zA-Z0-9]")
_WORD = re.compile(r"[^\W\d]\w*")
_TOKEN = re.compile(r"\w+")
_QUALIFIER = re.compile(r"::|->|\\|\.")


@dataclass(frozen=True, slots=True)
class Query:
    """A query to one or more indexes, as a client sends it. `None` takes the configured default.

    `min_score` is compared with a hit's *relevance*, which lies in 0..1 in every mode: 1 for a
    chunk that has every word of the query, otherwise its cosine similarity to the query (see
    `ranking.relevance`).
    """

    text: str
    limit: int | None = None
    languages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    not_paths: tuple[str, ...] = ()
    symbol_types: tuple[str, ...] = ()
    symbol_name: str | None = None
    profile: str | None = None
    use_hybrid: bool | None = None
    reranker: str | None = None
    min_score: float = 0.0
    all_chunks: bool = False
    lines_before: int | None = None
    lines_after: int | None = None
    smart_context: bool = True
    budget_chars: int | None = None
    budget_tokens: int | None = None
    use_cache: bool = True
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """Settings of how hits are shown. Not part of a plan: the cache stores hits without context."""

    lines_before: int | None = None
    lines_after: int | None = None
    smart: bool = True
    budget_chars: int | None = None
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """An analysed query. Everything that can change the hits or their order is a field."""

    # the words without filters, with single blanks; for a declaration, the declared name
    text: str
    where: Filter
    profile: Profile
    limit: int
    depth: int  # candidates of each retriever
    keyword: bool  # the keyword retriever runs beside the vector retriever
    identifiers: tuple[str, ...]  # names of code in the text
    reranker: RerankerName
    min_score: float
    all_chunks: bool
    listing: bool  # no words, only a symbol filter: list symbols
    lexical: bool = False  # the lexical index is warm, and answers
    overlay: str = ""  # digest of the unsaved text that is searched in place of files on disk


@dataclass(frozen=True, slots=True)
class InlineQuery:
    """The words, phrases and inline filters of a query's text."""

    words: str
    phrases: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    not_paths: tuple[str, ...] = ()
    symbol_types: tuple[str, ...] = ()
    symbol_names: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


def language_names() -> dict[str, tuple[str, ...]]:
    """Map every name and alias that people filter by, in lower case, to language ids.

    A language includes its kinds: `yaml` finds workflows and manifests too.
    """
    names: dict[str, tuple[str, ...]] = {kind.name: (kind.name,) for kind in blocks.GRAMMARS}
    for info in language_table.languages():
        names |= dict.fromkeys((*info.aliases, info.name), blocks.language_kinds(info.name))
    return names


def digest(plan: Plan) -> bytes:
    """Return the SHA-256 over every field of a plan: `repr` covers new fields without more code."""
    return hashlib.sha256(repr(plan).encode("utf-8", "surrogatepass")).digest()


def paraphrase_key(plan: Plan) -> Plan:
    """Return the plan with its content words alone, as stems in alphabetical order.

    Two questions must share this key before the hits of one may answer the other. To a vector,
    long questions are nearly the same that differ in the one word they are about; so are
    `getUserById` and `getUserByName`, which is why identifiers stay as well.
    """
    stem = Stemmer().stem
    words = set(_TOKEN.findall(plan.text.lower()))
    return replace(plan, text=" ".join(sorted(map(stem, words - STOP_WORDS or words))))


def parse_inline(text: str) -> InlineQuery:
    """Take the inline filters and phrases out of a query's text. Raises `InvalidInput`."""
    values_by_key: dict[str, list[str]] = {}
    for match in _FILTER.finditer(text):
        sign, key, value = match.groups()
        if sign and key != "path":
            raise InvalidInput(f"{match[0]!r} cannot be negated", "only -path: excludes")
        values_by_key.setdefault(sign + ("lang" if key == "language" else key), []).append(
            value.strip('"')
        )
    rest = _FILTER.sub(" ", text)
    return InlineQuery(
        words=" ".join(_PHRASE.sub(r" \1 ", rest).split()),
        phrases=tuple(phrase.strip() for phrase in _PHRASE.findall(rest) if phrase.strip()),
        languages=_split_commas(values_by_key.get("lang", ())),
        paths=tuple(values_by_key.get("path", ())),
        not_paths=tuple(values_by_key.get("-path", ())),
        symbol_types=_split_commas(values_by_key.get("sym", ())),
        symbol_names=tuple(values_by_key.get("name", ())),
        indexes=_split_commas(values_by_key.get("index", ())),
        topics=_split_commas(values_by_key.get("topic", ())),
    )


def make_plan(
    query: Query, settings: SearchSettings, languages: Mapping[str, tuple[str, ...]]
) -> Plan:
    """Analyse a query. `languages` maps every valid name and alias, in lower case, to language ids.

    Raises `InvalidInput` for values outside of the documented ones, naming the nearest valid one.
    """
    check_question(query.text)
    inline = parse_inline(query.text)
    check_filters(_all_filters(query, inline))
    where = _make_filter(query, inline, languages)
    listing = not inline.words
    if listing and not where.symbol_types and where.symbol_name is None:
        raise InvalidInput(
            "the query is empty", "give some words, or a symbol filter to list symbols"
        )
    profile = cast(
        Profile, check_choice("profile", query.profile or settings.profile, get_args(Profile))
    )
    reranker = cast(
        RerankerName,
        check_choice("reranker", query.reranker or settings.reranker, get_args(RerankerName)),
    )
    limit = settings.limit if query.limit is None else query.limit
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit is {limit}", f"use 1 to {MAX_LIMIT}")
    if not 0 <= query.min_score <= 1:
        raise InvalidInput(
            f"min_score is {query.min_score}",
            "use 0 to 1: 1 means every word, a lower value is a cosine similarity",
        )
    words = (declared_name(inline.words) if profile == "code" else None) or inline.words
    return Plan(
        text=words,
        where=where,
        profile=profile,
        limit=limit,
        depth=_depth(profile, reranker, limit),
        keyword=not listing and _use_keywords(profile, query.use_hybrid, words),
        identifiers=identifiers(words),
        reranker=reranker,
        min_score=float(query.min_score),
        all_chunks=query.all_chunks,
        listing=listing,
    )


def make_view(query: Query) -> ViewOptions:
    """Return the view options of a query. Raises `InvalidInput`."""
    for name, value in (("lines_before", query.lines_before), ("lines_after", query.lines_after)):
        if value is not None and value < 0:
            raise InvalidInput(f"{name} is {value}", "use 0 or more lines")
    for unit, budget in (("characters", query.budget_chars), ("tokens", query.budget_tokens)):
        if budget is not None and budget < 1:
            raise InvalidInput(f"the budget is {budget} {unit}", "use 1 or more")
    return ViewOptions(
        query.lines_before,
        query.lines_after,
        query.smart_context,
        query.budget_chars,
        query.budget_tokens,
    )


def has_identifier_pattern(text: str) -> bool:
    """Return True for a text with a camelCase, PascalCase or snake_case part.

    `classic` searches such a text by keywords as well.
    """
    return _PATTERN.search(text) is not None


def identifiers(text: str) -> tuple[str, ...]:
    """Return the names of code in a query.

    A text without blanks is a name, as is its last part; of other texts, the compound words are.

    >>> identifiers("http.Client"), identifiers("where is parse_config used")
    (('http.Client', 'Client'), ('parse_config',))
    >>> identifiers("parse the config")
    ()
    """
    if text and " " not in text:
        return tuple(dict.fromkeys((text, _QUALIFIER.split(text)[-1] or text)))
    return tuple(
        dict.fromkeys(word for word in _WORD.findall(text) if has_identifier_pattern(word))
    )


def _use_keywords(profile: Profile, use_hybrid: bool | None, words: str) -> bool:
    if use_hybrid is not None:
        return use_hybrid
    return profile == "code" or has_identifier_pattern(words)


def _depth(profile: Profile, reranker: RerankerName, limit: int) -> int:
    if reranker != "disabled":
        return min(limit * CANDIDATE_MULTIPLIER, MAX_DEPTH)
    if profile == "classic":
        return min(2 * limit, RRF_DEPTH)
    return max(CODE_DEPTH, 2 * limit)


def make_relative(where: Filter, root: bytes) -> Filter:
    """Make the absolute paths of a filter relative to a root, if they lie below it."""
    start = encode_path(root.rstrip(b"/"))

    def relative(glob: str) -> str:
        is_below = glob == start or glob.startswith(f"{start}/")
        return (glob[len(start) :].rstrip("/") or "/**") if is_below else glob

    return replace(
        where,
        paths=_sort_unique(map(relative, where.paths)),
        not_paths=_sort_unique(map(relative, where.not_paths)),
    )


def _all_filters(query: Query, inline: InlineQuery) -> tuple[str, ...]:
    """Return all filters of a query, inside its text and beside it."""
    query_filters = (
        *query.languages,
        *query.paths,
        *query.not_paths,
        *query.symbol_types,
        query.symbol_name or "",
    )
    inline_filters = (
        *inline.languages,
        *inline.paths,
        *inline.not_paths,
        *inline.symbol_types,
        *inline.symbol_names,
    )
    return tuple(filter(None, (*query_filters, *inline_filters, *inline.phrases)))


def _make_filter(
    query: Query, inline: InlineQuery, languages: Mapping[str, tuple[str, ...]]
) -> Filter:
    names = {query.symbol_name, *inline.symbol_names} - {None, ""}
    if len(names) > 1:
        raise InvalidInput("more than one symbol name", "use one, with * and ? as wildcards")
    language_filters = (name.lower() for name in (*query.languages, *inline.languages))
    kinds = (*query.symbol_types, *inline.symbol_types)
    paths = (*query.paths, *inline.paths)
    negated_paths = tuple(path for path in paths if path.startswith("!"))  # as in an ignore file
    return Filter(
        languages=_sort_unique(
            language_id
            for name in language_filters
            for language_id in languages[check_choice("language", name, languages)]
        ),
        paths=_sort_unique(_glob(path) for path in paths if not path.startswith("!")),
        not_paths=_sort_unique(
            _glob(path.removeprefix("!"))
            for path in (*query.not_paths, *inline.not_paths, *negated_paths)
        ),
        symbol_types=_sort_unique(
            stored_kind
            for kind in kinds
            for stored_kind in SYMBOL_TYPES[
                check_choice(
                    "symbol type", kind.lower(), SYMBOL_TYPES, f"name:{kind} is for a name"
                )
            ]
        ),
        symbol_name=names.pop() if names else None,
        phrases=_sort_unique(inline.phrases),
    )


def _glob(path: str) -> str:
    """Convert a path filter into a glob of an ignore file; `./` anchors it at the root."""
    pattern = path.strip()
    if pattern.startswith("./"):
        pattern = pattern[1:]
    if not pattern.strip("/"):
        raise InvalidInput(
            f"{path!r} is not a path filter", "write for example path:src/** or path:*.py"
        )
    return pattern


def _split_commas(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(",") if part)


def _sort_unique(values: Iterable[str]) -> tuple[str, ...]:
    """Sort alternatives of a filter without repetitions: equal questions get equal plans."""
    return tuple(sorted(set(values)))


def check_choice(what: str, value: str, valid: Iterable[str], also: str = "") -> str:
    """Return `value` if it is valid. Raises `InvalidInput` with the nearest valid ones, then
    `also`.
    """
    options = sorted(valid)
    if value in options:
        return value
    # After a typing error, the nearest names help more than the list of all.
    near = difflib.get_close_matches(value, options, 3, 0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(options)}"
    raise InvalidInput(
        f"unknown {what} {value!r}", f"{hint}{' ' if near else '; '}{also}" if also else hint
    )
