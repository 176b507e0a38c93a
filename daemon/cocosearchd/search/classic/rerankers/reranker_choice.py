"""Which reranker runs. `auto` picks by the question and the candidates, and never what is not
installed.
"""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from threading import Lock

from cocosearchd.search.classic.rerankers.base import Reranker
from cocosearchd.search.classic.rerankers.functional import FunctionalReranker
from cocosearchd.search.classic.rerankers.spacy import (
    MODEL,
    SpacyReranker,
    extract_prose,
    open_spacy,
)
from cocosearchd.search.plan import RerankerName
from cocosearchd.search.ranking import ScoredCandidate

# more than these are plain language (CocoRAG, reranker-design.md, "Unified Router")
LONG_QUESTION_WORDS = 5
_PLAIN_LANGUAGE = re.compile(
    r"\b(?:fix|error|explain|why|how|what|where|when|understand|describe|problem|issue|should|does)\b",
    re.IGNORECASE,
)


class Rerankers:
    """The rerankers of one daemon. spaCy is loaded once, by the first question that needs it."""

    def __init__(self) -> None:
        self._functional = FunctionalReranker()
        self._spacy: SpacyReranker | None = None
        self._loading = Lock()

    def rerank(
        self, name: RerankerName, text: str, scored: list[ScoredCandidate]
    ) -> list[ScoredCandidate]:
        """The candidates in the order of the chosen reranker. Raises `InvalidInput` as `choose`
        does. For a thread.
        """
        chosen = self.choose(name, text, scored)
        return scored if chosen is None else chosen.rerank(text, scored)

    def choose(
        self, name: RerankerName, text: str, scored: Sequence[ScoredCandidate]
    ) -> Reranker | None:
        """None for `disabled`. May load a model. Raises `InvalidInput` when spaCy is asked for by
        name and missing.
        """
        if name == "disabled" or not scored:
            return None
        if name == "functional" or (
            name == "auto" and not (spacy_installed() and _suits_spacy(text, scored))
        ):
            return self._functional
        with self._loading:
            self._spacy = self._spacy or open_spacy()
        return self._spacy


def spacy_installed() -> bool:
    """Whether spaCy and its model are here, without importing them."""
    return find_spec("spacy") is not None and find_spec(MODEL) is not None


def _suits_spacy(text: str, scored: Sequence[ScoredCandidate]) -> bool:
    plain = len(text.split()) > LONG_QUESTION_WORDS or _PLAIN_LANGUAGE.search(text) is not None
    return plain and any(extract_prose(one.candidate.content) for one in scored)
