"""tree-sitter, all of it: parsers (one per thread and grammar), compiled queries, and what a tree
says of its health.

Parsers are not thread-safe, and a grammar costs milliseconds to load, so each thread keeps its own.
Grammars come from the wheel of tree-sitter-language-pack; nothing is downloaded.
"""

import re
import threading
import warnings
from collections.abc import Sequence
from functools import cache
from time import thread_time
from typing import Any, cast

from tree_sitter import Language, Node, Parser, Query, QueryCursor, QueryError, Tree
from tree_sitter_language_pack import get_language

from cocosearchd.model import ParseReport

# Limit of one parse, of CPU time: a healthy file takes no more of that where others use the machine as well, 0.1 to
# 0.4 s for 1 MiB. Error recovery on hostile input can take minutes (measured: 256 KiB of random tokens in TSX or Lua).
PARSE_CPU_S = 3.0
# How long a parser goes on without a look at that, by the clock. It holds the interpreter for as
# long.
SLICE_US = 500_000
# Lines longer than this are generated. Several grammars need quadratic time on them, so they are
# not parsed at all.
MAX_LINE_BYTES = 20_000
# Blocks inside of each other: the scanner for YAML writes past its buffer at 254, the one for
# Markdown at some hundreds (measured). That ends the process.
MAX_NESTING = 200
# Angle brackets that are open at once in one statement. In these grammars each is a comparison or a list of types, so
# the parser keeps as many readings as there are (measured for Java: 1,000 take 36 MB, 5,000 take 350 MB, 50,000 take
# 14.8 GB). Code that people write has some tens.
MAX_OPEN_ANGLES = 1000
_AMBIGUOUS_ANGLES = frozenset({"java", "csharp", "typescript", "tsx"})
# In-progress matches of one query; our patterns need a handful.
MATCH_LIMIT = 1024
# Deeper in a tree no definition is looked for: queries and parents of nodes take the square of the
# depth (measured: 24,000 namespaces inside of each other take a query 6 s, 32,000 calls in a chain
# take it minutes).
MAX_DEPTH = 1000
# More children than this in one error (measured: 20,000 take a query 0.6 s, 50,000 take 3.5 s): no
# symbols.
MAX_ERROR_CHILDREN = 10_000
_MAX_ERRORS = 1000
_MAX_STEPS = 200_000

__all__ = [
    "Node",
    "QueryError",
    "Tree",
    "compile_query",
    "error_nodes",
    "has_huge_line",
    "is_queryable",
    "make_report",
    "nests_too_deep",
    "opens_too_many_angles",
    "parse_tree",
    "run_query",
]

_LOCAL = threading.local()
_STATEMENT_END = re.compile(rb"[;{}]")
_ANGLE = re.compile(rb"[<>]")
_HUGE_LINE = re.compile(rb"[^\n]{%d}" % MAX_LINE_BYTES)
# By grammar: what indents a line, where in it blocks may begin, and what begins one.
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
        # The binding calls its timeout deprecated, but the callback that replaces it crashes the
        # interpreter (0.25.2).
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            parsers[grammar] = Parser(_language(grammar), timeout_micros=SLICE_US)
    return parsers[grammar]


def has_huge_line(data: bytes) -> bool:
    """Whether some line is too long to be parsed."""
    return len(data) > MAX_LINE_BYTES and _HUGE_LINE.search(data) is not None


def nests_too_deep(grammar: str, data: bytes) -> bool:
    """Whether blocks of a file may nest deeper than the scanner of its grammar can stand: an upper
    bound, by lines.
    """
    if grammar not in _NESTING:
        return False
    indentation, head, mark = _NESTING[grammar]
    around: list[tuple[int, int]] = []  # (indentation, blocks that may begin) of what is open
    depth = 0
    for line in data.splitlines():
        indent = len(line) - len(line.lstrip(indentation))
        if line.isspace() or not line:
            continue
        while around and around[-1][0] >= indent:
            depth -= around.pop()[1]
        begins = head.match(line)
        # 1: a mapping, around a list as deep as its key
        begun = 1 + (len(mark.findall(begins[0])) if begins else 0)
        around.append((indent, begun))
        depth += begun
        if depth > MAX_NESTING:
            return True
    return False


def opens_too_many_angles(grammar: str, data: bytes) -> bool:
    """Return whether `<` is open more than `MAX_OPEN_ANGLES` times in one statement, where that is
    ambiguous.
    """
    if grammar not in _AMBIGUOUS_ANGLES or data.count(b"<") <= MAX_OPEN_ANGLES:
        return False
    return any(
        _max_open_angles(part) > MAX_OPEN_ANGLES
        for part in _STATEMENT_END.split(data)
        if part.count(b"<")
    )


def _max_open_angles(statement: bytes) -> int:
    depth = 0
    most = 0
    for match in _ANGLE.finditer(statement):
        depth = depth + 1 if match[0] == b"<" else max(0, depth - 1)
        most = max(most, depth)
    return most


def parse_tree(grammar: str, data: bytes) -> Tree | None:
    """The tree of a file, or None where parsing took too long."""
    parser = _parser(grammar)
    text = _replace_invalid(data)
    # its scanner looks for the end of the last line for ever (`r#`)
    if grammar == "perl" and not text.endswith(b"\n"):
        text += b"\n"
    until = thread_time() + PARSE_CPU_S
    while True:
        try:
            return parser.parse(text)
        # a slice is over: the parser goes on with this very file, until it is reset
        except ValueError:
            if thread_time() >= until:
                parser.reset()
                return None


def _replace_invalid(data: bytes) -> bytes:
    """The same bytes with a question mark for each that is not UTF-8: the predicates of queries
    fail on those.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape").encode("utf-8", "replace")
    return data


@cache
def compile_query(grammar: str, text: str) -> Query:
    """A compiled query, shared: it is only read. Raises `QueryError` where the text is not valid
    for the grammar.
    """
    return Query(_language(grammar), text)


def run_query(query: Query, root: Node) -> list[tuple[int, dict[str, list[Node]]]]:
    """Every match as the number of its pattern and its captures, roughly in the order of the
    tree.
    """
    cursor = QueryCursor(query, match_limit=MATCH_LIMIT)
    cursor.set_max_start_depth(MAX_DEPTH)
    return cursor.matches(root)


def error_nodes(tree: Tree) -> tuple[Node, ...]:
    """The outermost nodes of a tree that are errors or missing, in order; at most `_MAX_ERRORS`.

    Not a query: on a node with n children the cursor of queries needs n^2 steps, and errors have
    them by the thousand.
    """
    found: list[Node] = []
    cursor = tree.walk()
    for _ in range(_MAX_STEPS):
        node = cursor.node
        if node is None or len(found) >= _MAX_ERRORS:
            break
        broken = node.is_error or node.is_missing
        if broken:
            found.append(node)
        if not broken and node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return tuple(found)
    return tuple(found)


def is_queryable(broken: Sequence[Node]) -> bool:
    """Whether queries take bounded time on a tree with these errors."""
    return all(node.child_count <= MAX_ERROR_CHILDREN for node in broken)


def make_report(tree: Tree, broken: Sequence[Node], data: bytes) -> ParseReport:
    """`ok`; `partial` with some errors; `error` where most of the file is inside of errors."""
    root = tree.root_node
    if not root.has_error:
        return ParseReport("ok")
    covered = sum(node.end_byte - node.start_byte for node in broken)
    failed = root.is_error or covered * 2 > len(data)
    message = _message(broken[0], data) if broken else "syntax error"
    return ParseReport("error" if failed else "partial", max(1, len(broken)), message)


def _message(node: Node, data: bytes) -> str:
    line = node.start_point.row + 1
    if node.is_missing:
        return f"line {line}: missing {node.type}"
    text = data[node.start_byte : min(node.end_byte, node.start_byte + 80)].decode(
        "utf-8", "replace"
    )
    return f"line {line}: unexpected {' '.join(text.split())[:60].replace(chr(0), '?')!r}"
