"""Text to the terms of the lexical index, and a query to what it asks of the index. Pure but for
its own caches.

A term is known by 64 bits of its BLAKE2b hash: two of a million terms meet with a probability of
3e-8.
"""

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from cocosearchd.languages.stems import Stemmer
from cocosearchd.model import stream_safe
from cocosearchd.search.lexical.analysis.chunk_terms import ChunkTermCache
from cocosearchd.search.lexical.analysis.term_table import WordTable
from cocosearchd.search.lexical.analysis.text_definitions import KEYWORDS

# A letter or underscore followed by letters, digits and underscores; or two digits and more.
WORD = re.compile(r"[^\W\d]\w*|\d{2,}")
# Chinese, Japanese and Korean: kana, ideographs, syllables. Words stand there without blanks
# between them.
_DENSE = r"\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
# Camel humps: HTTP of HTTPServer; Server; runs of capitals, digits, and other alphabets.
PART = re.compile(
    rf"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[{_DENSE}]+|[^\W\d_A-Za-z{_DENSE}]+"
)
_IS_DENSE = re.compile(f"[{_DENSE}]").match
_MARK = re.compile(r"[\u0300-\u036f]")
SEPARATOR = re.compile(r"::|\\|->|\.|#|/")
STOP_WORDS = {
    "a", "an", "and", "are", "as", "at", "be", "by", "do", "does", "for", "from", "has", "have", "how", "if", "in",
    "is", "it", "not", "of", "on", "or", "the", "to", "was", "what", "when", "where", "which", "who", "why", "with",
    "this", "that", "these", "those", "into", "its", "their", "can", "used", "using", "use", "via", "between", "each",
    "per",
}  # fmt: skip
# What a word of the project's own name counts in a sentence: it is in the question for the reader,
# not for the search. Measured, with the weights fitted anew: without this NDCG@10 is 0.003 lower.
_PROJECT_TERM_WEIGHT, _PROJECT_NAME_WEIGHT = 0.3, 0.5


def term_hash(term: str) -> int:
    """The 64 bits under which a term is kept."""
    return int.from_bytes(
        blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


def split_identifier(word: str) -> tuple[str, ...]:
    """Lower-case parts of an identifier: `HTTPServer2` gives http, server, 2."""
    return tuple(part.lower() for part in PART.findall(word))


def bigrams(run: str) -> tuple[str, ...]:
    """Each two neighbours of some characters; of one it is that one."""
    return tuple(map("".join, pairwise(run))) or (run,)


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """What a query asks of the lexical index."""

    text: str
    symbol: bool  # the trimmed query has no blank: the SYM weights
    # (hash, how often it is asked), stop words dropped, own names lowered
    terms: tuple[tuple[int, float], ...]
    # distinct lower-case words of more than one character, identifiers replaced by their parts
    words: tuple[str, ...]
    shares: tuple[float, ...]  # what each of `words` counts where it explains the name of a file
    # as written; of a symbol: the whole without the brackets of a call, and its last part
    identifiers: tuple[str, ...]


class Splitter:
    """Words to terms. Safe in threads."""

    def __init__(self) -> None:
        self._stemmer = Stemmer()

    def stem(self, word: str) -> str:
        """The stem of a lower-case word."""
        return self._stemmer.stem(word)

    def split_word(self, word: str) -> tuple[str, ...]:
        """The terms of one word: its stem, or, of an identifier, the whole in lower case and the
        stem of each part.

        A run of Chinese, Japanese or Korean is each two characters that stand together: what is
        asked is part of one.
        """
        found = split_identifier(word)
        terms = [
            term
            for part in found
            for term in (bigrams(part) if _IS_DENSE(part) else (self.stem(part),))
        ]
        return (word.lower(), *terms) if len(found) > 1 else tuple(terms)

    def split_text(self, text: str) -> list[str]:
        """The terms of all words, each as often as it occurs."""
        return [
            term for word in WORD.findall(_strip_accents(text)) for term in self.split_word(word)
        ]


class TermCache(Splitter):
    """Splits and stems, and keeps what it has found, as text repeats itself. Safe in threads."""

    def __init__(self) -> None:
        super().__init__()
        self._memory = _new_chunk_cache()

    def chunk_cache(self) -> ChunkTermCache:
        """To read chunks with, and to number words. For some files: the next may need another
        one.
        """
        if self._memory.table.full:
            self._memory = _new_chunk_cache()
        return self._memory

    def forget(self) -> None:
        """Let go of what was found: the next files are split anew. For when there has been no work
        for a while.
        """
        if self._memory.filled:
            self._memory = _new_chunk_cache()

    def parse_query(self, text: str, project: str = "", common: Collection[str] = ()) -> QueryTerms:
        """Analyse a query. One of stop words only keeps them all.

        `project`: what its answers are all part of. `common`: names of the language that they are
        all written in, which are stop words of a sentence: people name it for the reader, and code
        that has the word is about something else.
        """
        found = WORD.findall(_strip_accents(text))
        stripped = text.strip()
        symbol = bool(stripped) and not any(character.isspace() for character in stripped)
        unasked = STOP_WORDS if symbol else STOP_WORDS.union(common)
        words = [word for word in found if word.lower() not in unasked] or found
        asked: dict[int, float] = {}
        for word in words:
            for term in map(term_hash, self.split_word(word)):
                asked[term] = asked.get(term, 0.0) + 1.0
        own = (
            set[str]()
            if symbol
            else {term for word in WORD.findall(project) for term in self.split_word(word)}
        )
        for term in {term_hash(term) for term in own} & asked.keys():
            asked[term] *= _PROJECT_TERM_WEIGHT
        simple = [
            part
            for word in words
            for part in split_identifier(word)
            if len(part) > 1 and part not in STOP_WORDS
        ]
        return QueryTerms(
            text=stripped,
            symbol=symbol,
            terms=tuple(asked.items()),
            words=tuple(dict.fromkeys(simple)),
            shares=tuple(
                _PROJECT_NAME_WEIGHT if self.stem(word) in own else 1.0
                for word in dict.fromkeys(simple)
            ),
            identifiers=_find_identifiers(stripped, symbol),
        )


def _new_chunk_cache() -> ChunkTermCache:
    return ChunkTermCache(WordTable(Splitter().split_text, term_hash, KEYWORDS))


def _find_identifiers(text: str, symbol: bool) -> tuple[str, ...]:
    if symbol:
        name = text.rstrip("()") or text
        last = [part for part in SEPARATOR.split(name) if part]
        return tuple(dict.fromkeys([name, *last[-1:]]))
    return tuple(dict.fromkeys(word for word in WORD.findall(text) if _is_identifier(word)))


def _is_identifier(word: str) -> bool:
    """Does only code write a word so: an underscore inside, or a capital after a small letter or
    before one.
    """
    return "_" in word.strip("_") or not (
        word.islower() or word.isupper() or word.istitle() or word[1:].islower()
    )


def _strip_accents(text: str) -> str:
    """Without accents: é is e. Of what Unicode's NFKD takes apart, the rest is put together again:
    syllables, kana.
    """
    if text.isascii():
        return text
    return unicodedata.normalize(
        "NFC", _MARK.sub("", unicodedata.normalize("NFKD", stream_safe(text)))
    )
