"""Makes the uses of a file from the byte ranges that its query captured. Pure.

This is the inner loop of the first index: work is done where scopes and symbols change, and little
for each use.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress, islice
from operator import add, itemgetter, lt

from cocosearchd.languages.code_facts import UseColumns
from cocosearchd.languages.references.chain_text import (
    LONG_TEXT,
    MAX_TEXT,
    REMEMBERED_TEXTS,
    RangeTexts,
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
from cocosearchd.languages.references.variable_scopes import (
    ValidVariables,
    declare_variables,
    sort_scopes,
)

# A file with more uses is generated: only the first ones are extracted.
MAX_USES = 50_000
# Largest length of a name in characters, like that of names of symbols.
MAX_NAME = 400
# Characters of all receivers of a file together: a chain of 1,000 names has 1,000 receivers.
MAX_RECEIVERS = 1_000_000

_CHAIN_BYTES = MAX_NAME + 5 * MAX_TEXT
_TYPE_RANK = USE_KINDS.index("type")
# A type written in quotes, and the names in it.
_QUOTED_TYPE = re.compile(rb"[\w.\[\], |\x80-\xff]+")
_TYPE_NAME = re.compile(rb"[A-Za-z_\x80-\xff][\w.\x80-\xff]*")


def make_uses(
    collector: FactCollector,
    data: bytes,
    texts: RangeTexts,
    positions: TextPositions,
    enclosing: EnclosingSymbols,
) -> UseColumns:
    """Make the first uses of a file, in the order of the text."""
    _add_quoted_types(collector, data)
    _drop_declared(collector)
    ends = _drop_ignored(sorted(collector.uses), collector.ranges("ignored"))
    _rank_types(ends, collector)
    starts = list(map(collector.uses.__getitem__, ends))
    chains = _ChainSplitter(data, texts, collector.name_starts).split_all(starts, ends)
    is_local = _valid_variables(collector, texts).find_valid(map(_VARIABLE, chains), ends)
    is_use = [
        bool(chain[1] or (chain[0] and not local))
        for chain, local in zip(chains, is_local, strict=True)
    ]
    name_starts = list(map(add, starts, map(_OFFSET, chains)))
    use_starts = list(compress(name_starts, is_use))
    if not all(map(lt, use_starts, islice(use_starts, 1, None))):
        _drop_overlapping(is_use, name_starts)
    ends = list(islice(compress(ends, is_use), MAX_USES))
    chains = list(islice(compress(chains, is_use), MAX_USES))
    lines, columns = positions.locate(list(islice(compress(name_starts, is_use), MAX_USES)))
    find_rank = collector.ranks.get
    return UseColumns(
        kind=[USE_KINDS[find_rank(end, 0)] for end in ends],
        name=list(map(_NAME, chains)),
        receiver=list(map(_RECEIVER, chains)),
        is_local=list(islice(compress(is_local, is_use), MAX_USES)),
        line=lines,
        column=columns,
        symbol=enclosing.innermost_of_all([end - 1 for end in ends]),
    )


def _drop_overlapping(is_use: list[bool], name_starts: Sequence[int]) -> None:
    """Drop names that overlap earlier names, which happens in code with syntax errors."""
    last_start = -1
    for number in compress(range(len(is_use)), is_use.copy()):
        is_use[number] = name_starts[number] > last_start
        last_start = max(last_start, name_starts[number])


def _add_quoted_types(collector: FactCollector, data: bytes) -> None:
    verbatim = Regions(collector.ranges("no_types"))
    for start, end in sorted(collector.ranges("quoted_type")):
        text = data[start : min(end, start + MAX_NAME)]
        if not verbatim.cover(start) and _QUOTED_TYPE.fullmatch(text):
            for match in _TYPE_NAME.finditer(text):
                collector.uses[start + match.end()] = start + match.start()
                collector.ranks[start + match.end()] = _TYPE_RANK


def _drop_declared(collector: FactCollector) -> None:
    """Drop the names of declarations, which are no uses."""
    uses = collector.uses
    for _, end in collector.ranges("definition"):
        uses.pop(end, None)
    for capture in ("variable", "type_parameter"):
        for start, end in collector.ranges(capture):
            if uses.get(end) == start:
                del uses[end]


def _merge(ranges: Iterable[Range]) -> Iterator[Range]:
    """Yield ranges in order; ranges that nest or overlap are merged."""
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
    """Return the ends that are outside of all ranges, in order."""
    remaining: list[int] = []
    position = 0
    for start, end in _merge(ranges):
        first = bisect_right(ends, start, position)
        remaining += ends[position:first]
        position = bisect_right(ends, end, first)
    return remaining + ends[position:] if remaining or position else ends


def _rank_types(ends: list[int], collector: FactCollector) -> None:
    """Give plain names inside of types the kind "type"."""
    ranks = collector.ranks
    position = 0
    for start, end in _merge(collector.ranges("types")):
        first = bisect_right(ends, start, position)
        position = bisect_right(ends, end, first)
        for name_end in ends[first:position]:
            ranks.setdefault(name_end, _TYPE_RANK)


def _valid_variables(collector: FactCollector, texts: RangeTexts) -> ValidVariables:
    variables = collector.ranges("variable") - collector.ranges("definition")
    imported = {item.local for item in collector.imports if not isinstance(item.local, str)}
    outer_names = _positions_of_names(collector.ranges("outer") | imported, texts)
    scopes = collector.ordered_scopes
    declare_variables(scopes, _positions_of_names(variables, texts), outer_names)
    type_parameters = _positions_of_names(collector.ranges("type_parameter"), texts)
    type_scopes = sort_scopes(collector.type_scopes.values()) if type_parameters else ()
    declare_variables(type_scopes, type_parameters, ())
    return ValidVariables([*scopes, *(scope for scope in type_scopes if scope.names)])


def _positions_of_names(ranges: Iterable[Range], texts: RangeTexts) -> list[tuple[int, str]]:
    ordered = sorted(ranges)
    return list(zip(map(_START, ordered), texts.read_all(ordered), strict=True))


# (name, receiver, variable at the start of the chain, offset of the name in bytes)
_Chain = tuple[str, str, str, int]
_NO_NAME: _Chain = ("", "", "", 0)
_START = itemgetter(0)  # the start of a range
_NAME, _RECEIVER, _VARIABLE, _OFFSET = map(itemgetter, range(4))


class _ChainSplitter:
    """Splits the chains of one file, with a cache: equal texts are split once."""

    def __init__(self, data: bytes, texts: RangeTexts, name_starts: Mapping[int, int]) -> None:
        """Prepare to split the chains of one file.

        `name_starts` maps ends of names to their starts, for names that are separate from their
        receivers.
        """
        self._data = data
        self._texts = texts
        self._name_starts = name_starts
        self._receiver_characters = 0
        # Keyed by text and offset of the name
        self._other_chains: dict[tuple[bytes, int], _Chain] = {}

    def split_all(self, starts: Sequence[int], ends: Sequence[int]) -> list[_Chain]:
        """Split the chains in some ranges.

        A chain without a name, or with a too long name, gives `_NO_NAME`.
        """
        texts = self._texts.read_short(zip(starts, ends, strict=True))
        # chains with calls are not plain, and too varied to be worth caching
        return [
            (text, "", text, 0)
            if text.isidentifier()
            else ("(" not in text and _split_names(text)) or self._split(start, end)
            for text, start, end in zip(texts, starts, ends, strict=True)
        ]

    def _split(self, start: int, end: int) -> _Chain:
        """Split a chain that is not plain."""
        text = self._data[start:end] if end - start <= MAX_TEXT else b""
        name_start = self._name_starts.get(end, WHOLE_CHAIN)
        key = text, name_start - start if name_start >= start else WHOLE_CHAIN
        chain = self._other_chains.get(key)
        if chain is None:
            chain = self._split_other(start, end, name_start)
            if text:
                self._other_chains[key] = chain
        name, receiver, _, offset = chain
        self._receiver_characters += len(receiver)
        if self._receiver_characters > MAX_RECEIVERS and receiver:
            return name, LONG_TEXT, "", offset
        return chain

    def _split_other(self, start: int, end: int, name_start: int) -> _Chain:
        # the receiver of a longer chain is too long in any case
        first = max(start, end - _CHAIN_BYTES)
        offset = name_start - first if name_start >= first else WHOLE_CHAIN
        offset, name, receiver = split_chain(self._data[first:end], offset)
        if not 0 < len(name) <= MAX_NAME:
            return _NO_NAME
        variable = first_name(receiver) if receiver else name
        return name, receiver, variable, first + offset - start


@lru_cache(REMEMBERED_TEXTS)
def _split_names(chain: str) -> _Chain | None:
    """Split a chain of plain names with dots; return None for any other chain."""
    receiver, _, name = chain.rpartition(".")
    if name.isidentifier() and receiver.replace(".", "_").isidentifier():
        return name, receiver, first_name(receiver), len(receiver.encode()) + 1
    return None
