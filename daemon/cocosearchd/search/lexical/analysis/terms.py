"""Terms of texts and queries; pure but for its own caches.

A term is identified by 64 bits of its BLAKE2b hash: two of a million terms collide with a
probability of 3e-8.

Segments hold the hashes of terms: if terms change, raise `segment_files.FORMAT`.
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

# A letter or underscore followed by letters, digits and underscores; or two digits and more. A run
# of Chinese, Japanese or Korean is a word of its own.
WORD = re.compile(rf"[{DENSE}]+|[^\W\d{DENSE}][^\W{DENSE}]*|\d{{2,}}")
STOP_WORDS = {
    "a", "an", "and", "are", "as", "at", "be", "by", "do", "does", "for", "from", "has", "have", "how", "if", "in",
    "is", "it", "not", "of", "on", "or", "the", "to", "was", "what", "when", "where", "which", "who", "why", "with",
    "this", "that", "these", "those", "into", "its", "their", "can", "used", "using", "use", "via", "between", "each",
    "per",
}  # fmt: skip
# Weights of a word of the project's name in a sentence: it is in the question for the reader, not
# for the search. Measured, with the weights fitted anew: without this NDCG@10 is 0.003 lower.
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
    is_name: bool  # the trimmed query has no blank, so the SYM weights apply
    # (hash, frequency), without stop words, and with less weight for the project's name
    terms: tuple[tuple[int, float], ...]
    # distinct lower-case words of more than one character, identifiers replaced by their parts
    words: tuple[str, ...]
    shares: tuple[float, ...]  # weight of each of `words` where it explains the name of a file
    # as written; for a symbol: the name without the brackets of a call, and its last part
    identifiers: tuple[str, ...]


class Splitter:
    """Splitter of words into terms; safe in threads."""

    def __init__(self) -> None:
        self._stemmer = Stemmer()

    def stem(self, word: str) -> str:
        """Stem a lower-case word."""
        return self._stemmer.stem(word)

    def split_word(self, word: str) -> tuple[str, ...]:
        """Split a word into terms.

        A word gives its stem; an identifier its lower case, without underscores around it, and
        the stem of each part. A run of Chinese, Japanese or Korean gives its bigrams, because a
        query has only a part of it.
        """
        if word.isascii() and word.isalpha() and word.islower() and len(word) <= MAX_WORD:
            return (self.stem(word),)  # the most frequent case
        if is_dense(word):
            return bigrams(word)
        parts = split_parts(word)
        stems = tuple(map(self.stem, parts))
        return (word.strip("_").lower(), *stems) if len(parts) > 1 else stems

    def find_terms(self, text: str) -> frozenset[str]:
        """Find all words of a text in lower case, all its terms, and the stems of parts of words."""
        words = set(WORD.findall(strip_accents(text)))
        stems = {self.stem(part) for word in words for part in split_parts(word)}
        return frozenset(stems.union(map(str.lower, words), *map(self.split_word, words)))

    def split_text(self, text: str) -> list[str]:
        """Split all words into terms, each as often as it occurs."""
        return self._split_plain_text(strip_accents(text))

    def split_texts(self, texts: Iterable[str]) -> list[list[str]]:
        """Split texts as `split_text` does, their accents together: many texts are single words."""
        plain_texts = strip_accents("\n".join(text.replace("\n", " ") for text in texts))
        return list(map(self._split_plain_text, plain_texts.split("\n")))

    def _split_plain_text(self, text: str) -> list[str]:
        return [term for word in WORD.findall(text) for term in self.split_word(word)]


class TermCache(Splitter):
    """Splitter that caches terms, because text repeats itself; safe in threads."""

    def __init__(self) -> None:
        super().__init__()
        self._chunk_cache = _new_chunk_cache()

    def chunk_cache(self) -> ChunkTermCache:
        """Return the cache for reading chunks and numbering words.

        Use the result for one call: the next call replaces a full cache by a new one.
        """
        if self._chunk_cache.table.full:
            self._chunk_cache = _new_chunk_cache()
        return self._chunk_cache

    def forget(self) -> None:
        """Drop the caches after a while without work; the next files are split anew."""
        if self._chunk_cache.filled:
            self._chunk_cache = _new_chunk_cache()

    def make_query_terms(
        self, text: str, project: str = "", common: Collection[str] = ()
    ) -> QueryTerms:
        """Parse a query. A query of stop words only retains them all.

        `project`: the name of the project that all results are part of. `common`: names of
        the language that all of it is written in. They are stop words of a sentence: people
        name the language for the reader, and code that has the word is about something
        else.
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
        """Count the terms of words by their hashes."""
        frequencies: dict[int, float] = {}
        for word in words:
            for term in map(term_hash, self.split_word(word)):
                frequencies[term] = frequencies.get(term, 0.0) + 1.0
        return frequencies


def _simple_words(words: Iterable[str]) -> Iterator[str]:
    """Yield the parts of words that say something, in order."""
    for word in words:
        for part in split_parts(word):
            if len(part) > 1 and part not in STOP_WORDS:
                yield part


def _new_chunk_cache() -> ChunkTermCache:
    return ChunkTermCache(WordTable(Splitter().split_texts, term_hash, KEYWORDS))
