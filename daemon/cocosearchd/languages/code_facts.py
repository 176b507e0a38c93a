"""The code facts of a file: imports, uses of names, and types of variables. Pure.

Facts are extracted when a file is parsed, and are stored with it. `graph` resolves them to
definitions only when a question is asked. Therefore a save changes the facts of one file, and no
rows of other files.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from operator import getitem, itemgetter
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

UseKind = Literal["call", "type", "inherit", "name"]
BindingKind = Literal["type", "call", "value", "element", "return"]

_Fact = TypeVar("_Fact", bound=tuple[Any, ...])

# Position that stands for code outside of all definitions.
TOP_LEVEL = -1
# Each number of a column is the value at its position.
_NUMBERS = range(1 << 32)


class Import(NamedTuple):
    """A name that a file imports from a module, or exports to other files.

    `import a.b as c` is module "a.b", name "", local "c". `from .a import b` is module ".a", name
    "b", local "b". `from a import *` is name "*", local "". An include is its path as written,
    name "*". `export { b as c } from "./a"` is module "./a", name "b", local "c", exported.
    `export default B` is module "" (this file), name "B", local "default", exported.
    """

    module: str  # as written, without quotes: "../a", "os.path", "crate::a::b", "stdio.h"
    name: str  # "" for the module itself; "*" for all its names
    local: str  # the local name in this file; "" for none
    line: int  # from 1
    exported: bool = False  # other files can import `local` from this file


class Use(NamedTuple):
    """A use of a name that is not a variable of an enclosing function.

    `self.client.get(url)` is name "get", receiver "self.client", kind "call". A receiver that is
    not a chain of names, such as the result of a call, keeps its text if it is short: `get().run()`
    has the receiver "get()".
    """

    kind: UseKind
    name: str
    receiver: str  # the text before the last separator; "" for none
    is_local: bool  # the receiver begins with a variable or parameter of an enclosing function
    line: int  # line of the name, from 1
    column: int  # column of the name, in characters, from 1
    symbol: int  # position of the innermost enclosing definition in `symbols`, or `TOP_LEVEL`


class Binding(NamedTuple):
    """The written type, or the assigned value, of a variable, an attribute or a result.

    `x: Client` is kind "type", text "Client"; `x = Client()` is "call"; `x = self.y` is "value";
    `for x in items` is "element". An attribute has its receiver in its name: "self.client".
    "return" is the declared result type of a function, with an empty name. A variable of a closure
    or a block is valid in the lines of the binding; without lines, it is valid in the whole symbol.
    """

    kind: BindingKind
    name: str
    text: str
    symbol: int  # position of the innermost class or function that it is written in, or `TOP_LEVEL`
    first_line: int = 0  # from 1
    last_line: int = 0


_USE_KIND, _USE_NAME, _USE_RECEIVER = map(Use._fields.index, ("kind", "name", "receiver"))


class ImportColumns(NamedTuple):
    """The fields of `Import`, each with a value for every import of a file."""

    module: Sequence[str] = ()
    name: Sequence[str] = ()
    local: Sequence[str] = ()
    line: Sequence[int] = ()
    exported: Sequence[bool] = ()


class UseColumns(NamedTuple):
    """The fields of `Use`, each with a value for every use of a file."""

    kind: Sequence[UseKind] = ()
    name: Sequence[str] = ()
    receiver: Sequence[str] = ()
    is_local: Sequence[bool] = ()
    line: Sequence[int] = ()
    column: Sequence[int] = ()
    symbol: Sequence[int] = ()


class BindingColumns(NamedTuple):
    """The fields of `Binding`, each with a value for every binding of a file."""

    kind: Sequence[BindingKind] = ()
    name: Sequence[str] = ()
    text: Sequence[str] = ()
    symbol: Sequence[int] = ()
    first_line: Sequence[int] = ()
    last_line: Sequence[int] = ()


class FactTable(Sequence[_Fact]):
    """Facts of one kind in columns of numbers. A fact object is created only when it is read.

    Compared with a list of objects, unpacking a file takes a fraction of the time and memory, and
    garbage collection has far fewer objects to visit. Thread-safe.
    """

    __slots__ = ("_columns", "_make", "_values")

    def __init__(
        self,
        make: Callable[[Iterable[Any]], _Fact],
        columns: Sequence[Sequence[int]],
        values: Sequence[Sequence[Any] | None],
    ) -> None:
        """`values` has, for each column, the values that its numbers are positions of.

        It is None for a column of plain numbers. All other numbers must be valid positions.
        """
        self._make = make
        self._columns = tuple(columns)
        # A range as long as any number stands for itself: then all columns are read alike.
        self._values = tuple(_NUMBERS if texts is None else texts for texts in values)

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[_Fact]:
        return map(self._make, zip(*map(self.values_of, range(len(self._columns))), strict=True))

    @overload
    def __getitem__(self, position: int) -> _Fact: ...

    @overload
    def __getitem__(self, position: slice) -> Sequence[_Fact]: ...

    def __getitem__(self, position: int | slice) -> _Fact | Sequence[_Fact]:
        if isinstance(position, slice):
            return tuple(self)[position]
        numbers = map(getitem, self._columns, repeat(position))
        return self._make(map(getitem, self._values, numbers))

    def __eq__(self, facts: object) -> bool:
        return isinstance(facts, Sequence) and tuple(self) == tuple(facts)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def values_of(self, field: int) -> Iterable[Any]:
        """Return the values of one field for all facts, in order.

        `field` is the position of the field.
        """
        column, values = self._columns[field], self._values[field]
        return column if values is _NUMBERS else map(values.__getitem__, column)

    def rows(
        self, field: int, selected: Collection[str], non_empty: int | None = None
    ) -> Sequence[int]:
        """Return the positions of the facts with one of the `selected` values in a field, ascending.

        If the position of a second field is given, only of facts with a text in it.
        """
        column, values = self._columns[field], self._values[field]
        rows = list[int]()
        for value in selected:
            for number in _find_all(values, value):
                rows += _find_all(column, number)
        if non_empty is not None:
            text_numbers, texts = self._columns[non_empty], self._values[non_empty]
            rows = [row for row in rows if texts[text_numbers[row]]]
        rows.sort()
        return rows


def _find_all(items: Sequence[Any], item: object) -> Sequence[int]:
    """Return the positions of an item. `index` skips other items without interpreter steps."""
    positions = list[int]()
    position = -1
    with suppress(ValueError):  # raised after the last position
        while True:
            position = items.index(item, position + 1)
            positions.append(position)
    return positions


def values_of(facts: Sequence[_Fact], field: int) -> Iterable[Any]:
    """Return the values of one field for all facts, in order, without creating facts."""
    return facts.values_of(field) if isinstance(facts, FactTable) else map(itemgetter(field), facts)


def find_rows(
    facts: Sequence[_Fact], field: int, selected: Collection[str], non_empty: int | None = None
) -> Sequence[int]:
    """Return the positions of the facts with one of the `selected` values in a field, ascending.

    Fields are given by position. With a second field, only facts with a text in it count.
    """
    if isinstance(facts, FactTable):
        return facts.rows(field, selected, non_empty)
    return [
        row
        for row, fact in enumerate(facts)
        if fact[field] in selected and (non_empty is None or fact[non_empty])
    ]


class ValuePositions:
    """The positions of equal values in a sequence, as linked lists.

    It consists of only two objects, however many values there are.
    """

    __slots__ = ("_firsts", "_following")

    def __init__(self, values: Iterable[Any]) -> None:
        ordered = list(values)
        self._firsts: dict[Any, int] = {}
        self._following = array("i", bytes(4 * len(ordered)))
        firsts, following = self._firsts, self._following
        position = len(ordered)
        for value in reversed(ordered):
            position -= 1
            following[position] = firsts.get(value, -1)
            firsts[value] = position

    def __contains__(self, value: object) -> bool:
        return value in self._firsts

    def __iter__(self) -> Iterator[Any]:
        """Yield the distinct values."""
        return iter(self._firsts)

    def is_single(self, value: object) -> bool:
        """Return True if a value occurs exactly once."""
        first = self._firsts.get(value)
        return first is not None and self._following[first] < 0

    def find(self, value: object) -> Iterator[int]:
        """Yield the positions of a value, ascending."""
        position = self._firsts.get(value, -1)
        while position >= 0:
            yield position
            position = self._following[position]


class FactGroups(Generic[_Fact]):
    """Facts grouped by the value of one field.

    Facts are created at the first look-up of their group.
    """

    __slots__ = ("_facts", "_groups", "_positions")

    def __init__(self, facts: Sequence[_Fact], field: int) -> None:
        """`field` is the position of the field."""
        self._facts = facts
        self._positions = ValuePositions(values_of(facts, field))
        self._groups: dict[Any, Sequence[_Fact]] = {}

    def __contains__(self, value: object) -> bool:
        return value in self._positions

    def __iter__(self) -> Iterator[Any]:
        """Yield the distinct values of the field."""
        return iter(self._positions)

    def find(self, value: object) -> Sequence[_Fact]:
        """Return the facts with a value, in order."""
        if value not in self._positions:
            return ()
        group = self._groups.get(value)
        if group is None:
            positions = self._positions.find(value)
            group = self._groups[value] = tuple(map(self._facts.__getitem__, positions))
        return group


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """The code facts of one file. Each kind is in the order of the text.

    `package` is the declared package or namespace; "" without one.
    """

    package: str = ""
    imports: Sequence[Import] = ()
    uses: Sequence[Use] = ()
    bindings: Sequence[Binding] = ()

    def rows_of_uses(self, names: Collection[str]) -> Sequence[int]:
        """Return the positions in `uses` of the uses of some names, ascending."""
        return find_rows(self.uses, _USE_NAME, names)

    def rows_of_member_uses(self, names: Collection[str]) -> Sequence[int]:
        """Return the positions in `uses` of the uses of some names that have a receiver."""
        return find_rows(self.uses, _USE_NAME, names, non_empty=_USE_RECEIVER)

    def uses_named(self, names: Collection[str]) -> Iterator[Use]:
        """Yield the uses of some names."""
        return map(self.uses.__getitem__, self.rows_of_uses(names))

    def uses_of_kind(self, kind: UseKind) -> Iterator[Use]:
        """Yield the uses of a kind."""
        return map(self.uses.__getitem__, find_rows(self.uses, _USE_KIND, (kind,)))


@dataclass(frozen=True, slots=True)
class FactColumns:
    """The code facts of one file in columns, as a parser makes them, without an object per fact."""

    package: str = ""
    imports: ImportColumns = field(default_factory=ImportColumns)
    uses: UseColumns = field(default_factory=UseColumns)
    bindings: BindingColumns = field(default_factory=BindingColumns)

    def facts(self) -> CodeFacts:
        """Convert the columns to fact objects."""
        return CodeFacts(
            self.package,
            tuple(map(Import._make, zip(*self.imports, strict=True))),
            tuple(map(Use._make, zip(*self.uses, strict=True))),
            tuple(map(Binding._make, zip(*self.bindings, strict=True))),
        )


NO_FACTS = CodeFacts()
NO_COLUMNS = FactColumns()


def make_columns(facts: CodeFacts) -> FactColumns:
    """Convert facts to columns."""
    return FactColumns(
        facts.package,
        ImportColumns(*zip(*facts.imports, strict=True)),
        UseColumns(*zip(*facts.uses, strict=True)),
        BindingColumns(*zip(*facts.bindings, strict=True)),
    )
