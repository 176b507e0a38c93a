"""The keys of a YAML file with their byte ranges, by indentation alone.

This works for broken files and for templates of YAML.
"""

import re
from dataclasses import dataclass, field

# Every part ends at a fixed character, so that no line can make it backtrack for long.
_PLAIN_KEY = r"[^\s#'\"\[\]{}&*!|>%@:-][^\n:]*(?::[^\s:][^\n:]*)*"
_LINE = re.compile(
    r"^(?P<indent> *)(?P<dashes>(?:- +)*)"
    r"(?:(?P<key>\"[^\"\n]*\"|'[^'\n]*'|"
    + _PLAIN_KEY
    + r"):(?=[ \r\n]|\Z)(?P<value>[^\n]*)|(?P<plain>[^\n]*))$",
    re.MULTILINE,
)
_SCALAR = re.compile(r"(?:[&!]\S+ +)*[|>][-+0-9]*(?: +#.*)?$")
_DASH = re.compile(r"- +")
_QUOTED = re.compile(r"([\"'])(.*?)\1(?: +#(?s:.*))?")
_COMMENT = re.compile(r"(?:^|(?<! ) +)#.*")


@dataclass(slots=True)
class YamlEntry:
    """A key, or an item of a list. Bytes are half-open, up to the next line that is not deeper."""

    indent: int
    key: str  # "" for an item that is no mapping
    value: str  # the rest of the line
    item: bool  # the first key of an item of a list
    start_byte: int
    end_byte: int
    parent: "YamlEntry | None"
    children: list["YamlEntry"] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Append the entry to its parent's children."""
        if self.parent is not None:
            self.parent.children.append(self)


def read_entries(data: bytes) -> list[YamlEntry]:
    """Read all keys and items in order. An item is an entry; its first key is another one inside
    it.
    """
    text = data.decode("latin-1")  # one character a byte
    entries: list[YamlEntry] = []
    open_entries: list[YamlEntry] = []
    scalar_indent: int | None = None  # the indentation of the key of the current text block
    for match in _LINE.finditer(text):
        indent = len(match["indent"])
        dashes = match["dashes"]
        plain = match["plain"]
        if plain is not None:
            plain = plain.strip()
            if (not plain or plain.startswith("#")) and not dashes:
                continue
        if scalar_indent is not None and indent > scalar_indent:
            continue
        scalar_indent = None
        limit = -1 if plain in ("---", "...") else indent
        _close_entries(open_entries, limit, bool(dashes), match.start())
        if limit < 0 or (plain is not None and not dashes):
            continue
        new_entries = _open_entries(
            match, indent, dashes, open_entries[-1] if open_entries else None, len(text)
        )
        entries += new_entries
        open_entries += new_entries
        if _SCALAR.match((match["value"] or plain or "").strip()):
            scalar_indent = new_entries[-1].indent
    return entries


def _close_entries(open_entries: list[YamlEntry], indent: int, dash: bool, end: int) -> None:
    """Close the entries that a line at this indentation is not inside of.

    The items of a list may have the same indentation as its key.
    """
    while open_entries and (
        open_entries[-1].indent > indent
        or (open_entries[-1].indent == indent and (open_entries[-1].item or not dash))
    ):
        open_entries.pop().end_byte = end


def _open_entries(
    match: re.Match[str], indent: int, dashes: str, parent: YamlEntry | None, end: int
) -> list[YamlEntry]:
    """Return the entries that begin on a line: items for its dashes, then the key."""
    entries: list[YamlEntry] = []
    key = _unquote(match["key"] or "")
    value = _unquote(match["value"] or match["plain"] or "")
    for dash in _DASH.finditer(dashes):
        entries.append(
            YamlEntry(indent + dash.start(), key, value, True, match.start(), end, parent)
        )
        parent = entries[-1]
    if match["key"] is not None:
        entries.append(
            YamlEntry(indent + len(dashes), key, value, False, match.start(), end, parent)
        )
    return entries


def _unquote(text: str) -> str:
    """Return a key or value without its quotes and without the comment after it."""
    text = text.strip()
    quoted = _QUOTED.fullmatch(text)
    text = quoted[2] if quoted else _COMMENT.sub("", text).strip("\"'")
    return text.encode("latin-1").decode("utf-8", "replace")


def children(entries: list[YamlEntry], parent: YamlEntry | None) -> list[YamlEntry]:
    """Return the entries directly inside of `parent`; None: those at the top."""
    return (
        [entry for entry in entries if entry.parent is None] if parent is None else parent.children
    )


def value_of(entries: list[YamlEntry], parent: YamlEntry, *keys: str) -> str:
    """Return the value of the first of these keys that an entry has, "" without one."""
    values = {entry.key: entry.value for entry in children(entries, parent)}
    return next((values[key] for key in keys if values.get(key)), "")
