"""Splits texts and queries into terms. Pure, except for its own caches.

A term is identified by 64 bits of its BLAKE2b hash: two of a million terms collide with a
probability of 3e-8.

Segments store the hashes of terms: if terms change, raise `segment_files.FORMAT`.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from cocosearchd.languages.identifiers import (
    DENSE,
    MAX_WORD,
    bigrams,
    find_names,
    is_dense,
    split_parts,
    strip_accents,
)
from cocosearchd.languages.patterns.definitions import KEYWORDS
from cocosearchd.languages.stems import Stemmer
from cocosearchd.search.lexical.analysis.chunk_terms import ChunkTermCache
from cocosearchd.search.lexical.analysis.term_table import WordTable

# A letter or underscore followed by letters, digits and underscores; or at least two digits. A run
# of Chinese, Japanese or Korean characters is a separate word.
WORD = re.compile(rf"[{DENSE}]+|[^\W\d{DENSE}][^\W{DENSE}]*|\d{{2,}}")
STOP_WORDS = {
    "a", "an", "and", "are", "as", "at", "be", "by", "do", "does", "for", "from", "has", "have", "how", "if", "in",
    "is", "it", "not", "of", "on", "or", "the", "to", "was", "what", "when", "where", "which", "who", "why", "with",
    "this", "that", "these", "those", "into", "its", "their", "can", "used", "using", "use", "via", "between", "each",
    "per",
}  # fmt: skip
# Weights of a word of the project's name in a sentence: people write it for the reader, not for the
# search. Measured with newly fitted weights: without this, NDCG@10 is 0.003 lower.
PROJECT_TERM_WEIGHT = 0.3
_PROJECT_NAME_WEIGHT = 0.5


def term_hash(term: str) -> int:
    """Hash a term to 64 bits."""
    return int.from_bytes(
        blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """Terms, words and identifiers of a query."""

    text: str
    is_name: bool  # the trimmed query has no blank, so the weights `symbol` apply
    # (hash, frequency), without stop words; terms of the project's name have a lower frequency
    terms: tuple[tuple[int, float], ...]
    # distinct lower-case words of more than one character; identifiers are replaced by their parts
    words: tuple[str, ...]
    shares: tuple[float, ...]  # weight of each of `words` for explaining the name of a file
    # as written; for a name: the name without call brackets, and its last part
    identifiers: tuple[str, ...]


class Splitter:
    """A splitter of words into terms. Thread-safe."""

    def __init__(self) -> None:
        self._stemmer = Stemmer()

    def stem(self, word: str) -> str:
        """Stem a lower-case word."""
        return self._stemmer.stem(word)

    def split_word(self, word: str) -> tuple[str, ...]:
        """Split a word into terms.

        A plain word becomes its stem. An identifier becomes its lower-case form, without
        underscores around it, and the stem of each part. A run of Chinese, Japanese or Korean
        characters becomes its bigrams, because a query usually has only a part of the run.
        """
        if word.isascii() and word.isalpha() and word.islower() and len(word) <= MAX_WORD:
            return (self.stem(word),)  # the most frequent case
        if is_dense(word):
            return bigrams(word)
        parts = split_parts(word)
        stems = tuple(map(self.stem, parts))
        return (word.strip("_").lower(), *stems) if len(parts) > 1 else stems

    def find_terms(self, text: str) -> frozenset[str]:
        """Find the lower-case words of a text, its terms, and the stems of the parts of its words."""
        words = set(WORD.findall(strip_accents(text)))
        stems = {self.stem(part) for word in words for part in split_parts(word)}
        return frozenset(stems.union(map(str.lower, words), *map(self.split_word, words)))

    def split_text(self, text: str) -> list[str]:
        """Split all words of a text into terms, with repetitions."""
        return self._split_plain_text(strip_accents(text))

    def split_texts(self, texts: Iterable[str]) -> list[list[str]]:
        """Split texts like `split_text`.

        Accents of all texts are stripped in one call, because many texts are single words.
        """
        plain_texts = strip_accents("\n".join(text.replace("\n", " ") for text in texts))
        return list(map(self._split_plain_text, plain_texts.split("\n")))

    def _split_plain_text(self, text: str) -> list[str]:
        return [term for word in WORD.findall(text) for term in self.split_word(word)]


class TermCache(Splitter):
    """A splitter that caches terms, because text repeats itself. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._chunk_cache = _new_chunk_cache()

    def chunk_cache(self) -> ChunkTermCache:
        """Return the cache for reading chunks and numbering words.

        Use the result for one operation only: the next call replaces a full cache.
        """
        if self._chunk_cache.table.full:
            self._chunk_cache = _new_chunk_cache()
        return self._chunk_cache

    def forget(self) -> None:
        """Drop the caches; the next files are split anew. Called after a while without work."""
        if self._chunk_cache.filled:
            self._chunk_cache = _new_chunk_cache()

    def make_query_terms(
        self, text: str, project: str = "", common: Collection[str] = ()
    ) -> QueryTerms:
        """Parse a query. A query that has only stop words keeps them all.

        `project` is the name of the project that all results belong to. `common` has the names of
        the project's language. These names are stop words in a sentence: people write the language
        for the reader, and code that contains the word is about something else.
        """
        all_words = WORD.findall(strip_accents(text))
        stripped = text.strip()
        is_name = bool(stripped) and not any(character.isspace() for character in stripped)
        stop_words = STOP_WORDS if is_name else STOP_WORDS.union(common)
        words = [word for word in all_words if word.lower() not in stop_words] or all_words
        project_words = () if is_name else WORD.findall(project)
        project_terms = {term for word in project_words for term in self.split_word(word)}
        frequencies = self._frequencies(words)
        for term in {term_hash(term) for term in project_terms} & frequencies.keys():
            frequencies[term] *= PROJECT_TERM_WEIGHT
        simple_words = tuple(dict.fromkeys(_simple_words(words)))
        return QueryTerms(
            text=stripped,
            is_name=is_name,
            terms=tuple(frequencies.items()),
            words=simple_words,
            shares=tuple(
                _PROJECT_NAME_WEIGHT if self.stem(word) in project_terms else 1.0
                for word in simple_words
            ),
            identifiers=find_names(stripped),
        )

    def _frequencies(self, words: Iterable[str]) -> dict[int, float]:
        """Count the terms of words, by term hash."""
        frequencies: dict[int, float] = {}
        for word in words:
            for term in map(term_hash, self.split_word(word)):
                frequencies[term] = frequencies.get(term, 0.0) + 1.0
        return frequencies


def _simple_words(words: Iterable[str]) -> Iterator[str]:
    """Yield the parts of words in order, without stop words and single characters."""
    for word in words:
        for part in split_parts(word):
            if len(part) > 1 and part not in STOP_WORDS:
                yield part


def _new_chunk_cache() -> ChunkTermCache:
    return ChunkTermCache(WordTable(Splitter().split_texts, term_hash, KEYWORDS))
