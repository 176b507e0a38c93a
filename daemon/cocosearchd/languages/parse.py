"""Parses a file for all later stages: language, tree, symbols, facts, blocks and report.

Never raises; the report describes a broken file.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cocosearchd.languages import blocks, detect, language_table, symbols, syntax
from cocosearchd.languages.code_facts import NO_COLUMNS, CodeFacts, FactColumns, make_columns
from cocosearchd.languages.handlers.base import Block
from cocosearchd.languages.patterns import grammar_gaps
from cocosearchd.languages.patterns.comment_runs import blank_comment_runs
from cocosearchd.languages.patterns.declaration_macros import blank_declaration_macros
from cocosearchd.languages.references.code_matches import match_code, needs_tree
from cocosearchd.languages.references.fact_collector import FactCollector
from cocosearchd.languages.references.fact_extraction import extract_facts
from cocosearchd.languages.references.package_facts import extract_package_facts
from cocosearchd.languages.symbols import QueryOverrides
from cocosearchd.model import ParseReport, Symbol

__all__ = ["Parsed", "QueryOverrides", "grammar_of", "parse"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed file.

    `tree` is None if there is no grammar, if no tree is needed, or if parsing took too long.
    """

    path: str
    data: bytes
    language: str  # "" if unsupported: then the file counts as plain text
    tree: syntax.Tree | None
    symbols: tuple[Symbol, ...]  # outer before inner, by position
    blocks: tuple[Block, ...]  # outer before inner, by position
    report: ParseReport
    fact_columns: FactColumns = NO_COLUMNS

    @property
    def facts(self) -> CodeFacts:
        """The facts as objects, created at each access."""
        return self.fact_columns.facts()


def parse(
    path: str, data: bytes, overrides: QueryOverrides = (), language: str | None = None
) -> Parsed:
    """Detect the language of a file, parse it, and read its symbols, facts and blocks.

    Time is bounded for any content (see `syntax`). Never raises. Callers that have the result of
    `detect` pass it as `language`.
    """
    if language is None:
        language = detect.detect(path, data[: detect.HEAD_BYTES])
    base = blocks.base_language(language)
    grammar = grammar_of(path, language)
    tree: syntax.Tree | None = None
    file_symbols: tuple[Symbol, ...] = ()
    columns = NO_COLUMNS
    report = _report_unparsed(base, grammar, data, overrides)
    if report is None:
        readable = blank_comment_runs(grammar, blank_declaration_macros(grammar, data))
        tree = syntax.parse_tree(grammar, readable)
        report = ParseReport("error", 1, "parsing took too long")
    if tree is not None:
        tree, error_nodes = _bridge_gaps(base, grammar, data, tree)
        report = syntax.make_report(tree, error_nodes, data)
        if syntax.is_queryable(error_nodes):
            captures = FactCollector(match_code(base, grammar, tree, len(data), overrides))
            file_symbols = symbols.extract(captures.definitions, data)
            columns = extract_facts(captures, data, file_symbols)
    if base == "json":
        columns = make_columns(extract_package_facts(path, data))
    return Parsed(
        path=path,
        data=data,
        language=language,
        tree=tree,
        symbols=file_symbols,
        blocks=blocks.read_blocks(language, data, file_symbols),
        report=report,
        fact_columns=columns,
    )


def _bridge_gaps(
    language: str, grammar: str, data: bytes, tree: syntax.Tree
) -> tuple[syntax.Tree, tuple[syntax.Node, ...]]:
    """Return a tree and its errors.

    A file with errors is parsed again if its grammar has known gaps. The tree with fewer errors
    wins.
    """
    error_nodes = syntax.error_nodes(tree)
    bridged = grammar_gaps.bridge_gaps(language, grammar, data) if error_nodes else data
    other_tree = syntax.parse_tree(grammar, bridged) if bridged != data else None
    if other_tree is None:
        return tree, error_nodes
    other_nodes = syntax.error_nodes(other_tree)
    if _size(other_nodes) < _size(error_nodes):
        return other_tree, other_nodes
    return tree, error_nodes


def _size(nodes: Sequence[syntax.Node]) -> tuple[int, int]:
    """Return the bytes in errors, and the number of errors: missing nodes have no bytes."""
    return sum(node.end_byte - node.start_byte for node in nodes), len(nodes)


def grammar_of(path: str, language: str) -> str:
    """Return the grammar that parses a file of a language; "" for none."""
    language_row = language_table.by_name().get(blocks.base_language(language))
    if language_row is None:
        return ""
    return (
        "tsx"
        if language_row.name == "typescript" and path.lower().endswith("x")
        else language_row.grammar
    )


def _report_unparsed(
    language: str, grammar: str, data: bytes, overrides: QueryOverrides
) -> ParseReport | None:
    """Return the report of a file that need not or cannot be parsed; None if it must be parsed."""
    if not grammar:
        return ParseReport("no_grammar")
    if syntax.has_huge_line(data):
        return ParseReport("error", 1, f"a line is longer than {syntax.MAX_LINE_BYTES} bytes")
    if language_table.by_name()[language].always_valid and not needs_tree(
        language, grammar, overrides
    ):
        return ParseReport("ok")
    if syntax.nests_too_deep(grammar, data):
        return ParseReport("error", 1, f"blocks nest deeper than {syntax.MAX_NESTING} levels")
    if syntax.opens_too_many_angles(grammar, data):
        return ParseReport(
            "error", 1, f"more than {syntax.MAX_OPEN_ANGLES} angle brackets are open at once"
        )
    return None
