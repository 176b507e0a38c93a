"""Parses a file for all later stages: language, tree, symbols, blocks and report.

Never raises; the report describes a broken file.
"""

from dataclasses import dataclass

from cocosearchd.languages import blocks, detect, language_table, symbols, syntax
from cocosearchd.languages.handlers.base import Block
from cocosearchd.languages.symbols import QueryOverrides
from cocosearchd.model import ParseReport, Symbol

__all__ = ["Parsed", "QueryOverrides", "grammar_of", "parse"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed file. `tree` is None without a grammar, or where parsing took too long."""

    path: str
    data: bytes
    language: str  # "" if unsupported: then the file is plain text
    tree: syntax.Tree | None
    symbols: tuple[Symbol, ...]  # outer before inner, by position
    blocks: tuple[Block, ...]  # outer before inner, by position
    report: ParseReport


def parse(
    path: str, data: bytes, overrides: QueryOverrides = (), language: str | None = None
) -> Parsed:
    """Detect the language of a file, parse it, and read its symbols and blocks.

    Bounded in time for any content (see `syntax`); never raises. `language` is the result of
    `detect`, for callers that have it.
    """
    if language is None:
        language = detect.detect(path, data[: detect.HEAD_BYTES])
    base = blocks.base_language(language)
    grammar = grammar_of(path, language)
    tree: syntax.Tree | None = None
    file_symbols: tuple[Symbol, ...] = ()
    report = _reject_reason(grammar, data)
    if report is None:
        tree = syntax.parse_tree(grammar, data)
        report = ParseReport("error", 1, "parsing took too long")
    if tree is not None:
        error_nodes = syntax.error_nodes(tree)
        report = syntax.make_report(tree, error_nodes, data)
        if syntax.is_queryable(error_nodes):
            file_symbols = symbols.extract(base, grammar, tree, data, overrides)
    return Parsed(
        path=path,
        data=data,
        language=language,
        tree=tree,
        symbols=file_symbols,
        blocks=blocks.read_blocks(language, data, file_symbols),
        report=report,
    )


def grammar_of(path: str, language: str) -> str:
    """Return the grammar that parses a file of a language; "" for none."""
    info = language_table.by_name().get(blocks.base_language(language))
    if info is None:
        return ""
    return "tsx" if info.name == "typescript" and path.lower().endswith("x") else info.grammar


def _reject_reason(grammar: str, data: bytes) -> ParseReport | None:
    """Return a report with the reason not to parse a file, None if it can be parsed."""
    if not grammar:
        return ParseReport("no_grammar")
    if syntax.has_huge_line(data):
        return ParseReport("error", 1, f"a line is longer than {syntax.MAX_LINE_BYTES} bytes")
    if syntax.nests_too_deep(grammar, data):
        return ParseReport("error", 1, f"blocks nest deeper than {syntax.MAX_NESTING} levels")
    if syntax.opens_too_many_angles(grammar, data):
        return ParseReport(
            "error", 1, f"more than {syntax.MAX_OPEN_ANGLES} angle brackets are open at once"
        )
    return None
