"""Runs queries/<language>.scm over a tree: symbols with qualified names and one-line signatures.

A query captures the whole of a definition as `@definition.<kind>` and its name as `@name` (several are joined by dots;
none means `default`). `@owner` is the type that a definition outside of it belongs to (Go receivers), `@body` is where
the signature ends (else the field `body`). Qualified names join their parts with a dot in every language.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources

from cocosearchd.errors import BadSettings
from cocosearchd.languages import syntax, tables
from cocosearchd.model import Symbol

MAX_SIGNATURE = 200
# A file with more definitions than this is generated: the first ones are kept.
MAX_SYMBOLS = 20_000

TYPE_KINDS = frozenset(
    {"class", "struct", "enum", "union", "trait", "interface", "object", "protocol", "record", "type", "extension"}
    | {"actor", "module", "contract"}
)
FUNCTION_KINDS = frozenset({"function", "method", "constructor", "macro"})
# A function directly inside of one of these is a method.
_OWNING = TYPE_KINDS - {"module", "type"} | {"impl"}

# Nodes around a definition that belong to it, when it is the only definition inside.
_WRAPPERS = frozenset(
    {"decorated_definition", "export_statement", "lexical_declaration", "variable_declaration", "type_declaration"}
    | {"template_declaration", "ambient_declaration", "expression_statement", "const_declaration", "var_declaration"}
)
_BEFORE_SIGNATURE = frozenset({"decorator", "comment", "attribute_item", "attribute_list"})
_GENERICS = re.compile(r"<[^<>]*>")
_NAME_JUNK = re.compile(r"^(?:(?:module\.)?exports|this|self)\.|\.prototype\b|[\"'`*&]|^#")
_SEPARATOR = re.compile(r"::|\\|->")

_DEFINITION = re.compile(r"@definition\.\w")

# Pairs of language and query text; a text that starts with this line replaces the built-in query, else it adds to it.
QueryOverrides = tuple[tuple[str, str], ...]
REPLACE = "; replace"


def extract(
    language: str, grammar: str, tree: syntax.Tree, data: bytes, overrides: QueryOverrides
) -> tuple[Symbol, ...]:
    """The symbols of a file, outer before inner, by position. `overrides` have passed `check_overrides`."""
    text = query_text(language, overrides)
    if not text:
        return ()
    found: dict[tuple[int, int, str], _Found] = {}
    for captures in syntax.matches(syntax.compiled(grammar, text), tree.root_node):
        for item in _read(captures, data):
            known = found.get(item.key)
            if known is None or item.vagueness < known.vagueness:
                found[item.key] = item
        if len(found) >= MAX_SYMBOLS:
            break
    items = sorted(found.values(), key=lambda item: (item.start, -item.end))
    return tuple(_qualify(_with_namespaces(items, len(data)), data))


def check_overrides(texts: Sequence[tuple[str, str]]) -> QueryOverrides:
    """The user's queries, known to compile. Raises `BadSettings` naming the file, the place and the reason."""
    for language, text in texts:
        info = tables.by_name().get(language)
        if info is None or not info.grammar:
            raise BadSettings(
                f"{language}.scm: no language '{language}' with a grammar", "See `cocosearchctl languages`."
            )
        for grammar in grammars_of(info):
            try:
                syntax.compiled(grammar, text)
            except syntax.QueryError as error:
                hint = "The node names are those of the language's tree-sitter grammar."
                raise BadSettings(f"{language}.scm: {error}", hint) from error
        if not _DEFINITION.search(text):
            raise BadSettings(f"{language}.scm captures no @definition.<kind>", "Example: @definition.function")
    return tuple(texts)


def query_text(language: str, overrides: QueryOverrides = ()) -> str:
    """The query of a language with the user's additions; "" where it has no symbols."""
    info = tables.by_name().get(language)
    text = _built_in(language) if info is not None and info.symbols else ""
    for name, addition in overrides:
        if name == language:
            text = addition if addition.lstrip().startswith(REPLACE) else f"{text}\n{addition}"
    return text


def grammars_of(info: tables.LanguageInfo) -> tuple[str, ...]:
    """The grammars that files of a language may need: TypeScript has one more, for TSX."""
    return (info.grammar, "tsx") if info.name == "typescript" else (info.grammar,)


@cache
def _built_in(language: str) -> str:
    return (resources.files("cocosearchd.languages") / "queries" / f"{language}.scm").read_text("utf-8")


class _Found:
    """A definition as captured, before it is known what encloses it."""

    __slots__ = (
        "body",
        "end",
        "end_line",
        "kind",
        "name",
        "node_start",
        "signature_start",
        "start",
        "start_line",
        "vagueness",
    )

    def __init__(self, kind: str, name: str, node: syntax.Node, body: syntax.Node | None) -> None:
        outer = _wrapped(node)
        self.kind, self.name = kind, name
        self.start, self.end = outer.start_byte, outer.end_byte
        self.start_line, self.end_line = outer.start_point.row + 1, outer.end_point.row + 1
        self.node_start = node.start_byte
        self.signature_start = _signature_start(outer, node)
        body = body or node.child_by_field_name("body")
        self.body = None if body is None else body.start_byte
        self.vagueness = 1 if kind == "type" else 0 if kind in TYPE_KINDS or kind in FUNCTION_KINDS else 2

    @property
    def key(self) -> tuple[int, int, str]:
        """Two patterns that name the same thing find it once."""
        return self.start, self.node_start, self.name


def _read(captures: dict[str, list[syntax.Node]], data: bytes) -> Iterable[_Found]:
    body = captures.get("body")
    for capture, nodes in captures.items():
        if capture.startswith("definition."):
            parts = [_text(node, data) for node in (*captures.get("owner", ()), *captures.get("name", ()))]
            name = ".".join(filter(None, map(_clean, parts))) or "default"
            yield _Found(capture.removeprefix("definition."), name, nodes[0], body[0] if body else None)


def _wrapped(node: syntax.Node) -> syntax.Node:
    parent = node.parent
    while parent is not None and parent.type in _WRAPPERS and _alone(node, parent):
        node, parent = parent, parent.parent
    return node


def _alone(node: syntax.Node, parent: syntax.Node) -> bool:
    """Whether a node is the only one of its type in its parent: `const a = 1, b = 2` is two definitions."""
    if parent.named_child_count <= 1:
        return True
    return sum(child.type == node.type for child in parent.named_children) == 1


def _signature_start(outer: syntax.Node, node: syntax.Node) -> int:
    if outer.type == "decorated_definition":
        return node.start_byte
    for child in outer.children:
        if child.type not in _BEFORE_SIGNATURE:
            return child.start_byte
    return outer.start_byte


def _text(node: syntax.Node, data: bytes) -> str:
    return data[node.start_byte : min(node.end_byte, node.start_byte + 400)].decode("utf-8", "replace")


def _clean(name: str) -> str:
    """A name with dots between its parts and without generics, quotes and `module.exports`."""
    name = " ".join(name.split())
    if "operator" not in name:
        while name != (name := _GENERICS.sub("", name)):
            pass
    return _SEPARATOR.sub(".", _NAME_JUNK.sub("", name)).strip(". ")


def _with_namespaces(items: list[_Found], size: int) -> list[_Found]:
    """A namespace statement without a body reaches to the next one, or to the end of the file."""
    end, end_line = size, max((item.end_line for item in items), default=1)
    for item in reversed(items):
        if item.kind == "namespace" and item.body is None:
            item.end, item.end_line = end, max(item.end_line, end_line)
            end, end_line = item.start, item.start_line - 1
    return items


def _qualify(items: list[_Found], data: bytes) -> Iterable[Symbol]:
    around: list[tuple[int, Symbol]] = []  # (end, symbol) of what is open here, outermost first
    for item in items:
        while around and around[-1][0] < item.end:
            around.pop()
        parent = around[-1][1] if around else None
        owner, _, last = item.name.rpartition(".")
        enclosing = ".".join(filter(None, (parent.qualified_name if parent else "", owner))) or None
        kind = item.kind
        if kind == "function" and (owner or (parent is not None and parent.kind in _OWNING)):
            kind = "method"
        qualified = f"{enclosing}.{last}" if enclosing else last
        symbol = Symbol(
            kind,
            last,
            qualified,
            _signature(item, data),
            enclosing,
            item.start,
            item.end,
            item.start_line,
            item.end_line,
        )
        around.append((item.end, symbol))
        yield symbol


def _signature(item: _Found, data: bytes) -> str:
    stop = item.end if item.body is None or item.body <= item.signature_start else item.body
    raw = data[item.signature_start : min(stop, item.signature_start + 4 * MAX_SIGNATURE)]
    if stop == item.end:
        raw = raw.lstrip().partition(b"\n")[0]
    text = " ".join(raw.decode("utf-8", "replace").split()).removesuffix("=>").rstrip(" {:=")
    return text if len(text) <= MAX_SIGNATURE else text[: MAX_SIGNATURE - 1] + "…"
