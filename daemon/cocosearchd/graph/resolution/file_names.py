"""The symbols, imports and bindings of one file by name, arranged at first use. Pure"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TypeVar

from cocosearchd.graph.code_files import CodeFile
from cocosearchd.graph.resolution.block_bindings import ANYWHERE, BlockBindings
from cocosearchd.languages.code_facts import TOP_LEVEL, Binding, Import, Use
from cocosearchd.languages.symbols import FUNCTION_KINDS, TYPE_KINDS
from cocosearchd.model import Symbol

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)

# Symbols that hold names without being types.
CONTAINER_KINDS = frozenset({"namespace", "module"})
_CALLABLE_KINDS = FUNCTION_KINDS | {"prototype"}
VALUE_KINDS = frozenset({"constant", "variable"})
# Lines between two definitions of one thing: a line break and a branch, such as `else:`.
_ADJACENT_LINES = 2
# Bytes of a line that a signature leaves out: indentation, `export`, a semicolon.
_SIGNATURE_MARGIN = 16
_VARIABLE = re.compile(r"(?:export )?(?:const|let|var) ")
_DEFAULT = "default"
_LOCAL_NAME = attrgetter("local")
_BINDING_NAME = attrgetter("name")
_OWNER_AND_NAME = attrgetter("symbol", "name")
# Definitions deeper than this in each other are generated.
_MAX_NESTING = 1000


class FileNames:
    """Looks up names in one file. Symbols are positions in `file.symbols`.

    Each part is arranged at its first use.
    """

    def __init__(self, file: CodeFile) -> None:
        self.file = file

    @cached_property
    def parents(self) -> Sequence[int]:
        """The position of the symbol around each symbol, or `TOP_LEVEL`."""
        return tuple(_parents(self.file))

    @cached_property
    def imports(self) -> Mapping[str, Sequence[Import]]:
        """The imports by the name that the file uses for them."""
        return _by_key(self.file.facts.imports, _LOCAL_NAME)

    @cached_property
    def dotted_imports(self) -> Mapping[str, Sequence[Import]]:
        """The imports of modules by their first name: `import a.b` binds `a` too."""
        items = [item for item in self.file.facts.imports if "." in item.local]
        return _by_key(items, lambda item: item.local.partition(".")[0])

    @cached_property
    def wildcards(self) -> Sequence[Import]:
        """The imports of all names of a module."""
        return tuple(
            item for item in self.file.facts.imports if item.name == "*" and not item.local
        )

    @cached_property
    def blocks(self) -> BlockBindings:
        """The bindings of closures and blocks."""
        return BlockBindings(self.file.facts.bindings)

    @cached_property
    def _bindings(self) -> Mapping[tuple[int, str], Sequence[Binding]]:
        return _by_key(self.file.facts.bindings, _OWNER_AND_NAME)

    @cached_property
    def _attributes(self) -> Mapping[str, Sequence[Binding]]:
        return _by_key(self.file.facts.bindings, _BINDING_NAME)

    @cached_property
    def _bases(self) -> Mapping[int, Sequence[Use]]:
        return _by_key(list(self.file.facts.uses_of_kind("inherit")), lambda use: use.symbol)

    @cached_property
    def _symbols(self) -> "_SymbolNames":
        return _SymbolNames(self.file, self.parents)

    def nested(self, symbol: int, name: str) -> Sequence[int]:
        """Return the definitions with a name directly inside of a symbol, or at the top level."""
        return self._symbols.nested.get((symbol, name), ())

    def members(self, qualified_name: str, name: str) -> Sequence[int]:
        """Return the members with a name of the type with a qualified name ("": the file)."""
        return self._symbols.members.get((qualified_name, name), ())

    def named(self, name: str) -> Sequence[int]:
        """Return all definitions with a name, wherever they are in the file."""
        return self._symbols.named.get(name, ())

    def same_definition(self, position: int) -> Sequence[int]:
        """Return a definition with its overloads: those that follow each other with its name.

        Equal names apart from each other, such as those of two callbacks, are different things.
        """
        symbol = self.file.symbols[position]
        outer = TOP_LEVEL if symbol.parent is None else self.parents[position]
        siblings = self._symbols.siblings.get(outer, ())
        first = last = bisect_left(siblings, position)
        symbols = self.file.symbols
        while first > 0 and _are_overloads(symbols[siblings[first - 1]], symbols[siblings[first]]):
            first -= 1
        final = len(siblings) - 1
        while last < final and _are_overloads(symbols[siblings[last]], symbols[siblings[last + 1]]):
            last += 1
        return siblings[first : last + 1]

    def contained(self, name: str) -> Sequence[int]:
        """Return the definitions with a name directly inside of a namespace."""
        return self._symbols.contained.get(name, ())

    def bases(self, symbol: int) -> Sequence[Use]:
        """Return the uses that name the base classes of a class."""
        return self._bases.get(symbol, ())

    def bindings(self, symbol: int, name: str, region: int = ANYWHERE) -> Sequence[Binding]:
        """Return the bindings of a name that are valid in the body of a symbol itself.

        `region` is one of `BlockBindings`; without it, bindings of all blocks are returned.
        """
        bindings = self.blocks.find(symbol, name, region)
        return self._bindings.get((symbol, name), ()) if bindings is None else bindings

    def attributes(self, name: str) -> Sequence[Binding]:
        """Return all bindings of a name in the file, such as `self.client`."""
        return self._attributes.get(name, ())

    def enclosing(self, symbol: int) -> Iterator[int]:
        """Yield a symbol and the symbols around it, innermost first, without the top level."""
        for _ in range(_MAX_NESTING):
            if symbol == TOP_LEVEL:
                return
            yield symbol
            symbol = self.parents[symbol]

    def enclosing_type(self, symbol: int) -> int | None:
        """Return the innermost class, or object with methods, around a symbol or that symbol."""
        for outer in self.enclosing(symbol):
            kind = self.file.symbols[outer].kind
            if kind in TYPE_KINDS or kind == "impl" or (kind in VALUE_KINDS and outer != symbol):
                return outer
        return None


def names_of(file: CodeFile) -> FileNames:
    """Return the names of a file, the same object as long as the file is in memory."""
    return file.derived.get(FileNames, file)


class _SymbolNames:
    """The symbols of one file by name, and by what is around them."""

    def __init__(self, file: CodeFile, parents: Sequence[int]) -> None:
        self.nested: dict[tuple[int, str], list[int]] = defaultdict(list)
        self.members: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.siblings: dict[int, list[int]] = defaultdict(list)
        self.named: dict[str, list[int]] = defaultdict(list)
        self.contained: dict[str, list[int]] = defaultdict(list)
        for position, symbol in enumerate(file.symbols):
            outer = TOP_LEVEL if symbol.parent is None else parents[position]
            self.siblings[outer].append(position)
            self.named[symbol.name].append(position)
            # a method outside of its class is no name of the file, a constructor is its class
            if _is_constructor(symbol):
                continue
            owner = None if outer == TOP_LEVEL else file.symbols[outer]
            if not _is_outside(symbol, owner):
                self.nested[outer, symbol.name].append(position)
                if owner is not None and owner.kind in CONTAINER_KINDS:
                    self.contained[symbol.name].append(position)
            self.members[symbol.parent or "", symbol.name].append(position)


def _is_outside(symbol: Symbol, owner: Symbol | None) -> bool:
    """Return True for a function that is not written inside of its owner."""
    around = None if owner is None else owner.qualified_name
    return symbol.parent != around and symbol.kind in _CALLABLE_KINDS


class ImportMentions:
    """The imports of one file by the names that they mention."""

    def __init__(self, file: CodeFile) -> None:
        self._imports = file.facts.imports
        self._numbers: dict[str, list[int]] = defaultdict(list)
        self._default_numbers: list[int] = []
        for number, item in enumerate(self._imports):
            taken_name = _taken_name(item)
            for name in {taken_name, item.local}:
                self._numbers[name].append(number)
            if taken_name == _DEFAULT:
                self._default_numbers.append(number)

    def find(self, names: Iterable[str]) -> Iterator[Import]:
        """Yield the imports with one of some names, and those of default exports, in order."""
        numbers = {number for name in names for number in self._numbers.get(name, ())}
        return (self._imports[number] for number in sorted(numbers.union(self._default_numbers)))


def mentions_of(file: CodeFile) -> ImportMentions:
    """Return the mentions of the imports of a file, the same object as `names_of` does."""
    return file.derived.get(ImportMentions, file)


def _taken_name(item: Import) -> str:
    """Return the name that an import takes, or the last part of its module."""
    return item.name or _last_part(item.module)


def _last_part(module: str) -> str:
    """Return the last part of the path of a module, without the ending of a file."""
    parts = [part for part in module.replace("::", "/").replace("\\", "/").split("/") if part]
    last = parts[-1] if parts else ""
    head, dot, tail = last.rpartition(".")
    is_extension = tail in ("js", "ts", "mjs", "cjs", "jsx", "tsx", "h", "hpp", "json")
    return head if dot and is_extension else tail


def _parents(file: CodeFile) -> Iterator[int]:
    """Yield the position of the symbol around each symbol, or `TOP_LEVEL`."""
    open_symbols: list[int] = []
    for position, symbol in enumerate(file.symbols):
        while open_symbols and file.symbols[open_symbols[-1]].end_byte <= symbol.start_byte:
            open_symbols.pop()
        yield open_symbols[-1] if open_symbols else TOP_LEVEL
        open_symbols.append(position)


def _are_overloads(earlier: Symbol, later: Symbol) -> bool:
    """Return True if two definitions that follow each other define one thing.

    They are members of one class, or stand beside each other, or the earlier has no body: then its
    text is hardly longer than its signature, which has no line breaks and indentation.
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


def _is_constructor(symbol: Symbol) -> bool:
    """Return True for a method with the name of its class."""
    parent = symbol.parent
    if parent is None or not parent.endswith(symbol.name) or symbol.kind not in _CALLABLE_KINDS:
        return False
    return parent.rpartition(".")[2] == symbol.name


def _by_key(items: Sequence[_Item], key: Callable[[_Item], _Key]) -> Mapping[_Key, Sequence[_Item]]:
    groups: dict[_Key, list[_Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
