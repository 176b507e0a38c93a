"""The keys of a YAML file with their ranges, by indentation alone: works for broken files and for
templates of YAML.
"""

import re
from dataclasses import dataclass, field

# Every part runs to a fixed end, so that no line can make it backtrack for long.
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
    value: str  # what follows on the line
    item: bool  # the first key of an item of a list
    start_byte: int
    end_byte: int
    parent: "YamlEntry | None"
    children: list["YamlEntry"] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Takes its place below its parent."""
        if self.parent is not None:
            self.parent.children.append(self)


def read_entries(data: bytes) -> list[YamlEntry]:
    """All keys and items in order. An item is an entry; its first key is another one, inside of
    it.
    """
    text = data.decode("latin-1")  # one character a byte
    found: list[YamlEntry] = []
    around: list[YamlEntry] = []
    scalar: int | None = None  # the indentation of the key whose text block we are in
    for match in _LINE.finditer(text):
        indent = len(match["indent"])
        dashes = match["dashes"]
        plain = match["plain"]
        if plain is not None:
            plain = plain.strip()
            if (not plain or plain.startswith("#")) and not dashes:
                continue
        if scalar is not None and indent > scalar:
            continue
        scalar = None
        limit = -1 if plain in ("---", "...") else indent
        _close_entries(around, limit, bool(dashes), match.start())
        if limit < 0 or (plain is not None and not dashes):
            continue
        opened = _open_entries(match, indent, dashes, around[-1] if around else None, len(text))
        found += opened
        around += opened
        if _SCALAR.match((match["value"] or plain or "").strip()):
            scalar = opened[-1].indent
    return found


def _close_entries(around: list[YamlEntry], indent: int, dash: bool, end: int) -> None:
    """Ends what a line at this indentation is not inside of. The items of a list may be as deep as
    its key.
    """
    while around and (
        around[-1].indent > indent
        or (around[-1].indent == indent and (around[-1].item or not dash))
    ):
        around.pop().end_byte = end


def _open_entries(
    match: re.Match[str], indent: int, dashes: str, parent: YamlEntry | None, end: int
) -> list[YamlEntry]:
    """The entries that begin on a line: items for its dashes, then the key."""
    opened: list[YamlEntry] = []
    key = _unquote(match["key"] or "")
    value = _unquote(match["value"] or match["plain"] or "")
    for dash in _DASH.finditer(dashes):
        opened.append(
            YamlEntry(indent + dash.start(), key, value, True, match.start(), end, parent)
        )
        parent = opened[-1]
    if match["key"] is not None:
        opened.append(
            YamlEntry(indent + len(dashes), key, value, False, match.start(), end, parent)
        )
    return opened


def _unquote(text: str) -> str:
    """A key or value without its quotes, and without the comment after it."""
    text = text.strip()
    quoted = _QUOTED.fullmatch(text)
    text = quoted[2] if quoted else _COMMENT.sub("", text).strip("\"'")
    return text.encode("latin-1").decode("utf-8", "replace")


def children(found: list[YamlEntry], parent: YamlEntry | None) -> list[YamlEntry]:
    """The entries directly inside of one; None: those at the top."""
    return [entry for entry in found if entry.parent is None] if parent is None else parent.children


def value_of(found: list[YamlEntry], parent: YamlEntry, *keys: str) -> str:
    """The value of the first of these keys that an entry has, "" without one."""
    values = {entry.key: entry.value for entry in children(found, parent)}
    return next((values[key] for key in keys if values.get(key)), "")
