"""tree-sitter, all of it: parsers (one per thread and grammar), compiled queries, and what a tree says of its health.

Parsers are not thread-safe, and a grammar costs milliseconds to load, so each thread keeps its own. Grammars come from
the wheel of tree-sitter-language-pack; nothing is downloaded.
"""

import re
import threading
import warnings
from functools import cache
from typing import Any, cast

from tree_sitter import Language, Node, Parser, Query, QueryCursor, QueryError, Tree
from tree_sitter_language_pack import get_language

from cocosearchd.model import ParseReport

# Wall-clock limit of one parse. A healthy 1 MiB file takes 0.1 to 0.4 s; error recovery on hostile input can take
# minutes (measured: 256 KiB of random tokens in TSX or Lua).
PARSE_TIMEOUT_US = 3_000_000
# Lines longer than this are generated. Several grammars need quadratic time on them, so they are not parsed at all.
MAX_LINE_BYTES = 20_000
# In-progress matches of one query; our patterns need a handful.
MATCH_LIMIT = 1024
_MAX_ERRORS = 1000

__all__ = ["Node", "QueryError", "Tree", "compiled", "has_huge_line", "health", "matches", "parse_tree"]

_LOCAL = threading.local()
_HUGE_LINE = re.compile(rb"[^\n]{%d}" % MAX_LINE_BYTES)


@cache
def _language(grammar: str) -> Language:
    return get_language(cast(Any, grammar))


def _parser(grammar: str) -> Parser:
    parsers: dict[str, Parser] = _LOCAL.__dict__.setdefault("parsers", {})
    if grammar not in parsers:
        # The binding calls its timeout deprecated, but the callback that replaces it crashes the interpreter (0.25.2).
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            parsers[grammar] = Parser(_language(grammar), timeout_micros=PARSE_TIMEOUT_US)
    return parsers[grammar]


def has_huge_line(data: bytes) -> bool:
    """Whether some line is too long to be parsed."""
    return len(data) > MAX_LINE_BYTES and _HUGE_LINE.search(data) is not None


def parse_tree(grammar: str, data: bytes) -> Tree | None:
    """The tree of a file, or None where parsing took too long."""
    parser = _parser(grammar)
    try:
        return parser.parse(_valid(data))
    except ValueError:  # the timeout: the parser would resume this very file
        parser.reset()
        return None


def _valid(data: bytes) -> bytes:
    """The same bytes with a question mark for each that is not UTF-8: the predicates of queries fail on those."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape").encode("utf-8", "replace")
    return data


@cache
def compiled(grammar: str, text: str) -> Query:
    """A compiled query, shared: it is only read. Raises `QueryError` where the text is not valid for the grammar."""
    return Query(_language(grammar), text)


def matches(query: Query, root: Node) -> list[tuple[int, dict[str, list[Node]]]]:
    """Every match as the number of its pattern and its captures, roughly in the order of the tree."""
    cursor = QueryCursor(query, match_limit=MATCH_LIMIT)
    return cursor.matches(root)


def health(grammar: str, tree: Tree, data: bytes) -> ParseReport:
    """`ok`; `partial` with some errors; `error` where most of the file is inside of errors."""
    root = tree.root_node
    if not root.has_error:
        return ParseReport("ok")
    cursor = QueryCursor(compiled(grammar, "(ERROR) @error (MISSING) @error"), match_limit=MATCH_LIMIT)
    nodes = cursor.captures(root).get("error", [])[:_MAX_ERRORS]
    outermost, covered, end = [], 0, -1
    for node in sorted(nodes, key=lambda node: (node.start_byte, -node.end_byte)):
        if node.end_byte > end or node.is_missing:
            outermost.append(node)
            covered += max(0, node.end_byte - max(node.start_byte, end))
            end = max(end, node.end_byte)
    failed = root.is_error or covered * 2 > len(data)
    message = _message(outermost[0], data) if outermost else "syntax error"
    return ParseReport("error" if failed else "partial", max(1, len(outermost)), message)


def _message(node: Node, data: bytes) -> str:
    line = node.start_point.row + 1
    if node.is_missing:
        return f"line {line}: missing {node.type}"
    text = data[node.start_byte : min(node.end_byte, node.start_byte + 80)].decode("utf-8", "replace")
    return f"line {line}: unexpected {' '.join(text.split())[:60].replace(chr(0), '?')!r}"
