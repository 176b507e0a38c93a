"""parse(path, data): everything the later stages need to know of one file. Never raises; a broken file has a report."""

from dataclasses import dataclass

from cocosearchd.languages import blocks, detect, symbols, syntax, tables
from cocosearchd.languages.handlers.base import Block
from cocosearchd.languages.symbols import QueryOverrides
from cocosearchd.model import ParseReport, Symbol

__all__ = ["Parsed", "QueryOverrides", "parse"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A file and what is known of it. `tree` is None without a grammar, or where parsing gave up."""

    path: str
    data: bytes
    language: str  # "" where not supported: then the file is plain text
    tree: syntax.Tree | None
    symbols: tuple[Symbol, ...]  # outer before inner, by position
    blocks: tuple[Block, ...]  # outer before inner, by position
    report: ParseReport


def parse(path: str, data: bytes, overrides: QueryOverrides = ()) -> Parsed:
    """Detects, parses and reads one file. Bounded in time for any content (see `syntax`); never raises."""
    language = detect.detect(path, data[: detect.HEAD_BYTES])
    base = blocks.base_of(language)
    tree, report = _tree(path, base, data)
    found = () if tree is None else symbols.extract(base, _grammar(path, base), tree, data, overrides)
    return Parsed(path, data, language, tree, found, blocks.read(language, data, found), report)


def _grammar(path: str, language: str) -> str:
    info = tables.by_name().get(language)
    if info is None:
        return ""
    return "tsx" if info.name == "typescript" and path.lower().endswith("x") else info.grammar


def _tree(path: str, language: str, data: bytes) -> tuple[syntax.Tree | None, ParseReport]:
    grammar = _grammar(path, language)
    if not grammar:
        return None, ParseReport("no_grammar")
    if syntax.has_huge_line(data):
        return None, ParseReport("error", 1, f"a line is longer than {syntax.MAX_LINE_BYTES} bytes")
    tree = syntax.parse_tree(grammar, data)
    if tree is None:
        return None, ParseReport("error", 1, "parsing took too long")
    return tree, syntax.health(grammar, tree, data)
