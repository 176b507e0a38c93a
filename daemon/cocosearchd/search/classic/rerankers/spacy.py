"""CocoRAG's linguistic reranker: five features from spaCy's `en_core_web_sm`. An optional extra.

spaCy is imported only when this reranker is opened, because the import takes a second and some
hundred megabytes. spaCy's model is in no package index, so users install it separately. The tests
run with a blank English pipeline, without a parser.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cocosearchd.errors import InvalidInput
from cocosearchd.languages.identifiers import split_text
from cocosearchd.languages.patterns.comment_styles import CommentStyle
from cocosearchd.languages.patterns.comments import comment_style
from cocosearchd.languages.patterns.delimited_text import Enclosure
from cocosearchd.search.classic.rerankers.base import (
    DEFINITION_KEYWORD,
    FEATURE_SHARE,
    VECTOR_SHARE,
    vector_scores,
)
from cocosearchd.search.classic.rerankers.question_words import DOMAINS
from cocosearchd.search.scored_candidates import ScoredCandidate, sort_candidates, with_score

MODEL = "en_core_web_sm"
# CocoRAG, reranker-design.md, "spaCy NLP Reranker". `rerank` divides the weights by their sum, so
# that the features can reach their full share of the score.
WEIGHTS: dict[str, float] = {
    "semantic_similarity": 0.25,
    "linguistic_overlap": 0.15,
    "syntactic_match": 0.10,
    "technical_relevance": 0.05,
    "code_quality": 0.05,
}
VERB_SHARE = 0.7
NOUN_SHARE = 0.3
MAX_PROSE_CHARS = 2000

_TECHNICAL = frozenset().union(*DOMAINS.values())


class SpacyReranker:
    """The reranker of this module."""

    name = "spacy"

    def __init__(self, language: Any) -> None:
        self._language = language

    def rerank(self, text: str, scored: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """Sort the candidates by 0.40 x cosine + 0.60 x weighted features, best first."""
        question = self._language(text)
        prose_texts = [
            extract_prose(entry.candidate.content, entry.candidate.language) for entry in scored
        ]
        total = sum(WEIGHTS.values())
        reranked = []
        for entry, vector, doc in zip(
            scored, vector_scores(scored), self._language.pipe(prose_texts), strict=True
        ):
            values = features(question, doc, entry.candidate.content)
            weighted = sum(WEIGHTS[name] * value for name, value in values.items()) / total
            details = (("vector_score", vector), *values.items())
            reranked.append(
                with_score(entry, VECTOR_SHARE * vector + FEATURE_SHARE * weighted, details)
            )
        return sort_candidates(reranked)


def open_spacy() -> SpacyReranker:
    """Load spaCy and its model.

    Raises `InvalidInput` with install instructions if one of them is missing.
    """
    try:
        import spacy
    except ImportError:
        raise InvalidInput(
            "the spacy reranker needs spaCy", "pip install 'cocosearchd[spacy]'"
        ) from None
    try:
        return SpacyReranker(spacy.load(MODEL))
    except OSError:
        raise InvalidInput(
            f"spaCy lacks its model {MODEL}", f"python -m spacy download {MODEL}"
        ) from None


def extract_prose(code: str, language: str) -> str:
    """Extract the natural language of a piece of code: its comments and docstrings."""
    style = comment_style(language)
    inner = (
        _strip_marks(code[span.start : span.end], span.enclosure, style)
        for span in style.finder.spans(code)
    )
    return " ".join(" ".join(inner).split())[:MAX_PROSE_CHARS]


def _strip_marks(text: str, enclosure: Enclosure | None, style: CommentStyle) -> str:
    """Remove the comment marks or quotes around the text of a comment or docstring."""
    if enclosure is None:
        comment = text.lstrip()
        mark = next(filter(comment.startswith, style.line_marks + style.leading_marks), "")
        return comment.removeprefix(mark)
    inner = text[len(enclosure.opener) : -len(enclosure.closer)]
    return inner.lstrip("*") if enclosure.opener == "/*" else inner


def features(question: Any, doc: Any, code: str) -> dict[str, float]:
    """Compute the five features, each in 0..1.

    `question` and `doc` are spaCy documents of the query and of the code's prose.
    """
    lemmas = _lemmas(question)
    vocabulary = _lemmas(doc) | frozenset(split_text(code).split())
    technical = lemmas & _TECHNICAL
    return {
        "semantic_similarity": _cosine(question.vector, doc.vector) if len(doc) else 0.0,
        "linguistic_overlap": len(lemmas & vocabulary) / len(lemmas | vocabulary)
        if lemmas
        else 0.0,
        "syntactic_match": VERB_SHARE
        * _overlap_share(_tagged_lemmas(question, "VERB"), _tagged_lemmas(doc, "VERB"))
        + NOUN_SHARE
        * _overlap_share(
            _tagged_lemmas(question, "NOUN", "PROPN"), _tagged_lemmas(doc, "NOUN", "PROPN")
        ),
        "technical_relevance": len(technical & vocabulary) / len(technical) if technical else 0.0,
        "code_quality": (bool(len(doc)) + bool(DEFINITION_KEYWORD.search(code))) / 2,
    }


def _lemmas(doc: Any) -> frozenset[str]:
    lemmas = set[str]()
    for token in doc:
        if token.is_alpha and not token.is_stop:
            lemmas.add(token.lemma_.lower())
        if token.is_alpha or "_" in token.text:
            parts = split_text(token.text).split()
            if len(parts) > 1:
                lemmas.update(parts)
    return frozenset(lemmas)


def _tagged_lemmas(doc: Any, *tags: str) -> frozenset[str]:
    return frozenset(token.lemma_.lower() for token in doc if token.pos_ in tags)


def _overlap_share(expected: frozenset[str], present: frozenset[str]) -> float:
    return len(expected & present) / len(expected) if expected else 0.0


def _cosine(a: Any, b: Any) -> float:
    """Compute the cosine similarity, 0..1, of two vectors.

    `Doc.similarity` is not used: it warns about models without word vectors, although their
    documents have tensors instead.
    """
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return max(0.0, float(np.dot(a, b)) / length) if length else 0.0
