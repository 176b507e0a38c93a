"""Cleans, splits and bounds the text of name chains such as `self.client.get`. Pure."""

import re
from collections.abc import Iterable
from functools import lru_cache

# Largest length, in characters, of a receiver, a module, and the name or text of a binding.
MAX_TEXT = 200
# Replaces a longer text. It is no name, so nothing resolves to it.
LONG_TEXT = "…"

# Texts of up to 800 bytes that a process caches: the same names, types and receivers occur in many
# files of a project.
REMEMBERED_TEXTS = 4096

# The name at the end of a longer chain is searched in this many bytes.
_TAIL_BYTES = 400
_SEPARATORS = (b"?.", b"!.", b".", b"::", b"->", b"\\")
_LAST_MARKS = (b".", b"::", b"->", b"\\")  # the ends of the separators
_SPACE = re.compile(r"\s")
_AROUND_SEPARATOR = re.compile(r" ?(\?\.|\.|::|->) ?")
# The variable at the start of a chain.
_FIRST_NAME = re.compile(r"[(*&!\s]*(?:(?:await|new)\b\s*)?([\w$@]+)")


def clean_text(raw: bytes) -> str:
    """Return a text on one line, without blanks around separators; `LONG_TEXT` for a long text."""
    if len(raw) > 4 * MAX_TEXT:
        return LONG_TEXT
    text = raw.decode("utf-8", "replace")
    if text.isidentifier() and len(text) <= MAX_TEXT:
        return text
    if _SPACE.search(text):
        text = _AROUND_SEPARATOR.sub(r"\1", " ".join(text.split()))
    return text if len(text) <= MAX_TEXT else LONG_TEXT


_remembered_text = lru_cache(REMEMBERED_TEXTS)(clean_text)


class RangeTexts:
    """Reads texts of one file by byte ranges."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._ascii = data.decode() if data.isascii() else None

    def read_all(self, ranges: Iterable[tuple[int, int]]) -> list[str]:
        """Return the unchanged texts of some ranges."""
        text = self._ascii
        if text is not None:
            return [text[start:end] for start, end in ranges]
        return [self._data[start:end].decode("utf-8", "replace") for start, end in ranges]

    def read_short(self, ranges: Iterable[tuple[int, int]]) -> list[str]:
        """Return the unchanged texts of some ranges; "" for those over `MAX_TEXT` bytes.

        Long texts are slow to read, and there may be many.
        """
        text = self._ascii
        if text is not None:
            return [text[start:end] if end - start <= MAX_TEXT else "" for start, end in ranges]
        data = self._data
        return [
            data[start:end].decode("utf-8", "replace") if end - start <= MAX_TEXT else ""
            for start, end in ranges
        ]

    def clean_all(self, ranges: Iterable[tuple[int, int]]) -> list[str]:
        """Return the texts of some ranges, cleaned by `clean_text`."""
        ranges = list(ranges)
        return [
            text if text.isidentifier() else self.clean(*text_range)
            for text, text_range in zip(self.read_short(ranges), ranges, strict=True)
        ]

    def clean(self, start: int, end: int) -> str:
        """Return the text of a range, cleaned by `clean_text`."""
        return LONG_TEXT if end - start > 4 * MAX_TEXT else _remembered_text(self._data[start:end])


def split_chain(raw: bytes, name_start: int) -> tuple[int, str, str]:
    """Split a chain that ends with a name; return the start of the name, the name, the receiver.

    With a negative `name_start`, the name begins after the last separator.
    """
    if name_start < 0:
        text = raw.decode("utf-8", "replace")
        if text.isidentifier():
            return 0, text, ""
        name_start = _find_name(raw)
    name = raw[name_start:].decode("utf-8", "replace")
    receiver = raw[:name_start].rstrip(b"# \t\r\n")
    for separator in _SEPARATORS:
        if receiver.endswith(separator):
            receiver = receiver[: -len(separator)]
            break
    return name_start, name, clean_text(receiver.strip())


def _find_name(raw: bytes) -> int:
    tail = max(0, len(raw) - _TAIL_BYTES)
    ends = [raw.rfind(mark, tail) + len(mark) for mark in _LAST_MARKS if raw.find(mark, tail) >= 0]
    name = raw[max(ends, default=0) :].rpartition(b"\n")[2].lstrip(b"# \t\r")
    return len(raw) - len(name)


def first_name(chain: str) -> str:
    """Return the variable at the start of a chain; "" without one."""
    first = chain.partition(".")[0]
    if first.isidentifier():
        return first
    match = _FIRST_NAME.match(chain)
    return match[1] if match else ""
