"""Splits identifiers into words, in the same way for files and for queries.

`getUserById` gives `get user by id getuserbyid`: first the parts, then the identifier in lower case
where it differs from them. Dots, `::`, `/` and other punctuation only separate; a kebab-case word
also gives the whole word. Words longer than `MAX_WORD` characters (hashes, base64) are cut and not
split.
"""

import re

MAX_WORD = 128

_WORD = re.compile(r"\w+(?:-[^\W\d]\w*)*")
# An upper-case run before a capitalised hump, a hump, an upper-case run, a digit run.
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_CLASS_HUMP = re.compile(r"U+(?=Ul)|U?l+|U+|d+")
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
    return tuple(_WORDS[token].split())


def split_text(text: str) -> str:
    """Return all words of a text, separated by one space.

    `split_text(a + " " + b)` is the two results joined.
    """
    pieces = (
        text.encode().translate(_SEPARATORS).decode().split()
        if text.isascii()
        else _WORD.findall(text)
    )
    return " ".join(filter(None, map(_WORDS.__getitem__, pieces)))


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
    if len(word) > MAX_WORD:
        return word[:MAX_WORD].lower()
    if "-" in word:
        return " ".join(filter(None, [*map(_join_words, word.split("-")), word.lower()]))
    lowered = word.strip("_").lower()
    parts = [part.lower() for part in _split_humps(word)]
    if len(parts) == 1 and parts[0] == lowered:
        return lowered
    return " ".join([*parts, lowered])


def _split_humps(word: str) -> list[str]:
    if word.isascii():
        return _HUMP.findall(word)
    classes = "".join(map(_class_of, word))
    return [word[match.start() : match.end()] for match in _CLASS_HUMP.finditer(classes)]


def _class_of(character: str) -> str:
    if character == "_":
        return "_"
    if character.isnumeric():
        return "d"
    return "U" if character.isupper() else "l"


_WORDS = _WordCache()
