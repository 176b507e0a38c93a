"""Collects what the matches of a reference query capture, as byte ranges. Pure.

This is the inner loop of the first index: it reads the range of a node once, in one step.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from cocosearchd.languages import syntax
from cocosearchd.languages.code_facts import BindingKind, UseKind
from cocosearchd.languages.references.variable_scopes import VariableScope

Captures = Mapping[str, list[syntax.Node]]
Range = tuple[int, int]  # bytes, half-open

# If patterns of several kinds capture a name, the last one wins.
USE_KINDS: tuple[UseKind, ...] = ("name", "type", "call", "inherit")
# In place of the start of a name: the last part of a chain.
WHOLE_CHAIN = -1
_SCOPES = ("scope", "scope.members", "scope.type_parameters")
# Captures that say all by themselves.
_SINGLE = (
    *(*USE_KINDS, *_SCOPES, "binding.return"),
    *("definition", "ignored", "types", "quoted_type", "no_types", "type_parameter"),
    *("variable", "outer", "package"),
)
_BINDING_KINDS: dict[str, BindingKind] = {
    "binding.type": "type",
    "binding.call": "call",
    "binding.value": "value",
    "binding.element": "element",
}
_IMPORT_START = itemgetter(0)
_IMPORT_PARTS = ("module", "local", "name")
_IMPORT_CAPTURES = frozenset(f"import.{part}" for part in _IMPORT_PARTS)
_RANGE = attrgetter("byte_range")


class ImportRange(NamedTuple):
    """An import: each part is a text of the query or a range of the file."""

    start: int
    module: str | Range | None  # None: that of the statement around it
    name: str | Range
    local: str | Range
    is_exported: bool


class BindingRange(NamedTuple):
    """The variable of a binding. A declared result has an empty name."""

    kind: BindingKind
    prefix: str  # before the name: "this."
    name: Range


class FactCollector:
    """Byte ranges that the matches of one file capture. Equal captures of several matches are one."""

    def __init__(
        self,
        matches: Iterable[tuple[int, Captures]],
        constants: Sequence[Mapping[str, str]],
    ) -> None:
        """`constants` are the values of `#set!` by the number of a pattern."""
        self._constants = constants
        # Starts of chains by the end of their name, and starts of names that are apart from them.
        self.uses: dict[int, int] = {}
        self.name_starts: dict[int, int] = {}
        self.ranks: dict[int, int] = {}  # position in `USE_KINDS` by the end of a name, if not 0
        self.scopes: dict[Range, VariableScope] = {}
        self.type_scopes: dict[Range, VariableScope] = {}
        self.bindings: dict[BindingRange, Range] = {}  # with the text of each
        self.results: dict[Range, None] = {}  # texts of declared results
        self.import_trees: dict[Range, bool] = {}  # by range: True if they are exported
        self._imports: dict[tuple[object, ...], ImportRange] = {}
        self._statements: dict[Range, str | Range] = {}  # modules of whole statements
        self._nodes: dict[str, list[syntax.Node]] = {name: [] for name in _SINGLE}
        self._collect(matches)
        for capture in _SCOPES:
            self._add_scopes(capture)
        self.results.update(dict.fromkeys(map(_RANGE, self._nodes["binding.return"])))
        for rank, kind in enumerate(USE_KINDS):
            self._add_uses(rank, self._nodes[kind])

    def _collect(self, matches: Iterable[tuple[int, Captures]]) -> None:
        """Sort matches: most have a single node, whose capture says all."""
        nodes_by_capture = self._nodes
        for pattern, captures in matches:
            if len(captures) == 1:
                (capture,) = captures
                nodes = nodes_by_capture.get(capture)
                if nodes is not None:
                    nodes += captures[capture]
                    continue
            self._add(pattern, captures)

    def ranges(self, capture: str) -> set[Range]:
        """Return the ranges of a capture that names no use."""
        return set(map(_RANGE, self._nodes[capture]))

    def _add_uses(self, rank: int, nodes: list[syntax.Node]) -> None:
        uses = self.uses
        for start, end in map(_RANGE, nodes):
            if start < uses.get(end, end):
                uses[end] = start
            if rank:
                self.ranks[end] = rank

    def _add(self, pattern: int, captures: Captures) -> None:
        """Add a match whose nodes belong together."""
        for capture, nodes in captures.items():
            if capture in _BINDING_KINDS:
                self._add_binding(_BINDING_KINDS[capture], nodes[0], captures, pattern)
            elif capture in _SCOPES and "parameters" in captures:
                self._add_scope(capture, nodes[0].byte_range, captures["parameters"][0].start_byte)
            elif capture in self._nodes:
                self._nodes[capture] += nodes
            elif capture == "receiver":
                self._add_receiver(nodes[0].start_byte, captures)
            elif capture == "import.tree":
                self._add_import_trees(nodes, self._constants[pattern])
        if not _IMPORT_CAPTURES.isdisjoint(captures):
            self._add_import(captures, self._constants[pattern])

    def _add_receiver(self, receiver_start: int, captures: Captures) -> None:
        for kind in USE_KINDS:
            for name_start, end in map(_RANGE, captures.get(kind, ())):
                start = min(name_start, receiver_start)
                if start < self.uses.get(end, end):
                    self.uses[end] = start
                    self.name_starts[end] = name_start

    def _add_scopes(self, capture: str) -> None:
        """Add the scopes that have no parameters."""
        for scope_range in map(_RANGE, self._nodes[capture]):
            self._add_scope(capture, scope_range, scope_range[0])

    def _add_scope(self, capture: str, scope_range: Range, parameters_start: int) -> None:
        start, end = scope_range
        scopes = self.type_scopes if capture == "scope.type_parameters" else self.scopes
        previous = scopes.get(scope_range)
        if previous is None or parameters_start < previous.start:
            first = min(parameters_start, start)
            has_members = capture == "scope.members"
            scopes[scope_range] = VariableScope(first, start, end, has_members=has_members)

    def _add_binding(
        self, kind: BindingKind, text: syntax.Node, captures: Captures, pattern: int
    ) -> None:
        names = captures.get("binding")
        if names:
            receiver = self._constants[pattern].get("binding.receiver", "")
            prefix = f"{receiver}." if receiver else ""
            self.bindings[BindingRange(kind, prefix, names[0].byte_range)] = text.byte_range

    def _add_import_trees(self, nodes: list[syntax.Node], constants: Mapping[str, str]) -> None:
        is_exported = bool(constants.get("import.exported"))
        self.import_trees.update(dict.fromkeys(map(_RANGE, nodes), is_exported))

    def _add_import(self, captures: Captures, constants: Mapping[str, str]) -> None:
        parts: dict[str, str | Range] = {}
        start = -1
        for part in _IMPORT_PARTS:
            nodes = captures.get(f"import.{part}")
            if nodes:
                part_range = nodes[0].byte_range
                parts[part] = part_range
                start = part_range[0]
            else:
                parts[part] = constants.get(f"import.{part}", "")
        module = parts["module"] or None
        if module is not None and "import.statement" in captures:
            self._statements[captures["import.statement"][0].byte_range] = module
        is_exported = bool(constants.get("import.exported"))
        item = ImportRange(start, module, parts["name"], parts["local"], is_exported)
        self._imports[item[1:4]] = item

    def imports(self) -> list[ImportRange]:
        """Return all imports with their modules, in the order of the text.

        A module without names is left out where another import takes names from it.
        """
        imports = list(self._imports_with_modules())
        modules_with_names = {item.module for item in imports if item.name or item.local}
        return [
            item
            for item in imports
            if item.name or item.local or item.module not in modules_with_names
        ]

    def _imports_with_modules(self) -> Iterator[ImportRange]:
        statements = sorted(self._statements.items(), reverse=True)
        end = 0  # of the last statement
        module: str | Range = ""
        for item in sorted(self._imports.values(), key=_IMPORT_START):
            while statements and statements[-1][0][0] <= item.start:
                (_, end), module = statements.pop()
            if item.module is not None:
                yield item
            elif item.start < end:
                yield item._replace(module=module)
            elif item.is_exported:
                yield item
