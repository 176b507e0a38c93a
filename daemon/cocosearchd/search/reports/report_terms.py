"""Computes the terms of a report, weighted by the parts that contain them. Pure, except for caches."""

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

# Weight of a term by the kind of its part. Chosen by reasoning, before the weights of signals were
# fitted: the author's own words count more than the output of programs.
PART_WEIGHTS: Mapping[PartKind, float] = {
    "title": 1.0,
    "inline_code": 0.6,
    "prose": 0.35,
    "code": 0.25,
    "output": 0.2,
}
# Counted repetitions in one kind of part; they count by their square root.
MAX_REPETITIONS = 3
# Terms of a question: those with the largest weights. At 100,000 chunks, a term costs some ten
# microseconds.
MAX_TERMS = 250
MAX_NAME_WORDS = 40  # words that are matched with names of files
MAX_IDENTIFIERS = 250


def report_query_terms(
    report: Report, cache: TermCache, project: str = "", common: Collection[str] = ()
) -> QueryTerms:
    """Return the terms of a report. `TermCache.make_query_terms` explains `project` and `common`."""
    author_text = without_addresses(
        " ".join(part.text for part in report.parts if part.kind in {"title", "inline_code"})
    )
    base = cache.make_query_terms(author_text or report.title, project, common)
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
    """Return the weight of each term.

    It is the sum over the kinds of parts: weight of the kind x square root of the occurrences.
    """
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
    report: Report, cache: TermCache, common: Collection[str]
) -> tuple[tuple[int, ...], ...]:
    """Return the term hashes of each quoted message, without stop words."""
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
    """Return the names of code that the parts mention. Names in the title come first."""
    names = dict.fromkeys(
        name
        for group in report.mentions.names.values()
        for name in group
        if "_" in name.strip("_") or not (name.islower() or name.istitle())
    )
    return tuple(names)[:MAX_IDENTIFIERS]
