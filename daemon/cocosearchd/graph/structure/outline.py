"""Makes outlines: the definitions of a file, or of the files of a directory. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cocosearchd.graph.code_files import CodeFile
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import Symbol

LINE_TOKENS = 5  # tokens of a line number and blanks, in addition to the signature
# Kinds of symbols that are parts of others and have no code of their own.
OMITTED_KINDS = frozenset({"parameter", "variable", "import"})


@dataclass(frozen=True, slots=True)
class OutlineSymbol:
    """A definition in an outline. `depth` counts the definitions around it."""

    symbol: Symbol
    depth: int


@dataclass(frozen=True, slots=True)
class OutlineFile:
    """A file with the definitions that fit; `omitted` counts the others."""

    path: str
    language: str
    symbols: tuple[OutlineSymbol, ...]
    omitted: int


@dataclass(frozen=True, slots=True)
class Outline:
    """The files of an outline. `omitted_files` counts the files that did not fit."""

    files: tuple[OutlineFile, ...]
    omitted_files: int


def nested_symbols(file: CodeFile) -> list[OutlineSymbol]:
    """Return the definitions of a file in text order, each with its depth."""
    ends = list[int]()  # end bytes of the enclosing definitions
    nested = list[OutlineSymbol]()
    for symbol in sorted(file.symbols, key=lambda item: (item.start_byte, -item.end_byte)):
        while ends and ends[-1] <= symbol.start_byte:
            ends.pop()
        nested.append(OutlineSymbol(symbol, len(ends)))
        ends.append(symbol.end_byte)
    return nested


def outline_files(
    paths: Sequence[str], files: Mapping[str, CodeFile], max_depth: int, budget: int
) -> Outline:
    """Outline files within a token budget.

    Paths have the first priority, then the outermost definitions of all files in turn, then inner
    definitions. `paths` are in the order of the outline; it has at least one path.
    """
    fitting_paths, budget = _fitting_paths(paths, budget)
    nested = {path: nested_symbols(files[path]) for path in fitting_paths if path in files}
    chosen = dict[str, set[int]]()
    for path, position in _by_depth(nested, max_depth):
        cost = estimate_tokens(nested[path][position].symbol.signature) + LINE_TOKENS
        if cost <= budget:
            budget -= cost
            chosen.setdefault(path, set()).add(position)
    outlined = tuple(
        OutlineFile(
            path,
            files[path].language if path in files else "",
            tuple(nested[path][position] for position in sorted(chosen.get(path, ()))),
            len(nested.get(path, ())) - len(chosen.get(path, ())),
        )
        for path in fitting_paths
    )
    return Outline(outlined, len(paths) - len(fitting_paths))


def _fitting_paths(paths: Sequence[str], budget: int) -> tuple[list[str], int]:
    """Return the paths that fit (at least one), and the rest of the budget."""
    fitting = list[str]()
    for path in paths:
        budget -= estimate_tokens(path) + LINE_TOKENS
        if budget < 0 and fitting:
            return fitting, 0
        fitting.append(path)
    return fitting, max(0, budget)


def _by_depth(
    nested: Mapping[str, Sequence[OutlineSymbol]], max_depth: int
) -> Iterator[tuple[str, int]]:
    """Yield definitions by depth, outermost first; within a depth, files take turns."""
    for depth in range(max_depth):
        levels = {
            path: iter(_positions(symbols, depth)) for path, symbols in nested.items() if symbols
        }
        while levels:
            for path, positions in list(levels.items()):
                position = next(positions, None)
                if position is None:
                    del levels[path]
                else:
                    yield path, position


def _positions(symbols: Iterable[OutlineSymbol], depth: int) -> list[int]:
    return [
        position
        for position, item in enumerate(symbols)
        if item.depth == depth and item.symbol.kind not in OMITTED_KINDS
    ]
