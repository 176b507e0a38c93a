"""Splits identifiers into words, in the same way for files, queries and all word indexes.

`getUserById` gives `get user by id getuserbyid`: first the parts, then the name in lower case, where
it has several parts. Underscores around a name are left out, so that `load_settings` finds
`_load_settings`. Accents are dropped. Dots, `::`, `/` and other punctuation only separate; a
kebab-case word also gives the whole word. A run of Chinese, Japanese or Korean gives its pairs of
characters, because it has no blanks, and a query has only a part of it. Words longer than
`MAX_WORD` characters (hashes, base64) are cut and not split.

Words are stored: if they change, raise `store.chunks.manifest.ROW_VERSION` and
`search.lexical.segments.segment_files.FORMAT`.
"""

import re
import unicodedata
from itertools import pairwise

from cocosearchd.forms.unicode_forms import stream_safe

MAX_WORD = 128

# Chinese, Japanese and Korean: kana, ideographs, syllables. Words have no blanks between them.
DENSE = (
    r"\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    r"\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{DENSE}]+|[^\W{DENSE}]+(?:-[^\W\d{DENSE}][^\W{DENSE}]*)*")
_IS_DENSE = re.compile(f"[{DENSE}]").match
# An upper-case run before a capitalised hump, a hump, an upper-case run, a digit run.
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_CLASS_HUMP = re.compile(r"U+(?=Ul)|U?l+|U+|d+|c+")
_ACCENT = re.compile(r"[\u0300-\u036f]")
_QUALIFIER = re.compile(r"::|\\|->|\.|#|/")
_NAME = re.compile(r"[^\W\d]\w*")
# For ASCII: characters that are in no word become spaces. Most pieces between spaces occur again,
# so their words are cached.
_SEPARATORS = bytes(
    byte if chr(byte).isalnum() or chr(byte) in "_-" else 32 for byte in range(128)
).ljust(256)
# The cache fits every distinct word of a mid-sized repository; an entry is about 200 bytes.
_CACHED_WORDS = 1 << 16


def split(token: str) -> tuple[str, ...]:
    """Split a token into its words, in order.

    `HTTPServer2` gives `("http", "server", "2", "httpserver2")`.
    """
    return tuple(_WORDS[strip_accents(token)].split())


def split_text(text: str) -> str:
    """Return all words of a text, separated by one space.

    `split_text(a + " " + b)` is the two results joined.
    """
    pieces = (
        text.encode().translate(_SEPARATORS).decode().split()
        if text.isascii()
        else _WORD.findall(strip_accents(text))
    )
    return " ".join(filter(None, map(_WORDS.__getitem__, pieces)))


def split_parts(name: str) -> tuple[str, ...]:
    """Split a name into its parts in lower case: `HTTPServer2` gives http, server, 2."""
    if len(name) > MAX_WORD:
        return (name[:MAX_WORD].lower(),)
    return tuple(part.lower() for part in _split_humps(name))


def fold_name(name: str) -> str:
    """Fold spellings of one name: case, and underscores that mark it as private.

    `__init__` is another name than `init`.
    """
    folded = name.lower()
    is_special = folded.startswith("__") and folded.endswith("__")
    return folded if is_special else folded.strip("_")


def find_names(text: str) -> tuple[str, ...]:
    """Find the names of code in a query.

    A text without blanks is a name, as is its last part; of other texts, the compound words are.

    >>> find_names("http.Client()"), find_names("where is parse_config used")
    (('http.Client', 'Client'), ('parse_config',))
    >>> find_names("parse the config")
    ()
    """
    if text and not any(map(str.isspace, text)):
        name = text.rstrip("()") or text
        parts = [part for part in _QUALIFIER.split(name) if part]
        return tuple(dict.fromkeys([name, *parts[-1:]]))
    return tuple(dict.fromkeys(word for word in _NAME.findall(text) if _is_compound(word)))


def _is_compound(word: str) -> bool:
    """Detect a spelling that only code has.

    That is an underscore inside, or a capital after a small letter or before one.
    """
    if "_" in word.strip("_"):
        return True
    has_case = word.lower() != word.upper()
    return has_case and not (
        word.islower() or word.isupper() or word.istitle() or word[1:].islower()
    )


def is_dense(part: str) -> bool:
    """Detect a run of Chinese, Japanese or Korean."""
    return _IS_DENSE(part) is not None


def bigrams(run: str) -> tuple[str, ...]:
    """Return pairs of adjacent characters; a single character stands alone."""
    return tuple(map("".join, pairwise(run))) or (run,)


def strip_accents(text: str) -> str:
    """Remove accents: é becomes e.

    Other characters that Unicode's NFKD decomposes are composed again: syllables, kana.
    """
    if text.isascii():
        return text
    return unicodedata.normalize(
        "NFC", _ACCENT.sub("", unicodedata.normalize("NFKD", stream_safe(text)))
    )


class _WordCache(dict[str, str]):
    """Words of pieces of text, joined by spaces. Safe to use from any thread.

    A full cache is cleared: keeping the most recent entries took two fifths of the time.
    """

    def __missing__(self, piece: str) -> str:
        if len(self) >= _CACHED_WORDS:
            self.clear()
        words = self[piece] = " ".join(filter(None, map(_join_words, _WORD.findall(piece))))
        return words


def _join_words(word: str) -> str:
    """Return the words of one match of `_WORD`, joined by spaces."""
    if len(word) > MAX_WORD and not is_dense(word):
        return word[:MAX_WORD].lower()
    if "-" in word:
        return " ".join(filter(None, [*map(_join_words, word.split("-")), word.lower()]))
    if is_dense(word):
        return " ".join(bigrams(word))
    parts = split_parts(word)
    joined_name = word.strip("_").lower()
    if len(parts) == 1 and parts[0] == joined_name:
        return joined_name
    return " ".join([*parts, joined_name])


def _split_humps(word: str) -> list[str]:
    if word.isascii():
        return _HUMP.findall(word)
    classes = word.translate(_CLASSES)
    return [word[match.start() : match.end()] for match in _CLASS_HUMP.finditer(classes)]


class _Classes(dict[int, str]):
    """Classes of characters by code point, computed when they first occur."""

    def __missing__(self, code: int) -> str:
        kind = self[code] = _class_of(chr(code))
        return kind


def _class_of(character: str) -> str:
    if character == "_":
        return "_"
    if is_dense(character):
        return "c"
    if character.isnumeric():
        return "d"
    return "U" if character.isupper() else "l"


_CLASSES = _Classes()
_WORDS = _WordCache()
