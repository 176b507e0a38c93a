"""Definitions and the comments that document them, for each language of the training text.

The product's own symbol queries are not used here on purpose: they may improve at any time, and
with them the training text, the vocabulary and the weights would change without anybody asking for
it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Language, Node, Parser, Query, QueryCursor
from tree_sitter_language_pack import get_language

COMMENTS = {"comment", "line_comment", "block_comment", "haddock", "doc_comment"}
# Between a comment and its definition these may stand.
TRANSPARENT = {"attribute_item", "attribute_list", "annotation", "decorator", "marker_annotation"}
# A definition's comment stands before the outermost of these around it.
WRAPPERS = {
    "export_statement", "decorated_definition", "template_declaration", "lexical_declaration", "variable_declaration",
    "expression_statement", "variable_declarator", "assignment_expression", "pair", "type_declaration",
}  # fmt: skip

_JS = """
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(method_definition name: (_) @name) @function
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @function
(assignment_expression
  left: (member_expression property: (_) @name) right: [(function_expression) (arrow_function)]) @function
(pair key: (property_identifier) @name value: [(function_expression) (arrow_function)]) @function
(class_declaration name: (_) @name) @type
"""
_TS = (
    _JS
    + """
(interface_declaration name: (_) @name) @type
(enum_declaration name: (_) @name) @type
(type_alias_declaration name: (_) @name) @type
(abstract_class_declaration name: (_) @name) @type
(public_field_definition name: (_) @name value: (arrow_function)) @function
"""
)
_C = """
(function_definition declarator: (_) @name) @function
(struct_specifier name: (_) @name body: (_)) @type
(enum_specifier name: (_) @name body: (_)) @type
"""
QUERIES = {
    "python": "(function_definition name: (_) @name) @function\n(class_definition name: (_) @name) @type",
    "javascript": _JS,
    "typescript": _TS,
    "tsx": _TS,
    "go": """
(function_declaration name: (_) @name) @function
(method_declaration name: (_) @name) @function
(type_declaration (type_spec name: (_) @name)) @type
""",
    "rust": """
(function_item name: (_) @name) @function
(struct_item name: (_) @name) @type
(enum_item name: (_) @name) @type
(trait_item name: (_) @name) @type
""",
    "java": """
(method_declaration name: (_) @name) @function
(constructor_declaration name: (_) @name) @function
(class_declaration name: (_) @name) @type
(interface_declaration name: (_) @name) @type
(enum_declaration name: (_) @name) @type
""",
    "c": _C,
    "cpp": _C + "(class_specifier name: (_) @name body: (_)) @type",
    "csharp": """
(method_declaration name: (_) @name) @function
(class_declaration name: (_) @name) @type
(interface_declaration name: (_) @name) @type
""",
    "ruby": """
(method name: (_) @name) @function
(singleton_method name: (_) @name) @function
(class name: (_) @name) @type
(module name: (_) @name) @type
""",
    "php": """
(function_definition name: (_) @name) @function
(method_declaration name: (_) @name) @function
(class_declaration name: (_) @name) @type
(interface_declaration name: (_) @name) @type
""",
    "scala": "(function_definition name: (_) @name) @function\n(class_definition name: (_) @name) @type",
    "lua": "(function_declaration name: (_) @name) @function",
    "kotlin": "(function_declaration (simple_identifier) @name) @function",
}
EXTENSIONS = {
    ".py": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascript",
    ".ts": "typescript", ".mts": "typescript", ".tsx": "tsx", ".go": "go", ".rs": "rust", ".java": "java", ".c": "c",
    ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".hh": "cpp", ".hxx": "cpp", ".cs": "csharp",
    ".rb": "ruby", ".php": "php", ".scala": "scala", ".lua": "lua", ".kt": "kotlin",
}  # fmt: skip
# What a comment must begin with to document what follows; where any comment does, the pattern is
# empty.
DOC_MARK = {
    "javascript": r"/\*\*", "typescript": r"/\*\*", "tsx": r"/\*\*", "java": r"/\*\*", "php": r"/\*\*",
    "scala": r"/\*\*", "kotlin": r"/\*\*", "rust": r"///|/\*\*",
    "csharp": r"///|/\*\*", "go": r"//(?!go:|nolint|line|export)|/\*",
    "c": r"/\*|//", "cpp": r"/\*|//", "ruby": "#", "lua": "--",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, method or type. `text` has lost the documentation; `doc` is raw, with its comment
    marks.
    """

    kind: str  # function or type
    name: str
    parent: str
    text: str
    doc: str


class Grammar:
    """One language: its parser and its compiled query."""

    def __init__(self, language: str) -> None:
        loaded: Language = get_language(language)  # type: ignore[arg-type]
        self.language = language
        self._parser = Parser(loaded)
        self._query = Query(loaded, QUERIES[language])
        self._mark = re.compile(DOC_MARK.get(language, ""))

    def definitions(self, data: bytes) -> Iterator[Definition]:
        """The definitions of a file in order. A file that does not parse gives what could be read
        of it.
        """
        root = self._parser.parse(data).root_node
        matches = _matches(QueryCursor(self._query).matches(root))
        docstrings = _docstrings(matches) if self.language == "python" else []
        for kind, node, name_node in matches:
            name = _name(name_node)
            if not name:
                continue
            outer = _outer(node)
            doc = _own_docstring(node) if self.language == "python" else self._comment(outer)
            text = _without(data, (outer if kind == "function" else node), docstrings)
            yield Definition(kind, name, _parent(node), text, doc)

    def _comment(self, node: Node) -> str:
        """The comments right above a definition, joined by line ends; "" when they do not
        document.
        """
        lines: list[str] = []
        row, above = node.start_point[0], node.prev_sibling
        while above is not None and above.type in TRANSPARENT:
            row, above = above.start_point[0], above.prev_sibling
        while above is not None and above.type in COMMENTS and above.end_point[0] >= row - 1:
            text = (above.text or b"").decode("utf-8", "replace")
            if not self._mark.match(text.lstrip()):
                break
            lines.append(text.rstrip())
            if text.startswith("/*"):
                break
            row, above = above.start_point[0], above.prev_sibling
        return "\n".join(reversed(lines))


def _matches(matches: list[tuple[int, dict[str, list[Node]]]]) -> list[tuple[str, Node, Node]]:
    definitions = [
        (kind, captures[kind][0], captures["name"][0])
        for _, captures in matches
        for kind in ("function", "type")
        if kind in captures and "name" in captures
    ]
    return sorted(definitions, key=lambda item: (item[1].start_byte, -item[1].end_byte))


def _name(node: Node) -> str:
    """The last identifier of a name node: in C the declarator carries pointers and parameters
    around it.
    """
    while node.child_by_field_name("declarator") is not None:
        inner = node.child_by_field_name("declarator")
        assert inner is not None
        node = inner
    text = (node.text or b"").decode("utf-8", "replace")
    words = re.findall(r"[A-Za-z_$][\w$]*[?!=]?", text)
    return words[-1] if words else ""


def _outer(node: Node) -> Node:
    """The definition with what wraps it: `export`, a template, a `const` with one binding."""
    while (
        node.parent is not None
        and node.parent.type in WRAPPERS
        and node.parent.named_child_count <= 3
    ):
        node = node.parent
    return node


def _parent(node: Node) -> str:
    """Name of the nearest enclosing class, struct, impl or module, or ""."""
    above = node.parent
    while above is not None:
        if (
            re.search(r"class|struct|impl|trait|interface|module|object|namespace", above.type)
            and above.parent is not None
        ):
            name_node = above.child_by_field_name("name") or above.child_by_field_name("type")
            if name_node is not None:
                return (name_node.text or b"").decode("utf-8", "replace")[:60]
        above = above.parent
    receiver = node.child_by_field_name("receiver")
    return (
        re.sub(r"\W+", " ", (receiver.text or b"").decode("utf-8", "replace")).strip()[:60]
        if receiver
        else ""
    )


def _docstring_node(node: Node) -> Node | None:
    body = node.child_by_field_name("body")
    first = body.named_children[0] if body is not None and body.named_children else None
    if first is not None and first.type == "expression_statement" and first.named_children:
        first = first.named_children[0]
    return first if first is not None and first.type == "string" else None


def _own_docstring(node: Node) -> str:
    docstring = _docstring_node(node)
    return (docstring.text or b"").decode("utf-8", "replace") if docstring is not None else ""


def _docstrings(matches: list[tuple[str, Node, Node]]) -> list[tuple[int, int]]:
    nodes = [_docstring_node(node) for _, node, _ in matches]
    return [(node.start_byte, node.end_byte) for node in nodes if node is not None]


def _without(data: bytes, node: Node, holes: list[tuple[int, int]]) -> str:
    """The node's text without the byte ranges, which are sorted, and without empty lines."""
    parts, at = [], node.start_byte
    for start, end in holes:
        if at <= start and end <= node.end_byte:
            parts.append(data[at:start])
            at = end
    parts.append(data[at : node.end_byte])
    text = b"".join(parts).decode("utf-8", "replace")
    return re.sub(r"\n\s*\n+", "\n", text)
