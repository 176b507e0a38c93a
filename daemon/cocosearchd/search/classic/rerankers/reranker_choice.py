"""Chooses the reranker for a query. `auto` decides by the question and the candidates.

`auto` never chooses spaCy where it is not installed.
"""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from threading import Lock

from cocosearchd.config.settings import RerankerName
from cocosearchd.search.classic.rerankers.base import Reranker
from cocosearchd.search.classic.rerankers.functional import FunctionalReranker
from cocosearchd.search.classic.rerankers.spacy import (
    MODEL,
    SpacyReranker,
    extract_prose,
    open_spacy,
)
from cocosearchd.search.scored_candidates import ScoredCandidate

# longer questions are plain language (CocoRAG, reranker-design.md, "Unified Router")
LONG_QUESTION_WORDS = 5
_PLAIN_LANGUAGE = re.compile(
    r"\b(?:fix|error|explain|why|how|what|where|when|understand|describe|problem|issue|should|does)\b",
    re.IGNORECASE,
)


class Rerankers:
    """The rerankers of one daemon. The first question that needs spaCy loads it."""

    def __init__(self) -> None:
        self._functional = FunctionalReranker()
        self._spacy: SpacyReranker | None = None
        self._loading = Lock()

    def rerank(
        self, name: RerankerName, text: str, scored: list[ScoredCandidate]
    ) -> list[ScoredCandidate]:
        """Sort the candidates with the chosen reranker. Runs in a thread.

        Raises `InvalidInput` like `choose`.
        """
        reranker = self.choose(name, text, scored)
        return scored if reranker is None else reranker.rerank(text, scored)

    def choose(
        self, name: RerankerName, text: str, scored: Sequence[ScoredCandidate]
    ) -> Reranker | None:
        """Return the reranker for a name; None for `disabled` or without candidates.

        May load a model. Raises `InvalidInput` when the name is `spacy` and spaCy is missing.
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
    """Return True if spaCy and its model are installed, without importing them."""
    return find_spec("spacy") is not None and find_spec(MODEL) is not None


def _suits_spacy(text: str, scored: Sequence[ScoredCandidate]) -> bool:
    is_plain = len(text.split()) > LONG_QUESTION_WORDS or _PLAIN_LANGUAGE.search(text) is not None
    return is_plain and any(
        extract_prose(entry.candidate.content, entry.candidate.language) for entry in scored
    )
