"""Wraps all use of tree-sitter: parsers (one per thread and grammar), queries, error reports.

Parsers are not thread-safe, so each thread has its own parsers; it keeps them, because making one
takes milliseconds. Grammars come from the wheel of tree-sitter-language-pack; nothing is
downloaded.
"""

import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from time import thread_time
from typing import Any, cast

from tree_sitter import Language, Node, Parser, Query, QueryCursor, QueryError, Tree, TreeCursor
from tree_sitter_language_pack import get_language

from cocosearchd.model import ParseReport

# Limit of one parse in CPU time, which does not depend on the load of the machine. A valid file
# takes 0.1 to 0.4 s per MiB. Error recovery on hostile input can take minutes (measured: 256 KiB of
# random tokens in TSX or Lua).
PARSE_CPU_S = 3.0
# Wall time between two checks of that limit. The parser holds the interpreter lock for this long.
SLICE_US = 500_000
# Longer lines are generated. Several grammars need quadratic time for them, so files with such
# lines are not parsed at all.
MAX_LINE_BYTES = 20_000
# Limit of nested blocks. The scanner for YAML writes past its buffer at 254 levels, the scanner for
# Markdown at some hundreds (measured). Such a write ends the process.
MAX_NESTING = 200
# Limit of angle brackets that are open at once in one statement. In the grammars below, each may be
# a comparison or a list of types, so the parser tracks many interpretations (measured for Java:
# 1,000 brackets take 36 MB, 5,000 take 350 MB, 50,000 take 14.8 GB). Code that people write has
# some tens.
MAX_OPEN_ANGLES = 1000
_AMBIGUOUS_ANGLES = frozenset({"java", "csharp", "typescript", "tsx"})
# Limit of in-progress matches of one query; our patterns need a handful.
MATCH_LIMIT = 1024
# Bytes of text whose matches are in memory at once. A match takes half a KiB, and each byte may
# match.
MATCH_BYTES = 1 << 17
# Definitions at a larger depth of a tree are ignored: the time of queries and of look-ups of
# parents is quadratic in the depth (measured: a query takes 6 s on 24,000 nested namespaces, and
# minutes on a chain of 32,000 calls).
MAX_DEPTH = 1000
# A file whose tree has an error with more children gets no symbols (measured: a query takes 0.6 s
# on 20,000 children, and 3.5 s on 50,000).
MAX_ERROR_CHILDREN = 10_000
_MAX_ERRORS = 1000
_MAX_STEPS = 200_000

__all__ = [
    "Match",
    "Node",
    "Query",
    "QueryError",
    "Tree",
    "compile_query",
    "count_patterns",
    "error_nodes",
    "has_huge_line",
    "is_queryable",
    "make_report",
    "match_parts",
    "nests_too_deep",
    "opens_too_many_angles",
    "parse_tree",
    "pattern_captures",
    "pattern_constants",
    "run_query",
]

# (number of the pattern in its query, captured nodes by name)
Match = tuple[int, dict[str, list[Node]]]

_LOCAL = threading.local()
# A capture in a query; strings and comments are matched first, because they contain no captures.
_CAPTURE = re.compile(r'"(?:[^"\\]|\\.)*+"?|;[^\n]*+|@([\w.-]+)')
_STATEMENT_END = re.compile(rb"[;{}]")
_ANGLE = re.compile(rb"[<>]")
# Grammar -> (bytes of indentation, pattern for the start of a line where blocks may begin, pattern
# for marks that begin a block).
_NESTING = {
    "yaml": (b" \t", re.compile(rb".*", re.DOTALL), re.compile(rb"[-?:](?=\s|$)")),
    "markdown": (
        b" \t>",
        re.compile(rb"(?:[\s>]|(?:[-*+]|\d+[.)])(?=\s|$))*"),
        re.compile(rb"[>*+-]|\d+"),
    ),
}


@cache
def _language(grammar: str) -> Language:
    return get_language(cast(Any, grammar))


def _parser(grammar: str) -> Parser:
    parsers: dict[str, Parser] = _LOCAL.__dict__.setdefault("parsers", {})
    if grammar not in parsers:
        # The binding deprecates its timeout, but the callback that replaces the timeout crashes the
        # interpreter (version 0.25.2).
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            parsers[grammar] = Parser(_language(grammar), timeout_micros=SLICE_US)
    return parsers[grammar]


def has_huge_line(data: bytes) -> bool:
    """Return True if a line is too long to be parsed."""
    # a regular expression would read a line again from each of its bytes
    return len(data) > MAX_LINE_BYTES and max(map(len, data.split(b"\n"))) >= MAX_LINE_BYTES


def nests_too_deep(grammar: str, data: bytes) -> bool:
    """Return True if blocks of a file may nest deeper than its grammar's scanner allows.

    The computed depth is an upper bound, determined line by line.
    """
    if grammar not in _NESTING:
        return False
    indentation, head, block_mark = _NESTING[grammar]
    open_levels: list[tuple[int, int]] = []  # (indentation, number of blocks that may begin)
    depth = 0
    for line in data.splitlines():
        indent = len(line) - len(line.lstrip(indentation))
        if line.isspace() or not line:
            continue
        while open_levels and open_levels[-1][0] >= indent:
            depth -= open_levels.pop()[1]
        line_start = head.match(line)
        # the 1 counts a mapping around a list with the same indentation
        level_blocks = 1 + (len(block_mark.findall(line_start[0])) if line_start else 0)
        open_levels.append((indent, level_blocks))
        depth += level_blocks
        if depth > MAX_NESTING:
            return True
    return False


def opens_too_many_angles(grammar: str, data: bytes) -> bool:
    """Return True if a statement has more than `MAX_OPEN_ANGLES` open angle brackets.

    Always False for grammars in which angle brackets are not ambiguous.
    """
    if grammar not in _AMBIGUOUS_ANGLES or data.count(b"<") <= MAX_OPEN_ANGLES:
        return False
    return any(
        _max_open_angles(statement) > MAX_OPEN_ANGLES
        for statement in _STATEMENT_END.split(data)
        if statement.count(b"<")
    )


def _max_open_angles(statement: bytes) -> int:
    depth = 0
    maximum = 0
    for match in _ANGLE.finditer(statement):
        depth = depth + 1 if match[0] == b"<" else max(0, depth - 1)
        maximum = max(maximum, depth)
    return maximum


def parse_tree(grammar: str, data: bytes) -> Tree | None:
    """Parse a file; None if that took too long."""
    parser = _parser(grammar)
    text = _replace_invalid(data)
    # without a final line break, the scanner of Perl may never stop (for example after `r#`)
    if grammar == "perl" and not text.endswith(b"\n"):
        text += b"\n"
    until = thread_time() + PARSE_CPU_S
    while True:
        try:
            return parser.parse(text)
        # the time slice is over: unless the parser is reset, the next call continues with this file
        except ValueError:
            if thread_time() >= until:
                parser.reset()
                return None


def _replace_invalid(data: bytes) -> bytes:
    """Replace bytes that are not UTF-8 by question marks, because query predicates fail on them."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape").encode("utf-8", "replace")
    return data


@cache
def compile_query(grammar: str, text: str) -> Query:
    """Compile a query. The result is cached and shared, because queries are read-only.

    Raises `QueryError` if the text is not valid for the grammar.
    """
    return Query(_language(grammar), text)


@cache
def count_patterns(grammar: str, text: str, length: int) -> int:
    """Return the number of patterns in the first `length` bytes of the text of a query."""
    query = compile_query(grammar, text)
    # the stub of the binding says that this is a method
    count = cast(int, query.pattern_count)
    starts = map(query.start_byte_for_pattern, range(count))
    return sum(start < length for start in starts)


def pattern_constants(query: Query) -> tuple[dict[str, str], ...]:
    """Return for each pattern the values that it sets by `#set!`, by key."""
    # the stub of the binding says that this is a method
    count = cast(int, query.pattern_count)
    settings = map(query.pattern_settings, range(count))
    return tuple(
        {name: value for name, value in values.items() if value is not None} for values in settings
    )


def pattern_captures(query: Query, text: str) -> tuple[frozenset[str], ...]:
    """Return for each pattern of a query the names of its captures. `text` is the query's text."""
    # the stub of the binding says that this is a method
    count = cast(int, query.pattern_count)
    raw = text.encode()
    ranges = (
        (query.start_byte_for_pattern(number), query.end_byte_for_pattern(number))
        for number in range(count)
    )
    return tuple(
        frozenset(filter(None, _CAPTURE.findall(raw[start:end].decode()))) for start, end in ranges
    )


def run_query(query: Query, root: Node) -> list[Match]:
    """Return all matches as (pattern number, captures), roughly in the order of the tree."""
    cursor = QueryCursor(query, match_limit=MATCH_LIMIT)
    cursor.set_max_start_depth(MAX_DEPTH)
    return cursor.matches(root)


def match_parts(query: Query, root: Node, size: int) -> Iterator[tuple[int, list[Match]]]:
    """Yield the matches of a query in a text of `size` bytes, part by part.

    Each part has its start and its matches. A match that reaches into several parts is in each of
    them.
    """
    if size <= MATCH_BYTES:
        yield 0, run_query(query, root)
        return
    for start in range(0, size, MATCH_BYTES):
        cursor = QueryCursor(query, match_limit=MATCH_LIMIT)
        cursor.set_max_start_depth(MAX_DEPTH)
        cursor.set_byte_range(start, start + MATCH_BYTES)
        yield start, cursor.matches(root)


def error_nodes(tree: Tree) -> tuple[Node, ...]:
    """Return the outermost erroneous or missing nodes of a tree, in order; at most `_MAX_ERRORS`.

    This does not use a query: for a node with n children, a query cursor needs n^2 steps, and
    errors have thousands of children.
    """
    nodes: list[Node] = []
    cursor = tree.walk()
    for _ in range(_MAX_STEPS):
        node = cursor.node
        if node is None or len(nodes) >= _MAX_ERRORS:
            break
        if node.is_error or node.is_missing:
            nodes.append(node)
        elif node.has_error and cursor.goto_first_child():
            continue
        if not _goto_next(cursor):
            break
    return tuple(nodes)


def _goto_next(cursor: TreeCursor) -> bool:
    """Move to the next node that is not inside of the current node; return False at the end."""
    while not cursor.goto_next_sibling():
        if not cursor.goto_parent():
            return False
    return True


def is_queryable(error_nodes: Sequence[Node]) -> bool:
    """Return True if queries take bounded time on a tree with these errors."""
    return all(node.child_count <= MAX_ERROR_CHILDREN for node in error_nodes)


def make_report(tree: Tree, error_nodes: Sequence[Node], data: bytes) -> ParseReport:
    """Make the report: `ok`; `partial` with errors; `error` if most of the file is in errors."""
    root = tree.root_node
    if not root.has_error:
        return ParseReport("ok")
    covered = sum(node.end_byte - node.start_byte for node in error_nodes)
    failed = root.is_error or covered * 2 > len(data)
    message = _message(error_nodes[0], data) if error_nodes else "syntax error"
    return ParseReport("error" if failed else "partial", max(1, len(error_nodes)), message)


def _message(node: Node, data: bytes) -> str:
    line = node.start_point.row + 1
    if node.is_missing:
        return f"line {line}: missing {node.type}"
    text = data[node.start_byte : min(node.end_byte, node.start_byte + 80)].decode(
        "utf-8", "replace"
    )
    return f"line {line}: unexpected {' '.join(text.split())[:60].replace(chr(0), '?')!r}"
