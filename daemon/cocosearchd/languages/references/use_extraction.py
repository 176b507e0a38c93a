"""Makes the uses of a file of the byte ranges that its query captured. Pure.

This is the inner loop of the first index: work is done where scopes and symbols change, and little
for each use.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, compress
from operator import lt

from cocosearchd.languages.code_facts import UseColumns
from cocosearchd.languages.references.chain_text import (
    LONG_TEXT,
    MAX_TEXT,
    first_name,
    split_chain,
)
from cocosearchd.languages.references.enclosing_symbols import EnclosingSymbols
from cocosearchd.languages.references.fact_collector import (
    WHOLE_CHAIN,
    FactCollector,
    Range,
)
from cocosearchd.languages.references.reference_query import USE_KINDS
from cocosearchd.languages.references.text_positions import Regions, TextPositions
from cocosearchd.languages.references.variable_scopes import ValidVariables, declare_variables
from cocosearchd.model import Symbol

# A file with more is generated: only its first ones are extracted.
MAX_USES = 50_000
# Characters of a name, as of the names of symbols.
MAX_NAME = 400
# Characters of all long receivers of a file: a chain of 1,000 names has 1,000 receivers.
MAX_RECEIVERS = 1_000_000

_CHAIN_BYTES = MAX_NAME + 5 * MAX_TEXT
_TYPE_RANK = USE_KINDS.index("type")
# A written type in quotes, and the names in it.
_QUOTED_TYPE = re.compile(rb"[\w.\[\], |\x80-\xff]+")
_TYPE_NAME = re.compile(rb"[A-Za-z_\x80-\xff][\w.\x80-\xff]*")


def make_uses(
    collector: FactCollector, data: bytes, positions: TextPositions, symbols: Sequence[Symbol]
) -> UseColumns:
    """Make the first uses of a file, in the order of the text."""
    _add_quoted_types(collector, data)
    _drop_declared(collector)
    ends = _drop_ignored(sorted(collector.uses), collector.ranges("ignored"))
    _rank_types(ends, collector)
    variables = _valid_variables(collector, data)
    names = _ChainedNames(collector, data, variables)
    names.add(ends)
    return names.columns(positions, EnclosingSymbols(symbols))


def _add_quoted_types(collector: FactCollector, data: bytes) -> None:
    verbatim = Regions(collector.ranges("no_types"))
    for start, end in sorted(collector.ranges("quoted_type")):
        text = data[start : min(end, start + MAX_NAME)]
        if not verbatim.cover(start) and _QUOTED_TYPE.fullmatch(text):
            for match in _TYPE_NAME.finditer(text):
                collector.uses[start + match.end()] = start + match.start()
                collector.ranks[start + match.end()] = _TYPE_RANK


def _drop_declared(collector: FactCollector) -> None:
    """Drop names where they are declared."""
    uses = collector.uses
    for _, end in collector.ranges("definition"):
        uses.pop(end, None)
    for capture in ("variable", "type_parameter"):
        for start, end in collector.ranges(capture):
            if uses.get(end) == start:
                del uses[end]


def _merge(ranges: Iterable[Range]) -> Iterator[Range]:
    """Merge ranges that nest or overlap, in order."""
    last_start, last_end = -1, -1
    for start, end in sorted(ranges):
        if start >= last_end:
            if last_end > 0:
                yield last_start, last_end
            last_start, last_end = start, end
        else:
            last_end = max(last_end, end)
    if last_end > 0:
        yield last_start, last_end


def _drop_ignored(ends: list[int], ranges: Iterable[Range]) -> list[int]:
    """Return the ends of names, in order, that are outside of all ranges."""
    remaining: list[int] = []
    position = 0
    for start, end in _merge(ranges):
        first = bisect_right(ends, start, position)
        remaining += ends[position:first]
        position = bisect_right(ends, end, first)
    return remaining + ends[position:] if remaining or position else ends


def _rank_types(ends: list[int], collector: FactCollector) -> None:
    """Make types of the plain names inside of types."""
    ranks = collector.ranks
    position = 0
    for start, end in _merge(collector.ranges("types")):
        first = bisect_right(ends, start, position)
        position = bisect_right(ends, end, first)
        for name_end in ends[first:position]:
            ranks.setdefault(name_end, _TYPE_RANK)


def _valid_variables(collector: FactCollector, data: bytes) -> ValidVariables:
    variables = collector.ranges("variable") - collector.ranges("definition")
    imported = {item.local for item in collector.imports() if not isinstance(item.local, str)}
    outer_names = _positions_of_names(collector.ranges("outer") | imported, data)
    scopes = list(collector.scopes.values())
    declare_variables(scopes, _positions_of_names(variables, data), outer_names)
    type_parameters = _positions_of_names(collector.ranges("type_parameter"), data)
    type_scopes = collector.type_scopes.values() if type_parameters else ()
    declare_variables(type_scopes, type_parameters, ())
    return ValidVariables([*scopes, *(scope for scope in type_scopes if scope.names)])


def _positions_of_names(ranges: Iterable[Range], data: bytes) -> list[tuple[int, str]]:
    return [(start, data[start:end].decode("utf-8", "replace")) for start, end in ranges]


# A name, its receiver, the variable that both begin with, and the offset of the name in bytes.
_Chain = tuple[str, str, str, int]
_NO_NAME: _Chain = ("", "", "", 0)


class _ChainedNames:
    """The used names of one file with their receivers, in the order of the text."""

    def __init__(self, collector: FactCollector, data: bytes, variables: ValidVariables) -> None:
        self._collector = collector
        self._data = data
        self._variables = variables
        self._splitter = _ChainSplitter(data, collector.name_starts)
        self._chains: list[_Chain] = []
        self._ends: list[int] = []
        self._starts: list[int] = []  # of names
        self._is_local: list[bool] = []

    def add(self, ends: Iterable[int]) -> None:
        """Add the names that end there, without variables."""
        starts, data, split = self._collector.uses, self._data, self._splitter.split
        find_plain = self._splitter.plain_chains.get
        names, are_valid = self._variables.names, self._variables.are_valid
        chains, use_ends, name_starts = self._chains, self._ends, self._starts
        locality = self._is_local
        for end in ends:
            start = starts[end]
            # the text of a longer chain is long to read, and there may be many
            text = data[start:end] if end - start <= MAX_TEXT else b""
            chain = find_plain(text) or split(text, start, end)
            name, receiver, variable, offset = chain
            is_local = variable in names and are_valid(variable, end - 1)
            if receiver or (name and not is_local):
                chains.append(chain)
                use_ends.append(end)
                name_starts.append(start + offset)
                locality.append(is_local)

    def columns(self, positions: TextPositions, enclosing: EnclosingSymbols) -> UseColumns:
        """Return the first `MAX_USES`."""
        if not all(map(lt, self._starts, self._starts[1:])):
            self._drop_overlapping()
        chains, ends = self._chains[:MAX_USES], self._ends[:MAX_USES]
        lines, columns = positions.locate(self._starts[:MAX_USES])
        find_rank = self._collector.ranks.get
        return UseColumns(
            kind=[USE_KINDS[find_rank(end, 0)] for end in ends],
            name=[chain[0] for chain in chains],
            receiver=[chain[1] for chain in chains],
            is_local=self._is_local[:MAX_USES],
            line=lines,
            column=columns,
            symbol=enclosing.innermost_of_all([end - 1 for end in ends]),
        )

    def _drop_overlapping(self) -> None:
        """Keep names that begin after all before them: those of code with errors may overlap."""
        largest = [-1, *accumulate(self._starts, max)]
        follows_all = [
            start > earlier for start, earlier in zip(self._starts, largest, strict=False)
        ]
        self._chains = [*compress(self._chains, follows_all)]
        self._ends = [*compress(self._ends, follows_all)]
        self._is_local = [*compress(self._is_local, follows_all)]
        self._starts = [*compress(self._starts, follows_all)]


class _ChainSplitter:
    """Splits the chains of one file. Equal texts are split once."""

    def __init__(self, data: bytes, name_starts: Mapping[int, int]) -> None:
        """`name_starts` has the starts of names that are apart from their receivers, by end."""
        self._data = data
        self._name_starts = name_starts
        self._receiver_characters = 0
        self.plain_chains: dict[bytes, _Chain] = {}  # of names with dots, by text
        self._other_chains: dict[tuple[bytes, int], _Chain] = {}  # by text and offset of the name

    def split(self, text: bytes, start: int, end: int) -> _Chain:
        """Split a chain; its text is empty if it is too long. `_NO_NAME` has no name, or a long one."""
        name_start = self._name_starts.get(end, WHOLE_CHAIN)
        key = text, name_start - start if name_start >= start else WHOLE_CHAIN
        chain = self._other_chains.get(key)
        if chain is None:
            plain_chain = _split_names(text) if text else None
            if plain_chain is not None:
                self.plain_chains[text] = plain_chain
                return plain_chain
            chain = self._split_other(start, end, name_start)
            if text:
                self._other_chains[key] = chain
        name, receiver, _, offset = chain
        self._receiver_characters += len(receiver)
        if self._receiver_characters > MAX_RECEIVERS and receiver:
            return name, LONG_TEXT, "", offset
        return chain

    def _split_other(self, start: int, end: int, name_start: int) -> _Chain:
        # the receiver of a longer chain is too long, whatever it is
        first = max(start, end - _CHAIN_BYTES)
        offset = name_start - first if name_start >= first else WHOLE_CHAIN
        offset, name, receiver = split_chain(self._data[first:end], offset)
        if not 0 < len(name) <= MAX_NAME:
            return _NO_NAME
        variable = first_name(receiver) if receiver else name
        return name, receiver, variable, first + offset - start


def _split_names(text: bytes) -> _Chain | None:
    """Split a chain of plain names with dots; return None for any other one."""
    chain = text.decode("utf-8", "replace")
    if chain.isidentifier():
        return chain, "", chain, 0
    receiver, _, name = chain.rpartition(".")
    if name.isidentifier() and receiver.replace(".", "_").isidentifier():
        return name, receiver, first_name(receiver), len(text) - len(name.encode())
    return None
