"""Reads the keys of a YAML file with their byte ranges, by indentation alone.

This works for broken files and for templates of YAML.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

Value = TypeVar("Value")

# Every part ends at a fixed character, so that no line can make the expression backtrack for long.
_PLAIN_KEY = r"[^\s#'\"\[\]{}&*!|>%@:-][^\n:]*(?::[^\s:][^\n:]*)*"
_LINE = re.compile(
    r"^(?P<indent> *)(?P<dashes>(?:- +)*)"
    r"(?:(?P<key>\"[^\"\n]*\"|'[^'\n]*'|"
    + _PLAIN_KEY
    + r"):(?=[ \r\n]|\Z)(?P<value>[^\n]*)|(?P<plain>[^\n]*))$",
    re.MULTILINE,
)
_SCALAR = re.compile(r"(?:[&!]\S+ +)*[|>][-+0-9]*(?: +#.*)?$")
_DOCUMENT_MARKS = ("---", "...")
_DASH = re.compile(r"- +")
_QUOTED = re.compile(r"([\"'])(.*?)\1(?: +#(?s:.*))?")
_COMMENT = re.compile(r"(?:^|(?<! ) +)#.*")


@dataclass(slots=True)
class YamlEntry:
    """A key, or an item of a list.

    Its half-open byte range ends at the next line that is not deeper.
    """

    indent: int
    key: str  # "" for an item that is no mapping
    value: str  # the rest of the line
    item: bool  # True for an item of a list, which has the first key of the item
    start_byte: int
    end_byte: int
    parent: "YamlEntry | None"
    children: list["YamlEntry"] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Append the entry to its parent's children."""
        if self.parent is not None:
            self.parent.children.append(self)


def read_entries(data: bytes) -> list[YamlEntry]:
    """Read all keys and items in order.

    An item is an entry; its first key is another entry inside it.
    """
    text = data.decode("latin-1")  # one character per byte
    entries: list[YamlEntry] = []
    open_entries: list[YamlEntry] = []
    scalar_indent: int | None = None  # indentation of the key of the current text block
    for match in _LINE.finditer(text):
        indent = len(match["indent"])
        is_in_scalar = scalar_indent is not None and indent > scalar_indent
        if is_in_scalar or _is_comment_or_blank(match):
            continue
        scalar_indent = None
        plain = (match["plain"] or "").strip()
        limit = -1 if plain in _DOCUMENT_MARKS else indent
        _close_entries(open_entries, limit, bool(match["dashes"]), match.start())
        if limit < 0 or _is_plain_text(match):
            continue
        parent = open_entries[-1] if open_entries else None
        new_entries = _open_entries(match, parent, len(text))
        entries += new_entries
        open_entries += new_entries
        if _SCALAR.match((match["value"] or plain).strip()):
            scalar_indent = new_entries[-1].indent
    return entries


def _is_plain_text(match: re.Match[str]) -> bool:
    """Return True for a line without a key and without an item."""
    return match["plain"] is not None and not match["dashes"]


def _is_comment_or_blank(match: re.Match[str]) -> bool:
    if not _is_plain_text(match):
        return False
    plain = match["plain"].strip()
    return not plain or plain.startswith("#")


def _close_entries(open_entries: list[YamlEntry], indent: int, dash: bool, end: int) -> None:
    """Close the entries that do not contain a line at this indentation.

    The items of a list may have the same indentation as its key.
    """
    while open_entries and (
        open_entries[-1].indent > indent
        or (open_entries[-1].indent == indent and (open_entries[-1].item or not dash))
    ):
        open_entries.pop().end_byte = end


def _open_entries(match: re.Match[str], parent: YamlEntry | None, end: int) -> list[YamlEntry]:
    """Make the entries that begin on a line: items for its dashes, then the key."""
    entries: list[YamlEntry] = []
    indent = len(match["indent"])
    key = _unquote(match["key"] or "")
    value = _unquote(match["value"] or match["plain"] or "")
    indents = [(indent + dash.start(), True) for dash in _DASH.finditer(match["dashes"])]
    if match["key"] is not None:
        indents.append((indent + len(match["dashes"]), False))
    for entry_indent, is_item in indents:
        entry = YamlEntry(
            indent=entry_indent,
            key=key,
            value=value,
            item=is_item,
            start_byte=match.start(),
            end_byte=end,
            parent=parent,
        )
        entries.append(entry)
        parent = entry
    return entries


def _unquote(text: str) -> str:
    """Return a key or value without its quotes and without the comment after it."""
    text = text.strip()
    quoted = _QUOTED.fullmatch(text)
    text = quoted[2] if quoted else _COMMENT.sub("", text).strip("\"'")
    return text.encode("latin-1").decode("utf-8", "replace")


def map_top_keys(
    data: bytes, describe: Callable[[list[YamlEntry], YamlEntry], Iterable[Value]]
) -> tuple[Value, ...]:
    """Call `describe` with all entries and each top-level key, and return all that it yields."""
    entries = read_entries(data)
    return tuple(value for top in children(entries, None) for value in describe(entries, top))


def children(entries: list[YamlEntry], parent: YamlEntry | None) -> list[YamlEntry]:
    """Return the entries directly inside of `parent`; with None, the top-level entries."""
    return (
        [entry for entry in entries if entry.parent is None] if parent is None else parent.children
    )


def value_of(entries: list[YamlEntry], parent: YamlEntry, *keys: str) -> str:
    """Return the value of the first of `keys` that an entry has; "" without one."""
    values = {entry.key: entry.value for entry in children(entries, parent)}
    return next((values[key] for key in keys if values.get(key)), "")
