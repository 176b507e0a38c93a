"""English word stems: Snowball "english" (Porter2), https://snowballstem.org/algorithms/english/stemmer.html."""

import threading

from snowballstemmer.english_stemmer import EnglishStemmer


class Stemmer:
    """Stems of lower-case words. Safe in threads: the algorithm keeps its word in the object, hence the lock."""

    def __init__(self) -> None:
        self._stemmer = EnglishStemmer()
        self._lock = threading.Lock()

    def stem(self, word: str) -> str:
        """The stem: `generations` gives `generat`. Some 20 µs of pure Python: callers keep what they ask often."""
        with self._lock:
            return str(self._stemmer.stemWord(word))
