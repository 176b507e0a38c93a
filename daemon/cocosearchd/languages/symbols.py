"""Extracts symbols with qualified names and one-line signatures, by queries/<language>.scm.

A query captures a definition as `@definition.<kind>` and its name as `@name` (several are joined by
dots; none means `default`); `@label` is a name that is no identifier, taken literally. `@owner` is
the type that a definition outside of it belongs to (Go receivers). `@kind` is a node whose text is
the kind. `@body` is where the signature ends (else the field `body`). `@clause.<kind>` is a
definition that continues the one right before it if both have the same name. If several patterns
match the same definition, the first in the file wins. Qualified names join their parts with a dot
in every language.

A changed query has its files read again. If this code finds other symbols in them, raise
`indexing.row_shape.SYMBOLS_VERSION`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources

from cocosearchd.errors import BadSettings
from cocosearchd.languages import language_table, syntax
from cocosearchd.languages.references import reference_query
from cocosearchd.model import Symbol

MAX_SIGNATURE = 200
_COMMENT_MARKS = (b"#", b"//", b"/*", b"--")
# Levels below a definition that are searched for comments: parts, parameter lists, parameters,
# their parts.
_COMMENT_DEPTH = 4
MAX_LABEL = 100
# Longer qualified names are generated: the names of thousands of nested definitions would fill the
# memory.
MAX_QUALIFIED = 1000
# A file with more definitions is generated: only the first ones are extracted.
MAX_SYMBOLS = 20_000

# Kinds of symbols. A new kind goes into one of the first five groups, which are all kinds, and into
# those of the others whose line fits it. A kind of none of these is indexed and found all the same.
# Types: they have members, and a use as a type may mean them.
TYPE_KINDS = frozenset(
    {
        "class",
        "struct",
        "enum",
        "union",
        "trait",
        "interface",
        "object",
        "protocol",
        "record",
        "type",
        "extension",
        "actor",
        "module",
        "contract",
    }
)
# Kinds with a body of statements, and macros, which expand to one.
FUNCTION_KINDS = frozenset({"function", "method", "constructor", "macro"})
# Kinds whose names are not worth space in the header of a chunk.
MINOR_KINDS = frozenset(
    {"constant", "variable", "property", "prototype", "rule", "keyframes", "index"}
)
# Other kinds whose names the header of a chunk has.
OTHER_KINDS = frozenset({"namespace", "impl", "test", "table", "view", "concept", "stage"})
# Kinds that reach to the next of them if they have no body.
_SECTION_KINDS = frozenset({"namespace", "stage"})
# Top-level blocks of Terraform, Packer and Nomad files.
HCL_KINDS = frozenset(
    {
        *("resource", "data", "variable", "output", "module", "provider", "locals", "terraform"),
        *("moved", "removed", "import", "check", "ephemeral", "run", "backend"),
        *("source", "build", "packer", "job", "group", "task", "volume"),
    }
)
KINDS = TYPE_KINDS | FUNCTION_KINDS | MINOR_KINDS | OTHER_KINDS | HCL_KINDS
# A function directly inside of a symbol of one of these kinds is a method.
_METHOD_OWNERS = TYPE_KINDS - {"module", "type"} | {"impl"}
# Kinds with members: the header of a member's chunk names its owner.
OWNER_KINDS = TYPE_KINDS | {"impl"}
# Kinds that a chunk is named after.
MAJOR_KINDS = TYPE_KINDS | FUNCTION_KINDS
# Kinds whose first lines say little: they only contain other definitions.
PLAIN_HEAD_KINDS = frozenset({"impl", "namespace", "module", "extension"})
# Kinds without inner definitions to cut at: they stay in one chunk if they fit.
LEAF_KINDS = FUNCTION_KINDS | {"test", "table", "view"}
# Kinds that are a namespace. A module is a type as well, as in Ruby.
CONTAINER_KINDS = frozenset({"namespace", "module"})
# Kinds with a value: their type is inferred from the assigned expression.
VALUE_KINDS = frozenset({"constant", "variable"})
# Kinds with a signature, by which they can be overloaded.
CALLABLE_KINDS = FUNCTION_KINDS | {"prototype"}
# Kinds that a call, a use as a type, and the base of a type can refer to.
CALL_TARGET_KINDS = FUNCTION_KINDS | TYPE_KINDS | MINOR_KINDS
TYPE_TARGET_KINDS = TYPE_KINDS | {"namespace", "concept"}
BASE_TARGET_KINDS = TYPE_KINDS | {"constant"}

# Types of nodes around a definition that belong to it, if they contain no other definition.
_WRAPPERS = frozenset(
    {
        "decorated_definition",
        "export_statement",
        "lexical_declaration",
        "variable_declaration",
        "type_declaration",
        "template_declaration",
        "ambient_declaration",
        "expression_statement",
        "const_declaration",
        "var_declaration",
    }
)
_SIGNATURE_PREFIXES = frozenset({"decorator", "comment", "attribute_item", "attribute_list"})
_GENERICS = re.compile(r"(?<=\w)<[^<>]*>")
_NAME_JUNK = re.compile(r"^(?:(?:module\.)?exports|this|self)\.|\.prototype\b|[\"'`*&]|^#")
_OPERATOR = re.compile(r"^(operator(?: ?\(\)|[^(]*)).*")
_SEPARATOR = re.compile(r"::|\\|->|(?<=\w):(?=\w)")

_DEFINITION = re.compile(r"@definition\.\w")

# Pairs of (name of a query file without `.scm`, its text). The name is a language for its symbol
# query, or a language with `reference_query.SUFFIX` for its reference query. A text that starts
# with `REPLACE` replaces the built-in query; any other text extends it.
QueryOverrides = tuple[tuple[str, str], ...]
REPLACE = "; replace"


_Captures = dict[str, list[syntax.Node]]
# (id, start byte) of a node -> types of nodes that exactly one of its children has. Cached, because
# a block of constants has thousands of children.
_SingleTypes = dict[tuple[int, int], frozenset[str]]


def extract(matches: Iterable[tuple[int, _Captures]], data: bytes) -> tuple[Symbol, ...]:
    """Make the symbols of a file from the matches of its query, by position, outer before inner."""
    definitions: dict[tuple[int, int, str], _Definition] = {}
    single: _SingleTypes = {}
    for pattern, captures in matches:
        for item in _read_match(pattern, captures, data, single):
            existing = definitions.get(item.key)
            if existing is None or item.pattern < existing.pattern:
                definitions[item.key] = item
        if len(definitions) >= MAX_SYMBOLS:
            break
    items = sorted(definitions.values(), key=lambda item: (item.start, -item.end, item.pattern))
    return tuple(_qualify(_extend_statements(_merge_clauses(items), data), data))


def check_overrides(texts: Sequence[tuple[str, str]]) -> QueryOverrides:
    """Return the user's queries of symbols and references if all of them compile.

    Raises `BadSettings` with the file, the position and the reason.
    """
    for name, text in texts:
        language = name.removesuffix(reference_query.SUFFIX)
        language_row = language_table.by_name().get(language)
        if language_row is None or not language_row.grammar:
            raise BadSettings(
                f"{name}.scm: no language '{language}' with a grammar",
                "See `cocosearchctl languages`.",
            )
        for grammar in grammars_of(language_row):
            _check_compiles(name, grammar, text)
        _check_captures(name, text, is_reference_query=language != name)
    return tuple(texts)


def _check_compiles(name: str, grammar: str, text: str) -> None:
    try:
        syntax.compile_query(grammar, text)
    except syntax.QueryError as error:
        hint = "The node names are those of the language's tree-sitter grammar."
        raise BadSettings(f"{name}.scm: {error}", hint) from error


def _check_captures(name: str, text: str, *, is_reference_query: bool) -> None:
    if is_reference_query and not reference_query.CAPTURE.search(text):
        raise BadSettings(f"{name}.scm captures no use, binding or import", "Example: @call")
    if not is_reference_query and not _DEFINITION.search(text):
        raise BadSettings(
            f"{name}.scm captures no @definition.<kind>", "Example: @definition.function"
        )


def query_text(language: str, overrides: QueryOverrides = ()) -> str:
    """Return the query of a language with the user's additions; "" without symbols."""
    language_row = language_table.by_name().get(language)
    text = _built_in(language) if language_row is not None and language_row.symbols else ""
    for name, addition in overrides:
        if name == language:
            text = addition if addition.lstrip().startswith(REPLACE) else f"{text}\n{addition}"
    return text


def query_texts(language: str, overrides: QueryOverrides = ()) -> tuple[str, ...]:
    """Return all queries of a language with the user's additions: symbols, then references."""
    language_row = language_table.by_name().get(language)
    grammars = grammars_of(language_row) if language_row else ()
    references = (
        reference_query.reference_query_text(language, grammar, overrides) for grammar in grammars
    )
    return (query_text(language, overrides), *references)


def grammars_of(language_row: language_table.LanguageInfo) -> tuple[str, ...]:
    """Return the grammars that files of a language may need: TypeScript also has one for TSX."""
    return (
        (language_row.grammar, "tsx")
        if language_row.name == "typescript"
        else (language_row.grammar,)
    )


@cache
def _built_in(language: str) -> str:
    return (resources.files("cocosearchd.languages") / "queries" / f"{language}.scm").read_text(
        "utf-8"
    )


class _Definition:
    """A captured definition. Its enclosing symbols are not yet known."""

    __slots__ = (
        "body",
        "clause",
        "end",
        "end_line",
        "kind",
        "name",
        "node",
        "node_start",
        "owner",
        "pattern",
        "signature_start",
        "start",
        "start_line",
    )

    def __init__(
        self,
        capture: str,
        node: syntax.Node,
        captures: _Captures,
        data: bytes,
        single: _SingleTypes,
    ) -> None:
        group, _, self.kind = capture.partition(".")
        self.clause = group == "clause"
        outer = _outermost_wrapper(node, single)
        self.start = outer.start_byte
        # The parser may see one byte more: Perl gets a final line break from `parse_tree`.
        self.end = min(outer.end_byte, len(data))
        self.start_line = outer.start_point.row + 1
        # The line of the last byte: some nodes end after a line break.
        row, column = outer.end_point
        self.end_line = max(self.start_line, row + (column > 0))
        self.node = node
        self.node_start = node.start_byte
        self.signature_start = _signature_start(outer, node)
        bodies = captures.get("body")
        body = bodies[0] if bodies else node.child_by_field_name("body")
        self.body = None if body is None else body.start_byte
        # in some grammars, the body is the node after the definition
        if body is not None and body.end_byte > outer.end_byte:
            self.end = min(body.end_byte, len(data))
            self.end_line = body.end_point.row + 1
        self.owner, self.name = _owner_and_name(captures, data)
        if "kind" in captures:
            self.kind = _clean_name(_text(captures["kind"][0], data)) or self.kind
        self.pattern = 0

    @property
    def key(self) -> tuple[int, int, str]:
        """The identity of a definition, because several patterns may match it."""
        return self.start, self.node_start, self.name


def _read_match(
    pattern: int, captures: _Captures, data: bytes, single: _SingleTypes
) -> Iterable[_Definition]:
    for capture, nodes in captures.items():
        if capture.startswith(("definition.", "clause.")):
            item = _Definition(capture, nodes[0], captures, data, single)
            item.pattern = pattern
            yield item


def _owner_and_name(captures: _Captures, data: bytes) -> tuple[str, str]:
    """Return the captured owner of a definition (not its enclosing symbols), and its name."""
    labels = captures.get("label")
    if labels:
        return "", " ".join(_text(labels[0], data).split())[:MAX_LABEL].strip("\"'") or "default"
    names = captures.get("name")
    if names and data[names[-1].start_byte : names[-1].start_byte + 1] == b"[":  # [Symbol.iterator]
        return "", " ".join(_text(names[-1], data).split())
    parts = [
        _clean_name(_text(node, data))
        for node in (*captures.get("owner", ()), *captures.get("name", ()))
    ]
    owner, _, name = ".".join(filter(None, parts)).rpartition(".")
    return owner, name or "default"


def _outermost_wrapper(node: syntax.Node, single: _SingleTypes) -> syntax.Node:
    parent = node.parent
    while (
        parent is not None and parent.type in _WRAPPERS and _is_only_of_type(node, parent, single)
    ):
        node = parent
        parent = parent.parent
    return node


def _is_only_of_type(node: syntax.Node, parent: syntax.Node, single: _SingleTypes) -> bool:
    """Return True if a node is the only child of its type.

    This is False for the parts of `const a = 1, b = 2`, which are two definitions.
    """
    if parent.named_child_count <= 1:
        return True
    key = parent.id, parent.start_byte
    types = single.get(key)
    if types is None:
        counts = Counter(child.type for child in parent.named_children)
        types = single[key] = frozenset(kind for kind, count in counts.items() if count == 1)
    return node.type in types


def _signature_start(outer: syntax.Node, node: syntax.Node) -> int:
    if outer.type == "decorated_definition":
        return node.start_byte
    # `children` would create an object per child, and usually the first child suffices
    first = outer.child(0)
    if first is None or first.type not in _SIGNATURE_PREFIXES:
        return outer.start_byte if first is None else first.start_byte
    for child in outer.children:
        if child.type not in _SIGNATURE_PREFIXES:
            return child.start_byte
    return outer.start_byte


def _text(node: syntax.Node, data: bytes) -> str:
    return data[node.start_byte : min(node.end_byte, node.start_byte + 400)].decode(
        "utf-8", "replace"
    )


def _clean_name(name: str) -> str:
    """Return a name without generics, quotes and `module.exports`, with dots between parts."""
    if name.isidentifier() and "operator" not in name:
        return name  # the most frequent case
    name = " ".join(name.split())
    operator = name.rfind("operator")
    if operator >= 0 and not name[operator + 8 :].isidentifier():
        return (
            _clean_name(name[:operator])
            + "." * (operator > 0)
            + _OPERATOR.sub(r"\1", name[operator:])
        )
    while name != (name := _GENERICS.sub("", name)):
        pass
    return _SEPARATOR.sub(".", _NAME_JUNK.sub("", name)).strip(". ")


def _merge_clauses(items: Iterable[_Definition]) -> list[_Definition]:
    """Merge clauses with the clause of the same name right before them.

    Such clauses are the equations of a function in Haskell.
    """
    merged: list[_Definition] = []
    for item in items:
        last = merged[-1] if merged else None
        if (
            last is not None
            and item.clause
            and last.clause
            and (last.name, last.kind) == (item.name, item.kind)
        ):
            last.end = max(last.end, item.end)
            last.end_line = max(last.end_line, item.end_line)
        else:
            merged.append(item)
    return merged


def _extend_statements(items: list[_Definition], data: bytes) -> list[_Definition]:
    """Extend statements that open a section to the next such statement, or to the end of the file.

    These statements are namespaces without a body, and the stages of a Dockerfile.
    """
    end = len(data)
    end_line = data.rstrip().count(b"\n") + 1
    for item in reversed(items):
        if item.kind in _SECTION_KINDS and item.body is None:
            item.end = end
            item.end_line = max(item.end_line, end_line)
            end = item.start
            end_line = item.start_line - 1
    return items


def _qualify(items: Iterable[_Definition], data: bytes) -> Iterable[Symbol]:
    enclosing_symbols: list[Symbol] = []  # outermost first
    bodies: set[int] = set()
    skipped_until = 0  # end of a definition with a too long name: its content is skipped as well
    for item in items:
        if item.start < skipped_until or (item.body is not None and item.body in bodies):
            continue  # `typedef struct point {...} point_t;` is one definition
        bodies.add(item.body or -1)
        while enclosing_symbols and enclosing_symbols[-1].end_byte < item.end:
            enclosing_symbols.pop()
        symbol = _make_symbol(item, enclosing_symbols[-1] if enclosing_symbols else None, data)
        if len(symbol.qualified_name) > MAX_QUALIFIED:
            skipped_until = item.end
            continue
        enclosing_symbols.append(symbol)
        yield symbol


def _make_symbol(item: _Definition, parent: Symbol | None, data: bytes) -> Symbol:
    """Make the symbol of a definition inside of `parent`."""
    owners = (parent.qualified_name if parent else "", item.owner)
    enclosing = ".".join(filter(None, owners)) or None
    is_owned = bool(item.owner) or (parent is not None and parent.kind in _METHOD_OWNERS)
    return Symbol(
        kind="method" if item.kind == "function" and is_owned else item.kind,
        name=item.name,
        qualified_name=f"{enclosing}.{item.name}" if enclosing else item.name,
        signature=_signature(item, data),
        parent=enclosing,
        start_byte=item.start,
        end_byte=item.end,
        start_line=item.start_line,
        end_line=item.end_line,
    )


def _signature(item: _Definition, data: bytes) -> str:
    has_body = item.body is not None and item.body > item.signature_start
    end = item.body if item.body is not None and has_body else item.end
    stop = min(end, item.signature_start + 4 * MAX_SIGNATURE)
    raw = data[item.signature_start : stop]
    if any(mark in raw for mark in _COMMENT_MARKS):
        raw = _without_comments(item, stop, data)
    if not has_body:
        raw = raw.lstrip().partition(b"\n")[0]
    text = " ".join(raw.decode("utf-8", "replace").split()).removesuffix("=>").rstrip(" {:=")
    return text if len(text) <= MAX_SIGNATURE else text[: MAX_SIGNATURE - 1] + "…"


def _without_comments(item: _Definition, stop: int, data: bytes) -> bytes:
    """Return the bytes of a signature up to `stop`, without comments."""
    comments = list[tuple[int, int]]()
    nodes = [item.node]
    for _ in range(_COMMENT_DEPTH):
        nodes = [
            child for node in nodes for child in _children_within(node, item.signature_start, stop)
        ]
        comments += ((node.start_byte, node.end_byte) for node in nodes if "comment" in node.type)
    pieces = list[bytes]()
    position = item.signature_start
    for start, end in sorted(comments):
        if start >= position:
            pieces.append(data[position:start])
            position = min(end, stop)
    return b" ".join([*pieces, data[position:stop]])


def _children_within(node: syntax.Node, first: int, stop: int) -> Iterator[syntax.Node]:
    """Yield the children that overlap a byte range."""
    for child in node.children:
        if child.start_byte >= stop:
            return
        if child.end_byte > first:
            yield child
