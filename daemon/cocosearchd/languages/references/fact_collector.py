"""Collects the byte ranges that the matches of a reference query capture. Pure.

This is the inner loop of the first index: it reads the range of a node once, in one step.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter, itemgetter
from typing import NamedTuple

from cocosearchd.languages import syntax
from cocosearchd.languages.code_facts import BindingKind
from cocosearchd.languages.references.code_matches import (
    BINDING_PATTERNS,
    OTHER_PATTERNS,
    CodeMatches,
    GroupKey,
    Match,
    MatchGroups,
)
from cocosearchd.languages.references.reference_query import (
    IMPORT_PARTS,
    SCOPES,
    SINGLE_CAPTURES,
    USE_KINDS,
)
from cocosearchd.languages.references.variable_scopes import NEVER, VariableScope, sort_scopes

Captures = Mapping[str, list[syntax.Node]]
Range = tuple[int, int]  # bytes, half-open

# Instead of the start of a name: the name is the last part of the whole chain.
WHOLE_CHAIN = -1
_IMPORT_START = itemgetter(0)
# Captures that complete a use or a scope.
_PARTNERS = frozenset({"receiver", "parameters"})
_RANGE = attrgetter("byte_range")
_CAPTURES = itemgetter(1)  # the captures of a match


class ImportRange(NamedTuple):
    """An import. Each part is a text from the query or a range of the file."""

    start: int
    module: str | Range | None  # None for the module of the enclosing statement
    name: str | Range
    local: str | Range
    is_exported: bool


# The variable of a binding: (kind, prefix of its name such as "this.", range of the name).
BindingRange = tuple[BindingKind, str, Range]


class FactCollector:
    """The matches of definitions and the captured byte ranges of one file.

    Equal captures of several matches count once.
    """

    def __init__(self, matches: CodeMatches) -> None:
        """Read all matches of a file."""
        self._actions = matches.actions
        # End of a name -> start of its chain; end of a name -> start of the name, if it is separate
        # from the chain.
        self.uses: dict[int, int] = {}
        self.name_starts: dict[int, int] = {}
        self.ranks: dict[int, int] = {}  # end of a name -> position in `USE_KINDS`, if not 0
        self.scopes: dict[Range, VariableScope] = {}
        self.type_scopes: dict[Range, VariableScope] = {}
        self.bindings: dict[BindingRange, Range] = {}  # variable -> range of its text
        self.results: dict[Range, None] = {}  # ranges of declared results
        self.import_trees: dict[Range, bool] = {}  # range -> True if exported
        self._imports: dict[tuple[object, ...], ImportRange] = {}
        self._statements: dict[Range, str | Range] = {}  # import statement -> its module
        self._ranges: dict[str, list[Range]] = {name: [] for name in SINGLE_CAPTURES}
        self.definitions: list[Match] = []
        for definitions, references in matches.parts:
            self.definitions += definitions
            self._collect(references)
        self._add_scopes()
        self.results.update(dict.fromkeys(self._ranges["binding.return"]))
        for rank, kind in enumerate(USE_KINDS):
            self._add_uses(rank, self._ranges[kind])

    def is_empty(self) -> bool:
        """Return True if the language has no reference query."""
        return not self._actions

    def _collect(self, groups: MatchGroups) -> None:
        """Add the matches of a part. Most matches have one capture with one node."""
        self._add_others(groups.get(OTHER_PATTERNS, ()))
        self._add_bindings(groups.get(BINDING_PATTERNS, ()))
        for names, matches in groups.items():
            if not matches or names in (OTHER_PATTERNS, BINDING_PATTERNS):
                continue
            if len(names) == 1:
                (capture,) = names
                self._ranges[capture] += _read_ranges(matches, capture)
            else:
                self._add_pairs(names, matches)

    def _add_pairs(self, names: GroupKey, matches: Iterable[Match]) -> None:
        """Add matches of a use with its receiver, or of a scope with its parameters."""
        (capture,) = names - _PARTNERS
        if "receiver" in names:
            self._add_chains(capture, matches)
        else:
            for _, captures in matches:
                self._add_other_scope(capture, captures)

    def _add_bindings(self, matches: Iterable[Match]) -> None:
        """Add the bindings and the single nodes of some matches."""
        actions, bindings, ranges = self._actions, self.bindings, self._ranges
        for pattern, captures in matches:
            steps = actions[pattern]
            names = captures.get("binding")
            if names:
                name = names[0].byte_range
                for kind, capture in steps.bindings:
                    if capture in captures:
                        bindings[kind, steps.prefix, name] = captures[capture][0].byte_range
            for capture in steps.singles:
                ranges[capture] += map(_RANGE, captures.get(capture, ()))

    def ranges(self, capture: str) -> set[Range]:
        """Return the ranges of a capture other than uses."""
        return set(self._ranges[capture])

    def _add_uses(self, rank: int, ranges: list[Range]) -> None:
        uses = self.uses
        find_start = uses.get
        for start, end in ranges:
            if start < find_start(end, end):
                uses[end] = start
        if rank:
            self.ranks.update(dict.fromkeys([end for _, end in ranges], rank))

    def _add_others(self, matches: Sequence[Match]) -> None:
        """Add matches whose captured nodes belong together."""
        self._add_bindings(matches)
        for pattern, captures in matches:
            actions = self._actions[pattern]
            for capture in actions.scopes:
                self._add_other_scope(capture, captures)
            if actions.has_receiver and "receiver" in captures:
                self._add_receiver(captures["receiver"][0].start_byte, captures)
            if actions.has_tree:
                self._add_import_trees(captures.get("import.tree", ()), actions.constants)
            if actions.has_import:
                self._add_import(captures, actions.constants)

    def _add_chains(self, kind: str, matches: Iterable[Match]) -> None:
        """Add names that are separate nodes from their receivers."""
        ranges, uses, name_starts = self._ranges[kind], self.uses, self.name_starts
        find_start = uses.get
        for _, captures in matches:
            receivers = captures.get("receiver")
            receiver_start = receivers[0].start_byte if receivers else NEVER
            for name in captures.get(kind, ()):
                name_range = name_start, end = name.byte_range
                ranges.append(name_range)
                start = min(name_start, receiver_start)
                if receivers and start < find_start(end, end):
                    uses[end] = start
                    name_starts[end] = name_start

    def _add_receiver(self, receiver_start: int, captures: Captures) -> None:
        for kind in USE_KINDS:
            for name_start, end in map(_RANGE, captures.get(kind, ())):
                start = min(name_start, receiver_start)
                if start < self.uses.get(end, end):
                    self.uses[end] = start
                    self.name_starts[end] = name_start

    def _add_other_scope(self, capture: str, captures: Captures) -> None:
        """Add scopes that have parameters outside of them."""
        scopes = self._scopes_of(capture)
        parameters = captures.get("parameters")
        parameters_start = parameters[0].start_byte if parameters else NEVER
        for scope_range in map(_RANGE, captures.get(capture, ())):
            start, end = scope_range
            first = min(parameters_start, start)
            previous = scopes.get(scope_range)
            if previous is None or first < previous.start:
                has_members = capture == "scope.members"
                scopes[scope_range] = VariableScope(first, start, end, has_members=has_members)

    def _add_scopes(self) -> None:
        """Add scopes without parameters.

        Add scopes of type parameters only if there are type parameters.
        """
        for capture in SCOPES:
            if capture != "scope.type_parameters" or self._ranges["type_parameter"]:
                scopes, has_members = self._scopes_of(capture), capture == "scope.members"
                for scope_range in self._ranges[capture]:
                    # Otherwise the scope with parameters begins no later
                    if scope_range not in scopes:
                        start, end = scope_range
                        scopes[scope_range] = VariableScope(
                            start, start, end, has_members=has_members
                        )

    def _scopes_of(self, capture: str) -> dict[Range, VariableScope]:
        return self.type_scopes if capture == "scope.type_parameters" else self.scopes

    def _add_import_trees(self, nodes: Iterable[syntax.Node], constants: Mapping[str, str]) -> None:
        is_exported = bool(constants.get("import.exported"))
        self.import_trees.update(dict.fromkeys(map(_RANGE, nodes), is_exported))

    def _add_import(self, captures: Captures, constants: Mapping[str, str]) -> None:
        start = -1
        parts: list[str | Range] = []
        for capture in IMPORT_PARTS:
            if capture in captures:
                part_range = captures[capture][0].byte_range
                parts.append(part_range)
                start = part_range[0]
            else:
                parts.append(constants.get(capture, ""))
        if start < 0:  # all parts are optional in the pattern, and none is there
            return
        module, local, name = parts
        if module and "import.statement" in captures:
            self._statements[captures["import.statement"][0].byte_range] = module
        is_exported = "import.exported" in constants
        key = module or None, name, local
        self._imports[key] = ImportRange(start, *key, is_exported)

    @cached_property
    def ordered_scopes(self) -> Sequence[VariableScope]:
        """The scopes of variables, in the order of `sort_scopes`."""
        return sort_scopes(self.scopes.values())

    @cached_property
    def imports(self) -> Sequence[ImportRange]:
        """All imports with their modules, in the order of the text.

        An import of a module without names is left out if another import takes names from that
        module.
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


def _read_ranges(matches: Iterable[Match], capture: str) -> Iterator[Range]:
    """Yield the ranges of the nodes of a capture, without an interpreter step per node.

    A match without an optional capture has no captures.
    """
    captures = filter(None, map(_CAPTURES, matches))
    return map(_RANGE, chain.from_iterable(map(itemgetter(capture), captures)))
