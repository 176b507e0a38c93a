"""Chains of names as text, such as `self.client.get`: cleaned, split and bounded. Pure."""

import re

# Characters of a receiver, a module, and the name or text of a binding.
MAX_TEXT = 200
# In place of a longer text. It is no name, so nothing resolves to it.
LONG_TEXT = "…"

# The name at the end of a longer chain is looked for in this many bytes.
_TAIL_BYTES = 400
_SEPARATORS = (b"?.", b"!.", b".", b"::", b"->", b"\\")
_SPACE = re.compile(r"\s")
_AROUND_SEPARATOR = re.compile(r" ?(\?\.|\.|::|->) ?")
# The variable that a chain begins with.
_FIRST_NAME = re.compile(r"[(*&!\s]*(?:(?:await|new)\b\s*)?([\w$@]+)")


def clean_text(raw: bytes) -> str:
    """Return a text on one line, without blanks around separators; `LONG_TEXT` for a long one."""
    if len(raw) > 4 * MAX_TEXT:
        return LONG_TEXT
    text = raw.decode("utf-8", "replace")
    if text.isidentifier() and len(text) <= MAX_TEXT:
        return text
    if _SPACE.search(text):
        text = _AROUND_SEPARATOR.sub(r"\1", " ".join(text.split()))
    return text if len(text) <= MAX_TEXT else LONG_TEXT


class TextCache:
    """Cleaned texts of one file: the same types and receivers occur again and again."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._texts: dict[bytes, str] = {}

    def clean(self, start: int, end: int) -> str:
        """Return the text of a byte range as `clean_text` does."""
        if end - start > 4 * MAX_TEXT:
            return LONG_TEXT
        raw = self._data[start:end]
        text = self._texts.get(raw)
        if text is None:
            text = self._texts[raw] = clean_text(raw)
        return text


def split_chain(raw: bytes, name_start: int) -> tuple[int, str, str]:
    """Split a chain that ends with a name. Return where the name begins, the name, the receiver.

    A negative `name_start` means that it is to be found, after the last separator.
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
    ends = (
        position + len(mark) for mark in _SEPARATORS if (position := raw.rfind(mark, tail)) >= 0
    )
    name = raw[max(ends, default=0) :].rpartition(b"\n")[2].lstrip(b"# \t\r")
    return len(raw) - len(name)


def first_name(chain: str) -> str:
    """Return the variable that a chain begins with; "" if it begins otherwise."""
    first = chain.partition(".")[0]
    if first.isidentifier():
        return first
    match = _FIRST_NAME.match(chain)
    return match[1] if match else ""
