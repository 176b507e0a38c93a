"""Computes English word stems: Snowball "english" (Porter2).

See https://snowballstem.org/algorithms/english/stemmer.html.

Stems are stored in segments: if they change, raise `search.lexical.segments.segment_files.FORMAT`.
"""

import threading

from Stemmer import Stemmer as Snowball

_NO_CACHE = 0  # size of the stemmer's own cache: callers have caches


class Stemmer:
    """A stemmer of lower-case words. Thread-safe: a lock guards the algorithm's internal state."""

    def __init__(self) -> None:
        self._stemmer = Snowball("english", _NO_CACHE)
        self._lock = threading.Lock()

    def stem(self, word: str) -> str:
        """Return the stem of a word: `generat` for `generations`. Takes half a microsecond."""
        with self._lock:
            return str(self._stemmer.stemWord(word))
