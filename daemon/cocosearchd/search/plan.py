"""Analyses a query into a `Plan`: a frozen, hashable value for retrieval and ranking. Pure.

A text and its options become one `Query`, whatever the number of indexes. Each index then has its
own plan.
"""

import hashlib
import re
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast, get_args

from cocosearchd.config.settings import MAX_RESULTS, Profile, RerankerName, SearchSettings
from cocosearchd.errors import InvalidInput
from cocosearchd.filters.filter_fields import FILTER_FIELDS, Filter, make_filter
from cocosearchd.filters.filter_values import check_choice
from cocosearchd.filters.inline_filters import (
    InlineQuery,
    has_line_breaks,
    is_phrase,
    parse_inline,
    parse_outer,
)
from cocosearchd.languages.identifiers import find_names
from cocosearchd.languages.stems import Stemmer
from cocosearchd.search.declaration_query import declared_name
from cocosearchd.search.lexical.analysis.terms import STOP_WORDS
from cocosearchd.search.listing.list_cursor import ListCursor, decode_cursor
from cocosearchd.search.reports.question_parts import MIN_REPORT
from cocosearchd.search.reports.report import Report, read_report
from cocosearchd.search.request_limits import (
    check_filters,
    check_question,
    check_range,
)

# Largest number of candidates per retriever in `classic` (CocoSearch, retrieval.md)
RRF_DEPTH = 100
# Candidates per result if a reranker runs (CocoRAG, reranker-design.md).
CANDIDATE_MULTIPLIER = 8
MAX_DEPTH = 800
# Candidates per retriever in `code`; recall@100 is complete on the development corpora.
CODE_DEPTH = 100

# CocoSearch, retrieval.md, "Query Analysis": camelCase, PascalCase, snake_case.
_PATTERN = re.compile(r"[a-z][A-Z]|[A-Z][a-z]+[A-Z]|[a-zA-Z0-9]_[a-zA-Z0-9]")
_TOKEN = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """Options of retrieval and ranking. `None` stands for the configured default.

    `min_relevance` is the least estimated probability, 0 to 1, that a hit answers the query.
    `min_evidence` is for saved queries, which have no other hits to compare with. The evidence of a
    chunk is 1 if it has every word of the query, else its cosine similarity to the query. With
    `collapse`, only one of a group of alike results is shown.
    """

    limit: int | None = None
    profile: str | None = None
    use_hybrid: bool | None = None
    reranker: str | None = None
    min_relevance: float = 0.0
    min_evidence: float = 0.0
    all_chunks: bool = False
    collapse: bool = True
    cursor: str | None = None  # continues a list of symbols


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """Options for showing hits. They are not part of a plan: the cache stores hits without context."""

    lines_before: int | None = None
    lines_after: int | None = None
    smart_context: bool = True
    budget_chars: int | None = None
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query to one or more indexes. Made by `parse_query`."""

    words: str  # the text without filters but with phrases, with single blanks
    where: Filter = field(default_factory=Filter)
    # indexes and topics that inline filters select
    indexes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    ranking: RankingOptions = field(default_factory=RankingOptions)
    view: ViewOptions = field(default_factory=ViewOptions)
    use_cache: bool = True
    why_not: str | None = None
    report: Report | None = None  # of a long question; `words` is its summary


# Names of all options of a query, from all groups, as in search requests.
_RANKING = tuple(option.name for option in fields(RankingOptions))
_VIEW = tuple(option.name for option in fields(ViewOptions))
_FILTERS = tuple(row.name for row in FILTER_FIELDS if not row.is_quoted)
QUERY_OPTIONS = (*_FILTERS, *_RANKING, *_VIEW, "use_cache", "why_not")


@dataclass(frozen=True, slots=True)
class Plan:
    """An analysed query. Everything that can change the hits or their order is a field."""

    # words without filters, with single blanks; for a declaration, the declared name
    text: str
    where: Filter
    profile: Profile
    limit: int
    depth: int  # candidates of each retriever
    uses_keywords: bool  # the keyword retriever runs beside the vector retriever
    identifiers: tuple[str, ...]  # names of code in the text
    reranker: RerankerName
    min_relevance: float
    all_chunks: bool
    listing: bool  # without words, only a symbol filter: lists symbols
    is_lexical_warm: bool = False  # the lexical index is warm and answers
    overlay: str = ""  # digest of the unsaved texts that are searched instead of files on disk
    min_evidence: float = 0.0
    collapse: bool = False  # only one of a group of alike results is shown
    cursor: ListCursor | None = None  # a list of symbols continues after this position
    report: Report | None = None  # of a long question; `text` is its summary
    uses_history: bool = False  # the history of an index orders the tail of its results


def digest(plan: Plan) -> bytes:
    """Return the SHA-256 of all fields of a plan. `repr` automatically covers new fields."""
    return hashlib.sha256(repr(plan).encode("utf-8", "surrogatepass")).digest()


def paraphrase_key(plan: Plan) -> Plan:
    """Return the plan with only its content words, as stems in alphabetical order.

    The hits of a question may answer another question only if both have the same key. Vectors alone
    do not suffice: the vectors of two long questions are nearly equal if the questions differ only
    in their most important word. The same holds for `getUserById` and `getUserByName`, so
    identifiers are also part of the key.
    """
    stem = Stemmer().stem
    words = set(_TOKEN.findall(plan.text.lower()))
    return replace(plan, text=" ".join(sorted(map(stem, words - STOP_WORDS or words))))


def parse_query(text: str, **options: Any) -> Query:
    """Parse a question: its text with inline filters, and any `QUERY_OPTIONS` as `options`.

    Raises `InvalidInput` for an invalid value; the error names the nearest valid value.
    """
    check_question(text)
    inline, report = split_question(text)
    option_filters = _take(options, tuple(row.name for row in FILTER_FIELDS))
    filters = {
        row.name: [*row.to_list(option_filters.get(row.name)), *inline.values.get(row.name, ())]
        for row in FILTER_FIELDS
    }
    check_filters([value for values in filters.values() for value in values if value])
    view = ViewOptions(**_take(options, _VIEW))
    _check_view(view)
    return Query(
        words=inline.words,
        where=make_filter(filters),
        indexes=tuple(inline.values.get("indexes", ())),
        topics=tuple(inline.values.get("topics", ())),
        ranking=RankingOptions(**_take(options, _RANKING)),
        view=view,
        report=report,
        **options,
    )


def split_question(text: str) -> tuple[InlineQuery, Report | None]:
    """Read the text of a question: with inline filters and phrases, or as a report.

    A report is a long line, or several lines without filters at their ends. Authors of reports mean
    no filters by what they write: of a long line only those at its ends count, and of long lines
    only a first line that has nothing else. For the same reason quotation marks make no phrases,
    unless they enclose all of a long line, or all line breaks of short lines.
    """
    stripped = text.strip()
    if "\n" not in stripped:
        inline, report_text = _split_line(stripped)
    elif len(stripped) < MIN_REPORT:
        inline, report_text = _split_short_lines(stripped)
    else:
        inline, report_text = _split_long_lines(stripped)
    if report_text is None:
        return inline, None
    report = read_report(report_text)
    return InlineQuery(report.summary, inline.values), report


def _split_line(line: str) -> tuple[InlineQuery, str | None]:
    """Split a line into filters, words and the text of a report, if it is one."""
    if len(line) >= MIN_REPORT:
        inline = parse_outer(line)
        if len(inline.words) >= MIN_REPORT and not is_phrase(inline.words):
            return inline, inline.words
    inline = parse_inline(line)
    return inline, inline.words if len(inline.words) >= MIN_REPORT else None


def _split_short_lines(lines: str) -> tuple[InlineQuery, str | None]:
    """Do the same with several lines that are shorter than `MIN_REPORT`."""
    if has_line_breaks(lines) and not parse_outer(lines).values:
        return InlineQuery(""), lines
    return parse_inline(lines), None


def _split_long_lines(lines: str) -> tuple[InlineQuery, str]:
    """Do the same with several lines of at least `MIN_REPORT` characters."""
    first, _, rest = lines.partition("\n")
    inline = parse_outer(first)
    if inline.values and not inline.words and rest.strip():
        return inline, rest
    return InlineQuery(""), lines


def _take(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Remove the named options from `options`, and return them."""
    return {name: options.pop(name) for name in names if name in options}


def fill_defaults(query: Query, settings: SearchSettings) -> Query:
    """Fill the ranking options that a query leaves open with values of settings.

    If only one index is asked, its own settings are filled in first, then those of the daemon.
    """
    options = query.ranking
    ranking = replace(
        options,
        limit=settings.limit if options.limit is None else options.limit,
        profile=options.profile or settings.profile,
        reranker=options.reranker or settings.reranker,
    )
    return replace(query, ranking=ranking)


def make_plan(query: Query, settings: SearchSettings) -> Plan:
    """Analyse a query. `settings` supply the open options.

    Raises `InvalidInput` for invalid ranking options.
    """
    listing = not query.words
    if listing and not query.where.has_symbols:
        raise InvalidInput(
            "the query is empty", "give some words, or a symbol filter to list symbols"
        )
    options = fill_defaults(query, settings).ranking
    profile = cast(Profile, check_choice("profile", options.profile or "", get_args(Profile)))
    reranker = cast(
        RerankerName, check_choice("reranker", options.reranker or "", get_args(RerankerName))
    )
    limit = options.limit or 0
    _check_bounds(limit, options)
    is_declaration = profile == "code" and query.report is None
    words = (declared_name(query.words) if is_declaration else None) or query.words
    return Plan(
        text=words,
        where=query.where,
        profile=profile,
        limit=limit,
        depth=_depth(profile, reranker, limit),
        uses_keywords=not listing and _use_keywords(profile, options.use_hybrid, words),
        identifiers=find_names(words),
        reranker=reranker,
        min_relevance=float(options.min_relevance),
        all_chunks=options.all_chunks,
        listing=listing,
        min_evidence=float(options.min_evidence),
        collapse=options.collapse and not (listing or options.all_chunks),
        cursor=_read_cursor(options.cursor, listing=listing),
        report=query.report,
        uses_history=profile == "code" and reranker == "disabled" and _can_use_history(query),
    )


def _can_use_history(query: Query) -> bool:
    """Return True if history may order the tail of the results of a query.

    Short questions name what they look for. Limits on relevance, phrases and `all_chunks` choose
    among places in another way: then the first results are not those of the first files.
    """
    options = query.ranking
    chooses_places = options.min_relevance or options.min_evidence or options.all_chunks
    return query.report is not None and not (chooses_places or query.where.phrases)


def _check_bounds(limit: int, options: RankingOptions) -> None:
    check_range("limit", limit, 1, MAX_RESULTS)
    if not 0 <= options.min_relevance <= 1:
        raise InvalidInput(
            f"min_relevance is {options.min_relevance}",
            "use 0 to 1: the probability that a result answers; 0.5 is more likely than not",
        )
    if not 0 <= options.min_evidence <= 1:
        raise InvalidInput(
            f"min_evidence is {options.min_evidence}",
            "use 0 to 1: 1 means every word, a lower value is a cosine similarity",
        )


def _read_cursor(text: str | None, *, listing: bool) -> ListCursor | None:
    if text is None:
        return None
    if not listing:
        raise InvalidInput(
            "only a list of symbols has a cursor", "leave out the words, or leave out the cursor"
        )
    return decode_cursor(text)


def _check_view(view: ViewOptions) -> None:
    for name, value in (("lines_before", view.lines_before), ("lines_after", view.lines_after)):
        if value is not None and value < 0:
            raise InvalidInput(f"{name} is {value}", "use 0 or more lines")
    for unit, budget in (("characters", view.budget_chars), ("tokens", view.budget_tokens)):
        if budget is not None and budget < 1:
            raise InvalidInput(f"the budget is {budget} {unit}", "use 1 or more")


def has_identifier_pattern(text: str) -> bool:
    """Return True if a text has a camelCase, PascalCase or snake_case part.

    `classic` also searches such a text by keywords.
    """
    return _PATTERN.search(text) is not None


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
