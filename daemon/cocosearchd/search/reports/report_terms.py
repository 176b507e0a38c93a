"""Terms of a report, each weighed by the parts that have it. Pure but for caches."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cocosearchd.languages.identifiers import strip_accents
from cocosearchd.search.lexical.analysis.terms import (
    PROJECT_TERM_WEIGHT,
    STOP_WORDS,
    WORD,
    QueryTerms,
    TermCache,
    term_hash,
)
from cocosearchd.search.reports.question_parts import PartKind, QuestionPart
from cocosearchd.search.reports.report import Report, without_addresses

# Weight of a term by the kind of the part that has it. Chosen by reasoning, before the weights of
# signals were fitted: what the author points out counts more than what programs print.
PART_WEIGHTS: Mapping[PartKind, float] = {
    "title": 1.0,
    "inline_code": 0.6,
    "prose": 0.35,
    "code": 0.25,
    "output": 0.2,
}
# Repetitions in one kind of part that count, by their square root.
MAX_REPETITIONS = 3
# Terms of a question, the heaviest: a term costs some ten microseconds at 100,000 chunks.
MAX_TERMS = 250
MAX_NAME_WORDS = 40  # words that explain names of files
MAX_IDENTIFIERS = 250


def report_query_terms(
    report: Report, cache: TermCache, project: str = "", common: Collection[str] = ()
) -> QueryTerms:
    """Return the terms of a report. `project` and `common` are as for `TermCache.make_query_terms`."""
    pointed_out = without_addresses(
        " ".join(part.text for part in report.parts if part.kind in {"title", "inline_code"})
    )
    base = cache.make_query_terms(pointed_out or report.title, project, common)
    weights = _term_weights(report.parts, cache, STOP_WORDS.union(common))
    project_terms = {term for word in WORD.findall(project) for term in cache.split_word(word)}
    for term in project_terms & weights.keys():
        weights[term] *= PROJECT_TERM_WEIGHT
    heaviest = sorted(weights, key=lambda term: -weights[term])[:MAX_TERMS]
    terms = tuple((term_hash(term), weights[term]) for term in heaviest)
    return replace(
        base,
        is_name=False,
        terms=terms or base.terms,
        words=base.words[:MAX_NAME_WORDS],
        shares=base.shares[:MAX_NAME_WORDS],
        identifiers=_identifiers(report),
    )


def _term_weights(
    parts: Iterable[QuestionPart], cache: TermCache, stop_words: Collection[str]
) -> dict[str, float]:
    """Return the weight of each term: over kinds of parts, the root of how often it is there."""
    counts = {kind: Counter[str]() for kind in PART_WEIGHTS}
    for part in parts:
        if part.kind in counts:
            counts[part.kind].update(
                term
                for word in WORD.findall(strip_accents(without_addresses(part.text)))
                if word.lower() not in stop_words
                for term in cache.split_word(word)
            )
    weights = dict[str, float]()
    for kind, count_by_term in counts.items():
        for term, count in count_by_term.items():
            root = min(count, MAX_REPETITIONS) ** 0.5
            weights[term] = weights.get(term, 0.0) + PART_WEIGHTS[kind] * root
    return weights


def message_terms(
    report: Report, cache: TermCache, common: Collection[str] = ()
) -> tuple[tuple[int, ...], ...]:
    """Return the hashes of the terms of each quoted message, stop words left out."""
    stop_words = STOP_WORDS.union(common)
    return tuple(
        tuple(
            dict.fromkeys(
                term_hash(term)
                for word in WORD.findall(strip_accents(message))
                if word.lower() not in stop_words
                for term in cache.split_word(word)
            )
        )
        for message in report.messages
    )


def _identifiers(report: Report) -> tuple[str, ...]:
    """Return the names of code that the parts mention, those of the title first."""
    names = dict.fromkeys(
        name
        for group in report.mentions.names.values()
        for name in group
        if "_" in name.strip("_") or not (name.islower() or name.istitle())
    )
    return tuple(names)[:MAX_IDENTIFIERS]
