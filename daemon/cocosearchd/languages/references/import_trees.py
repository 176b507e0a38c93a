"""Splits import trees such as `std::{io, fs::{self, File as F}}` into names. Pure, linear."""

import re
from collections.abc import Iterator
from typing import NamedTuple

# Nesting depth of braces; code with deeper nesting is generated.
MAX_DEPTH = 16

# Words at the start of declarations, which are not names of modules.
_KEYWORDS = re.compile(r"\s*(?:import|use)\b\s*(?:(?:function|const|static|given)\b)?")
_COMMENT_MARK = re.compile(r"//|/\*")
_VERSION_PART = re.compile(r"v\d+")
_VERSION_SUFFIX = re.compile(r"\.v\d+$")
_TOKEN = re.compile(r"=>|[{},;]|\*|(?:r#)?[\w$]+")
_SEPARATORS = ("::", "\\")


class ImportPath(NamedTuple):
    """An imported name: `a::b as c` is module "a", name "b", local "c", at an offset."""

    module: str
    name: str  # "" for the module itself, "*" for all its names
    local: str
    offset: int  # in characters


def split_import_tree(text: str) -> Iterator[ImportPath]:
    r"""Yield the imported names of a declaration, in the order of the text.

    Names are separated by `::`, `\` or `.`, renamed by `as` or `=>`. `*` and `_` mean all names.
    """
    separator = next((mark for mark in _SEPARATORS if mark in text), ".")
    text = _blank_comments(text)
    keywords = _KEYWORDS.match(text)
    prefixes: list[tuple[str, ...]] = [()]
    names = _Names()
    for token in _TOKEN.finditer(text, keywords.end() if keywords else 0):
        mark = token[0]
        if mark == "{":
            prefixes.append((*prefixes[-1], *names.parts))
            names = _Names()
            if len(prefixes) > MAX_DEPTH:
                return
        elif mark in ",};":
            yield from names.make_path(prefixes[-1], separator)
            names = _Names()
            if mark == "}" and len(prefixes) > 1:
                prefixes.pop()
        else:
            names.add(mark, token.start())
    yield from names.make_path(prefixes[-1], separator)


class _Names:
    """The names between two marks of a tree."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._alias: str | None = None
        self._is_renamed = False
        self._offset = 0

    def add(self, name: str, offset: int) -> None:
        if name in ("as", "=>"):
            self._is_renamed = True
        elif self._is_renamed:
            self._alias = name
        else:
            self.parts.append(name)
            self._offset = offset

    def make_path(self, prefix: tuple[str, ...], separator: str) -> Iterator[ImportPath]:
        """Yield the import path of the names; nothing without a name."""
        if self.parts:
            yield _make_path((*prefix, *self.parts), self._alias, self._offset, separator)


def _make_path(
    parts: tuple[str, ...], alias: str | None, offset: int, separator: str
) -> ImportPath:
    if parts[-1] in ("*", "_"):
        return ImportPath(separator.join(parts[:-1]), "*", "", offset)
    if parts[-1] == "self" and len(parts) > 1:
        parts = parts[:-1]
    local = parts[-1] if alias is None else alias
    local = "" if local == "_" else local
    if len(parts) == 1:
        return ImportPath(parts[0], "", local, offset)
    return ImportPath(separator.join(parts[:-1]), parts[-1], local, offset)


def _blank_comments(text: str) -> str:
    """Replace comments by blanks. An unclosed comment ends with the text."""
    pieces = list[str]()
    position = 0
    while mark := _COMMENT_MARK.search(text, position):
        closing = "\n" if mark[0] == "//" else "*/"
        end = text.find(closing, mark.end())
        end = len(text) if end < 0 else end + len(closing.strip())
        pieces += (text[position : mark.start()], " " * (end - mark.start()))
        position = end
    return "".join((*pieces, text[position:]))


def last_part(module: str) -> str:
    """Return the default name of a Go package: the last part of its path, without a version."""
    parts = [part for part in module.split("/") if part]
    if len(parts) > 1 and _VERSION_PART.fullmatch(parts[-1]):
        parts.pop()
    name = _VERSION_SUFFIX.sub("", parts[-1]) if parts else ""
    return name.removeprefix("go-").replace("-", "_")
