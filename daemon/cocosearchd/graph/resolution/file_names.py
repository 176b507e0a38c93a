"""Looks up the symbols, imports and bindings of one file by name; arranged at first use. Pure."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from cocosearchd.graph.code_files import CodeFile, DefinitionKey, Resolution
from cocosearchd.graph.resolution.block_bindings import ANYWHERE, BlockBindings
from cocosearchd.languages.code_facts import (
    TOP_LEVEL,
    Binding,
    FactGroups,
    Import,
    Use,
    ValuePositions,
    values_of,
)
from cocosearchd.languages.symbol_table import values_of as symbol_values
from cocosearchd.languages.symbols import (
    CALLABLE_KINDS,
    CONTAINER_KINDS,
    TYPE_KINDS,
    VALUE_KINDS,
)
from cocosearchd.model import Symbol

# Largest distance in lines between two definitions of one thing: a line break and a branch, such as
# `else:`.
_ADJACENT_LINES = 2
# Bytes per line that a signature leaves out: indentation, `export`, a semicolon.
_SIGNATURE_MARGIN = 16
_VARIABLE = re.compile(r"(?:export )?(?:const|let|var) ")
_DEFAULT = "default"
_MODULE = Import._fields.index("module")
_TAKEN_NAME = Import._fields.index("name")
_LOCAL_NAME = Import._fields.index("local")
_BINDING_NAME = Binding._fields.index("name")
# Code with deeper nesting of definitions is generated.
_MAX_NESTING = 1000


class FileNames:
    """Looks up names in one file. Symbols are positions in `file.symbols`.

    Each table is made at its first use.
    """

    def __init__(self, file: CodeFile) -> None:
        self.file = file
        self._overloads: dict[int, Sequence[int]] = {}

    @cached_property
    def parents(self) -> Sequence[int]:
        """For each symbol, the position of the symbol around it, or `TOP_LEVEL`."""
        return tuple(_parents(self.file.symbols))

    @cached_property
    def kinds(self) -> Sequence[str]:
        """The kind of each symbol."""
        return symbol_values(self.file.symbols, "kind")

    @cached_property
    def _imports(self) -> FactGroups[Import]:
        return FactGroups(self.file.facts.imports, _LOCAL_NAME)

    @cached_property
    def dotted_imports(self) -> frozenset[str]:
        """The first parts of imported dotted modules: `import a.b` also binds `a`."""
        return frozenset(local.partition(".")[0] for local in self._imports if "." in local)

    @cached_property
    def wildcards(self) -> Sequence[Import]:
        """The imports of all names of a module."""
        return tuple(item for item in self._imports.find("") if item.name == "*")

    @cached_property
    def blocks(self) -> BlockBindings:
        """The bindings of variables in the file, including closures and blocks."""
        return BlockBindings(FactGroups(self.file.facts.bindings, _BINDING_NAME))

    @cached_property
    def _bases(self) -> Mapping[int, Sequence[Use]]:
        uses: dict[int, list[Use]] = defaultdict(list)
        for use in self.file.facts.uses_of_kind("inherit"):
            uses[use.symbol].append(use)
        return uses

    @cached_property
    def _symbols(self) -> "_SymbolNames":
        return _SymbolNames(self.file.symbols, self.parents)

    @cached_property
    def _siblings(self) -> Mapping[int, Sequence[int]]:
        """The symbols directly inside of each symbol, and of the file."""
        siblings: dict[int, list[int]] = defaultdict(list)
        owners = symbol_values(self.file.symbols, "parent")
        for position, (owner, outer) in enumerate(zip(owners, self.parents, strict=True)):
            siblings[TOP_LEVEL if owner is None else outer].append(position)
        return siblings

    def imports(self, name: str) -> Sequence[Import]:
        """Return the imports that bind a local name."""
        return self._imports.find(name)

    def nested(self, position: int, name: str) -> Sequence[int]:
        """Return the definitions with a name directly in a symbol or at the top level."""
        return self._symbols.arranged(name).nested.get((position, name), ())

    def members(self, qualified_name: str, name: str) -> Sequence[int]:
        """Return the members called `name` of the type `qualified_name`; "" stands for the file."""
        return self._symbols.arranged(name).members.get((qualified_name, name), ())

    def named(self, name: str) -> Sequence[int]:
        """Return all definitions with a name in the file, at any depth."""
        return tuple(self._symbols.positions.find(name))

    def same_definition(self, position: int) -> Sequence[int]:
        """Return a definition with its overloads: adjacent definitions with its name.

        Definitions of equal name that are not adjacent, such as two callbacks, are different
        things.
        """
        symbols = self.file.symbols
        symbol = symbols[position]
        if self._symbols.positions.is_single(symbol.name):
            return (position,)
        if position not in self._overloads:
            overloads = self._find_overloads(position)
            # one shared sequence: a name may have thousands of overloads
            self._overloads.update(dict.fromkeys(overloads, overloads))
        return self._overloads[position]

    def _find_overloads(self, position: int) -> Sequence[int]:
        symbols = self.file.symbols
        symbol = symbols[position]
        outer = TOP_LEVEL if symbol.parent is None else self.parents[position]
        siblings = self._siblings[outer]
        first = last = bisect_left(siblings, position)
        while first > 0 and _are_overloads(symbols[siblings[first - 1]], symbols[siblings[first]]):
            first -= 1
        final = len(siblings) - 1
        while last < final and _are_overloads(symbols[siblings[last]], symbols[siblings[last + 1]]):
            last += 1
        return siblings[first : last + 1]

    def contained(self, name: str) -> Sequence[int]:
        """Return the definitions with a name directly inside of a namespace."""
        return self._symbols.arranged(name).contained.get(name, ())

    def bases(self, position: int) -> Sequence[Use]:
        """Return the uses that name the base classes of a class."""
        return self._bases.get(position, ())

    def bindings(self, position: int, name: str, region: int = ANYWHERE) -> Sequence[Binding]:
        """Return the bindings of a name that are valid in the body of a symbol itself.

        `region` comes from `BlockBindings`; without it, bindings of all blocks are returned.
        """
        return self.blocks.find(position, name, region)

    def enclosing(self, position: int) -> Iterator[int]:
        """Yield a symbol and the symbols around it, innermost first, without the top level."""
        for _ in range(_MAX_NESTING):
            if position == TOP_LEVEL:
                return
            yield position
            position = self.parents[position]

    def enclosing_type(self, position: int) -> int | None:
        """Return the innermost class, or object with methods, that is or contains a symbol."""
        for outer in self.enclosing(position):
            kind = self.kinds[outer]
            if kind in TYPE_KINDS or kind == "impl" or (kind in VALUE_KINDS and outer != position):
                return outer
        return None


def names_of(file: CodeFile) -> FileNames:
    """Return the `FileNames` of a file; cached as long as the file is in memory."""
    return file.derived.get(FileNames, file)


class ScopeDefinitions:
    """The definitions of a name in one scope, from which uses select the nearest one.

    All selections together take a time that is linear in the number of definitions: a file may
    define one name thousands of times, and use it as often.
    """

    def __init__(self, names: FileNames, resolved: Resolution) -> None:
        """`resolved` has several definitions, all in the file of `names`."""
        self._names = names
        self._resolved = resolved
        self._positions = sorted(key.position for key in resolved.definitions)
        self._members = frozenset(self._positions)
        self._lines = [names.file.symbols[position].start_line for position in self._positions]
        self._nearest: dict[int, Resolution] = {}  # by position

    def nearest(self, line: int) -> Resolution:
        """Return the last definition that begins before a line or on it, with its overloads.

        Without one, return the first definition.
        """
        position = self._positions[max(0, bisect_right(self._lines, line) - 1)]
        if position not in self._nearest:
            overloads = self._names.same_definition(position)
            alike = [item for item in overloads if item in self._members]
            self._nearest.update(dict.fromkeys(alike, self._select(alike)))
        return self._nearest[position]

    def _select(self, positions: Sequence[int]) -> Resolution:
        if len(positions) == len(self._positions):
            return self._resolved
        path = self._names.file.path
        keys = tuple(DefinitionKey(path, position) for position in positions)
        return replace(self._resolved, definitions=keys)


class _SymbolNames:
    """The symbols of one file that other code can name, by name and by their surroundings.

    The symbols of a name are arranged at its first lookup.
    """

    def __init__(self, symbols: Sequence[Symbol], parents: Sequence[int]) -> None:
        self.positions = ValuePositions(symbol_values(symbols, "name"))
        self.nested: dict[tuple[int, str], list[int]] = {}
        self.members: dict[tuple[str, str], list[int]] = {}
        self.contained: dict[str, list[int]] = {}
        self._symbols = symbols
        self._parents = parents
        self._arranged = set[str]()

    def arranged(self, name: str) -> "_SymbolNames":
        """Arrange the symbols of a name, and return `self`. Two threads may do this twice."""
        if name not in self._arranged and name in self.positions:
            nested = defaultdict[tuple[int, str], list[int]](list)
            members = defaultdict[tuple[str, str], list[int]](list)
            for position in filter(self._can_be_named, self.positions.find(name)):
                members[self._symbols[position].parent or "", name].append(position)
                if self._is_inside(position):
                    nested[self._outer(position), name].append(position)
            self.nested.update(nested)
            self.members.update(members)
            self.contained[name] = sorted(
                position
                for (outer, _), positions in nested.items()
                if outer != TOP_LEVEL and self._symbols[outer].kind in CONTAINER_KINDS
                for position in positions
            )
            self._arranged.add(name)
        return self

    def _outer(self, position: int) -> int:
        return TOP_LEVEL if self._symbols[position].parent is None else self._parents[position]

    def _can_be_named(self, position: int) -> bool:
        """Return False for a constructor with the name of its class.

        Then the name means the class.
        """
        symbol = self._symbols[position]
        owner = symbol.parent
        if owner is None or symbol.kind not in CALLABLE_KINDS or not owner.endswith(symbol.name):
            return True
        return owner.rpartition(".")[2] != symbol.name

    def _is_inside(self, position: int) -> bool:
        """Return False for a function that is written outside of its owner.

        A method that is defined outside of its class is no name of the file.
        """
        symbol = self._symbols[position]
        outer = self._outer(position)
        around = None if outer == TOP_LEVEL else self._symbols[outer].qualified_name
        return symbol.parent == around or symbol.kind not in CALLABLE_KINDS


class ImportMentions:
    """The imports of one file, by the names that they mention."""

    def __init__(self, file: CodeFile) -> None:
        self._imports = file.facts.imports
        self._numbers: dict[str, list[int]] = defaultdict(list)
        self._default_numbers: list[int] = []
        columns = (values_of(self._imports, field) for field in (_MODULE, _TAKEN_NAME, _LOCAL_NAME))
        for number, (module, name, local) in enumerate(zip(*columns, strict=True)):
            taken_name = name or _last_part(module)
            self._numbers[taken_name].append(number)
            if local != taken_name:
                self._numbers[local].append(number)
            if taken_name == _DEFAULT:
                self._default_numbers.append(number)

    @property
    def has_defaults(self) -> bool:
        """True if there are imports of default exports, which may mean any name."""
        return bool(self._default_numbers)

    def find(self, names: Iterable[str]) -> Iterator[Import]:
        """Yield the imports that mention one of the names, in order.

        Imports of default exports are included.
        """
        numbers = {number for name in names for number in self._numbers.get(name, ())}
        return (self._imports[number] for number in sorted(numbers.union(self._default_numbers)))


def mentions_of(file: CodeFile) -> ImportMentions:
    """Return the `ImportMentions` of a file; cached like the result of `names_of`."""
    return file.derived.get(ImportMentions, file)


def _last_part(module: str) -> str:
    """Return the last part of a module path, without a file extension."""
    parts = [part for part in module.replace("::", "/").replace("\\", "/").split("/") if part]
    last = parts[-1] if parts else ""
    head, dot, tail = last.rpartition(".")
    is_extension = tail in ("js", "ts", "mjs", "cjs", "jsx", "tsx", "h", "hpp", "json")
    return head if dot and is_extension else tail


def _parents(symbols: Sequence[Symbol]) -> Iterator[int]:
    """Yield for each symbol the position of the symbol around it, or `TOP_LEVEL`."""
    open_symbols: list[int] = []
    ends = symbol_values(symbols, "end_byte")
    for position, start in enumerate(symbol_values(symbols, "start_byte")):
        while open_symbols and ends[open_symbols[-1]] <= start:
            open_symbols.pop()
        yield open_symbols[-1] if open_symbols else TOP_LEVEL
        open_symbols.append(position)


def _are_overloads(earlier: Symbol, later: Symbol) -> bool:
    """Return True if two consecutive definitions of one name define one thing.

    This is so in three cases: they are methods of one class; they are adjacent; or the earlier one
    has no body. Without a body, its text is hardly longer than its signature, which has no line
    breaks and indentation.
    """
    if earlier.qualified_name != later.qualified_name:
        return False
    if later.start_line - earlier.end_line <= _ADJACENT_LINES or earlier.kind == "method":
        return True
    lines = earlier.end_line - earlier.start_line
    margin = _SIGNATURE_MARGIN * (lines + 1)
    length = earlier.end_byte - earlier.start_byte
    is_function = _VARIABLE.match(earlier.signature) is None
    return is_function and length - len(earlier.signature) <= margin
