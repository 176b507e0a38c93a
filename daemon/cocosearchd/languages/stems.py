"""English word stems: Snowball "english" (Porter2),
https://snowballstem.org/algorithms/english/stemmer.html.
"""

import threading

from Stemmer import Stemmer as Snowball

_NO_CACHE = 0  # of its own: callers keep what they ask often


class Stemmer:
    """Stems of lower-case words. Safe in threads: the algorithm keeps its word in the object, hence
    the lock.
    """

    def __init__(self) -> None:
        self._stemmer = Snowball("english", _NO_CACHE)
        self._lock = threading.Lock()

    def stem(self, word: str) -> str:
        """The stem: `generations` gives `generat`. Half a microsecond."""
        with self._lock:
            return str(self._stemmer.stemWord(word))
