"""Splits text into lower-case words, for the built-in model only.

The weights in `data/` were trained on exactly this splitting, so it must not change: a change here
needs a new version of the model. That is why the model does not use `languages.identifiers`, which
may improve at any time.
"""

import re
import unicodedata
from zlib import crc32

from cocosearchd.forms.unicode_forms import stream_safe

# In order: plural abbreviations (IDs), abbreviations (HTTP of HTTPServer), humps and plain words,
# digits, and runs of letters that are not ASCII.
_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
PIECE_LENGTHS = (3, 4, 5)
# Only the beginning of a longer word counts: it is a digest, or a run of letters without humps.
LONGEST_WORD = 40
_MARK = re.compile(r"[\u0300-\u036f]")


def words(text: str) -> list[str]:
    """Split a text into words, with repetitions: `getHTTPServer2` gives get, http, server, 2.

    Accents are dropped, so that é is e. Underscores, punctuation and blanks only separate.
    """
    return [word.lower() for word in _WORD.findall(fold_variants(text))]


def fold_variants(text: str) -> str:
    """Remove accents and typographic variants: é is e, and the ligature fi is f and i."""
    return (
        text if text.isascii() else _MARK.sub("", unicodedata.normalize("NFKD", stream_safe(text)))
    )


def pieces(word: str, buckets: int) -> list[int]:
    """Number the character runs of a word, in order: 3 to 5 characters, the word's ends marked.

    The numbers are below `buckets`. Words that share runs share numbers, which gives an unseen word a
    vector. CRC-32 is the same everywhere; the numbers of unrelated runs may collide.
    """
    marked = f"<{word[:LONGEST_WORD]}>"
    ends = range(len(marked) + 1)
    if marked.isascii():  # encode once
        raw = marked.encode()
        runs = [raw[end - length : end] for length in PIECE_LENGTHS for end in ends[length:]]
    else:
        runs = [
            marked[end - length : end].encode() for length in PIECE_LENGTHS for end in ends[length:]
        ]
    return [number % buckets for number in map(crc32, runs)]
