"""Finds definitions by qualified or unqualified name; overloads count as one definition. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from cocosearchd.graph.code_files import CodeFile, CodeFiles, DefinitionKey
from cocosearchd.graph.questions.target import split_name
from cocosearchd.languages.patterns.path_roles import DIRECTORY_STEMS, is_test
from cocosearchd.model import Symbol

# Files with a name that are read for one target: so many take about a second.
MAX_LOOKUP_FILES = 2000
# If at most so many files have a name, all are read. Otherwise files with its qualifier are read
# first; the others are read only if those have no definition.
_FEW_FILES = 64
_BATCH = 256
# `main` is a part of a written name: `main.run` means a function of `main.py`.
_UNWRITTEN_STEMS = DIRECTORY_STEMS - {"main"}
# Languages in which one file may declare what another file defines.
_DECLARING = frozenset({"c", "cpp", "objective_c", "cuda"})


class NamedDefinition(NamedTuple):
    """A definition with its overloads and declarations. `symbol` is the first of them."""

    path: str
    symbol: Symbol
    keys: tuple[DefinitionKey, ...]

    @property
    def location(self) -> str:
        """Path and line, in the form of a target."""
        return f"{self.path}:{self.symbol.start_line}"


@dataclass(frozen=True, slots=True)
class NamedDefinitions:
    """The definitions that a name means: code before tests, then by path.

    `similar` definitions have the last part of the name, but other qualifiers. `complete` is False
    if more files have the name than are read.
    """

    matches: tuple[NamedDefinition, ...]
    similar: tuple[NamedDefinition, ...]
    complete: bool = True


class _Match(NamedTuple):
    """A symbol with the last part of a name.

    `is_direct` means that the qualifiers match without gaps between them.
    """

    file: CodeFile
    position: int
    is_qualified: bool
    is_direct: bool


def find_named(files: CodeFiles, parts: Sequence[str]) -> NamedDefinitions:
    """Find the definitions of a qualified name.

    Leading underscores may be missing in its parts. Qualifiers are enclosing definitions, then
    parts of the path or of the package.
    """
    *qualifiers, name = parts or [""]
    similar: tuple[NamedDefinition, ...] = ()
    complete = True
    for spelling in _spellings(name):
        near_paths, other_paths = _split_paths(files, spelling, qualifiers)
        matches = list[_Match]()
        for paths in (near_paths, other_paths):
            complete = complete and len(paths) <= MAX_LOOKUP_FILES
            matches += _find_symbols(files, paths[:MAX_LOOKUP_FILES], spelling, qualifiers)
            if best_matches := _select_best(matches):
                return NamedDefinitions(_group(best_matches), similar, complete)
        similar = similar or _group(matches)
    return NamedDefinitions((), similar, complete)


def _spellings(name: str) -> tuple[str, ...]:
    # `operator()` is an operator of C++, or the call of a function with this name
    called = (name.removesuffix("()"),) if name.endswith("()") else ()
    return name, f"_{name}", f"__{name}", *called


def _select_best(matches: Sequence[_Match]) -> Sequence[_Match]:
    """Return the matches with all qualifiers; if some have no gaps between them, only these."""
    qualified_matches = [match for match in matches if match.is_qualified]
    return [match for match in qualified_matches if match.is_direct] or qualified_matches


def _split_paths(
    files: CodeFiles, name: str, qualifiers: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Split the files that define a name: files with the last qualifier, and the others.

    A file has a qualifier if it defines or uses the qualifier, or if the qualifier is a part of its
    path. A name such as `__init__` is in most files, and the split avoids reading most of them. If
    there are few files, they are not split.
    """
    paths = files.files_defining(name)
    if not qualifiers or len(paths) <= _FEW_FILES:
        return paths, ()
    owner = _strip_underscores(qualifiers[-1])
    mentions = _mentioning_paths(files, owner)
    near_paths = [path for path in paths if path in mentions or owner in _plain_parts(path)]
    near = frozenset(near_paths)
    return near_paths, [path for path in paths if path not in near]


def _mentioning_paths(files: CodeFiles, name: str) -> set[str]:
    """Return the files that define or use a name, with or without leading underscores."""
    return {
        path
        for spelling in _spellings(name)
        for paths in (files.files_defining(spelling), files.files_using(spelling))
        for path in paths
    }


def _plain_parts(path: str) -> list[str]:
    return [_strip_underscores(part) for part in (*path.split("/"), _stem(path))]


def _find_symbols(
    files: CodeFiles, paths: Sequence[str], name: str, qualifiers: Sequence[str]
) -> Iterator[_Match]:
    remaining = iter(paths)
    while batch := list(islice(remaining, _BATCH)):
        for file in files.load(batch).values():
            for position, symbol in enumerate(file.symbols):
                if symbol.name == name or symbol.qualified_name == name:
                    yield _Match(file, position, *_compare(file, symbol, qualifiers))


def _compare(file: CodeFile, symbol: Symbol, qualifiers: Sequence[str]) -> tuple[bool, bool]:
    """Return whether a symbol has all qualifiers of a name, and whether it has them without gaps."""
    if not qualifiers:
        return True, True
    written = [_strip_underscores(part) for part in qualifiers]
    enclosing = [_strip_underscores(part) for part in split_name(symbol.qualified_name)[:-1]]
    homes = (_module_parts(file.path), split_name(file.facts.package))
    complete_names = [[*map(_strip_underscores, home), *enclosing] for home in homes]
    is_direct = any(parts[-len(written) :] == written for parts in complete_names)
    return is_direct or any(_is_subsequence(written, parts) for parts in complete_names), is_direct


def _is_subsequence(written: Sequence[str], parts: Iterable[str]) -> bool:
    remaining = iter(parts)
    return all(part in remaining for part in written)


def _strip_underscores(part: str) -> str:
    return part.lstrip("_") or part


def _module_parts(path: str) -> list[str]:
    directories = path.split("/")[:-1]
    stem = _stem(path)
    return directories if stem in _UNWRITTEN_STEMS else [*directories, stem]


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _group(matches: Sequence[_Match]) -> tuple[NamedDefinition, ...]:
    """Group overloads (symbols of one file with one name), and declarations with their definition."""
    groups = dict[tuple[str, str], list[_Match]]()
    for match in matches:
        symbol = match.file.symbols[match.position]
        groups.setdefault((match.file.path, symbol.qualified_name), []).append(match)
    definitions = [_make_definition(group) for group in _join_declarations(groups)]
    return tuple(sorted(definitions, key=lambda item: (is_test(item.path), item.path, item.keys)))


def _join_declarations(
    groups: dict[tuple[str, str], list[_Match]],
) -> list[list[_Match]]:
    """Add declarations of C and related languages to the only definition with their name."""
    by_name = dict[str, list[list[_Match]]]()
    for (_, name), group in groups.items():
        by_name.setdefault(name, []).append(group)
    joined = list[list[_Match]]()
    for same_name in by_name.values():
        bodies = [group for group in same_name if not _is_declaration(group)]
        if len(bodies) == 1 and bodies[0][0].file.language in _DECLARING:
            rest = [match for group in same_name if group is not bodies[0] for match in group]
            joined.append([*bodies[0], *rest])
        else:
            joined += same_name
    return joined


def _is_declaration(group: Sequence[_Match]) -> bool:
    return all(
        (
            match.file.language in _DECLARING
            and match.file.symbols[match.position].signature.endswith(";")
        )
        or match.file.symbols[match.position].kind == "prototype"
        for match in group
    )


def _make_definition(group: Sequence[_Match]) -> NamedDefinition:
    first = group[0]
    return NamedDefinition(
        first.file.path,
        first.file.symbols[first.position],
        tuple(DefinitionKey(match.file.path, match.position) for match in group),
    )
