"""CocoRAG's reranker without a language model: nine features, weighted by the kind of question.

Weights and multipliers come from CocoRAG's reranker-design.md. The document names the features; we
chose how to measure them. Each feature is a number in 0..1, so that the features can reach their
full share of the score.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from cocosearchd.languages.identifiers import find_names, split_text
from cocosearchd.search.classic.rerankers.base import (
    DEFINITION_KEYWORD,
    FEATURE_SHARE,
    VECTOR_SHARE,
    vector_scores,
)
from cocosearchd.search.classic.rerankers.question_words import (
    DOMAINS,
    FILE_KINDS,
    STRUCTURES,
    VERBS,
    Intent,
    QueryType,
    classify_intent,
    classify_query,
    keywords,
)
from cocosearchd.search.scored_candidates import ScoredCandidate, sort_candidates, with_score

WEIGHTS: dict[str, float] = {
    "entity_relevance": 0.15,
    "action_match": 0.08,
    "technical_overlap": 0.08,
    "file_appropriateness": 0.08,
    "keyword_matches": 0.07,
    "domain_relevance": 0.05,
    "code_structure_match": 0.05,
    "educational_value": 0.03,
    "code_quality": 0.01,
}
QUERY_TYPE_FACTORS: dict[QueryType, dict[str, float]] = {
    "how_to": {"educational_value": 1.5, "file_appropriateness": 1.3},
    "fix_error": {"code_quality": 1.4, "technical_overlap": 1.3},
    "find_example": {"file_appropriateness": 1.6, "educational_value": 1.4, "keyword_matches": 1.2},
    "other": {},
}
INTENT_FACTORS: dict[Intent, dict[str, float]] = {
    "learn": {"educational_value": 1.4, "code_structure_match": 1.2},
    "implement": {"action_match": 1.3, "entity_relevance": 1.2},
    "debug": {"technical_overlap": 1.5, "code_quality": 1.4},
    "other": {},
}
MAX_OCCURRENCES = 3  # counted occurrences of a keyword; more are ignored
LONG_LINE = 120

_COMMENT = re.compile(r"^[^\S\n]*+(?:#|//|/\*|\*|--)|<!--", re.MULTILINE)
_DOCSTRING = re.compile(r'"""|\'\'\'|/\*\*|^[^\S\n]*+///', re.MULTILINE)
_TEACHING = re.compile(r"\b(?:example|tutorial|usage|note|returns?|>>>)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AnalysedQuery:
    """The words of a query, analysed once for all candidates."""

    keywords: tuple[str, ...]
    entities: tuple[str, ...]  # case-folded names; the keywords where the query names nothing
    verbs: tuple[str, ...]
    domains: frozenset[str]
    structures: tuple[str, ...]
    file_kinds: frozenset[str]  # languages


@dataclass(frozen=True, slots=True)
class AnalysedCandidate:
    """The words of a candidate, analysed once for all features."""

    text: str
    folded: str
    words: tuple[str, ...]
    distinct: frozenset[str]
    stem: frozenset[str]  # words of the file's name
    path: str
    language: str


class FunctionalReranker:
    """The reranker of this module. It has no state; one instance serves every thread."""

    name = "functional"

    def rerank(self, text: str, scored: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """Sort the candidates by 0.40 x cosine + 0.60 x weighted features, best first."""
        question = analyse_query(text)
        weights = dynamic_weights(text)
        return sort_candidates(
            with_score(
                entry, *_blend(vector, features(question, analyse_candidate(entry)), weights)
            )
            for entry, vector in zip(scored, vector_scores(scored), strict=True)
        )


def dynamic_weights(text: str) -> dict[str, float]:
    """Return the nine feature weights for a question; their sum is 1."""
    by_type = QUERY_TYPE_FACTORS[classify_query(text)]
    by_intent = INTENT_FACTORS[classify_intent(text)]
    raw = {
        name: weight * by_type.get(name, 1.0) * by_intent.get(name, 1.0)
        for name, weight in WEIGHTS.items()
    }
    total = sum(raw.values())
    return {name: weight / total for name, weight in raw.items()}


def analyse_query(text: str) -> AnalysedQuery:
    """Split a query into words and find its names, verbs, domains and structures."""
    words = keywords(text)
    distinct = set(words)
    return AnalysedQuery(
        keywords=words,
        entities=tuple(name.casefold() for name in find_names(text)) or words,
        verbs=tuple(word for word in words if word in VERBS),
        domains=frozenset(name for name, terms in DOMAINS.items() if distinct & terms),
        structures=tuple(name for name, (terms, _) in STRUCTURES.items() if distinct & terms),
        file_kinds=frozenset().union(*(FILE_KINDS.get(word, ()) for word in words)),
    )


def analyse_candidate(scored: ScoredCandidate) -> AnalysedCandidate:
    """Split a candidate's content and file name into words."""
    candidate = scored.candidate
    words = tuple(split_text(candidate.content).split())
    stem = split_text(PurePosixPath(candidate.path).stem).split()
    return AnalysedCandidate(
        text=candidate.content,
        folded=candidate.content.casefold(),
        words=words,
        distinct=frozenset(words),
        stem=frozenset(stem),
        path=candidate.path.casefold(),
        language=candidate.language,
    )


def features(question: AnalysedQuery, candidate: AnalysedCandidate) -> dict[str, float]:
    """Compute the nine features, each in 0..1.

    If the query has no term for a feature, the feature is 0 for every candidate.
    """
    return {
        "entity_relevance": _matching_share(
            question.entities, lambda name: name in candidate.folded or name in candidate.path
        ),
        "action_match": _matching_share(
            question.verbs, lambda verb: not VERBS[verb].isdisjoint(candidate.distinct)
        ),
        "technical_overlap": _matching_share(
            question.keywords, lambda word: word in candidate.distinct
        ),
        "file_appropriateness": _file_appropriateness(question, candidate),
        "keyword_matches": _keyword_matches(question, candidate),
        "domain_relevance": _matching_share(
            tuple(question.domains), lambda name: not DOMAINS[name].isdisjoint(candidate.distinct)
        ),
        "code_structure_match": _matching_share(
            question.structures, lambda name: bool(STRUCTURES[name][1].search(candidate.text))
        ),
        "educational_value": _educational_value(candidate),
        "code_quality": _code_quality(candidate),
    }


def _blend(
    vector: float, values: dict[str, float], weights: dict[str, float]
) -> tuple[float, tuple[tuple[str, float], ...]]:
    weighted = sum(weights[name] * value for name, value in values.items())
    return VECTOR_SHARE * vector + FEATURE_SHARE * weighted, (
        ("vector_score", vector),
        *values.items(),
    )


def _matching_share(names: Sequence[str], matches: Callable[[str], bool]) -> float:
    return sum(map(matches, names)) / len(names) if names else 0.0


def _file_appropriateness(question: AnalysedQuery, candidate: AnalysedCandidate) -> float:
    name_share = _matching_share(question.keywords, lambda word: word in candidate.stem)
    if not question.file_kinds:
        return name_share
    return (name_share + (candidate.language in question.file_kinds)) / 2


def _keyword_matches(question: AnalysedQuery, candidate: AnalysedCandidate) -> float:
    occurrences = sum(
        min(candidate.words.count(word), MAX_OCCURRENCES) for word in question.keywords
    )
    return occurrences / (MAX_OCCURRENCES * len(question.keywords)) if question.keywords else 0.0


def _educational_value(candidate: AnalysedCandidate) -> float:
    return (
        sum(bool(pattern.search(candidate.text)) for pattern in (_COMMENT, _DOCSTRING, _TEACHING))
        / 3
    )


def _code_quality(candidate: AnalysedCandidate) -> float:
    lines = candidate.text.splitlines()
    checks = (
        bool(DEFINITION_KEYWORD.search(candidate.text)),
        bool(_COMMENT.search(candidate.text) or _DOCSTRING.search(candidate.text)),
        "\n\n" in candidate.text or len(lines) <= 12,  # short, or set in paragraphs
        all(len(line) <= LONG_LINE for line in lines),
    )
    return sum(checks) / len(checks)
