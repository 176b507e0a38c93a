"""An immutable table of the names and paths of all files of an index at one moment. Pure.

It has only hashes, with two bytes per use of a name, so finding the files of a name reads no facts.
A change makes a new table, which shares the blocks of unchanged files.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from cocosearchd.graph.code_files import NameFiles, NameGraph
from cocosearchd.graph.hash_files import MAX_TABLE_FILES, HashFiles, first_positions
from cocosearchd.graph.name_block import (
    MAX_HASHES,
    NameBlock,
    NameView,
    build_name_block,
    ending_key,
    merge_name_blocks,
    size_of_names,
)
from cocosearchd.languages.name_hashes import hash_name
from cocosearchd.store.file_facts import StoredNames

_HALF = np.uint64(32)
# Largest name graph that is cached with its table: some 3 million pairs of name and file.
_MAX_GRAPH_BYTES = 16 << 20
# Look-ups by path that are cached with a table, and paths of each: at most a megabyte.
_MAX_CACHED_KEYS, _MAX_CACHED_PATHS = 4_000, 8


class NameTable:
    """Blocks with distinct paths. Thread-safe."""

    def __init__(self, views: Sequence[NameView] = ()) -> None:
        self._views = tuple(views)
        self._graph: NameGraph | None = None
        # By the last parts of paths or by a directory: most modules that files import are external,
        # and thousands of files import the same ones
        self._paths_by_key: dict[str, Sequence[str]] = {}

    @property
    def file_count(self) -> int:
        """Number of files."""
        return sum(int(view.live.sum()) for view in self._views)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the arrays, without the paths."""
        return sum(view.block.nbytes + view.live.nbytes for view in self._views)

    def replace(self, paths: Iterable[str], files: Sequence[StoredNames]) -> "NameTable":
        """Return a table without the files at `paths`, and with `files`.

        The paths of `files` must be among `paths`, or not be in the table.
        """
        views = list(_remove_files(self._views, paths))
        views += [_all_live(build_name_block(part)) for part in split_files(files)]
        return NameTable(tuple(_merge(views)))

    def files_defining(self, name: str) -> list[str]:
        """Return the sorted paths of files that define a name with the same hash."""
        return self._find(hash_name(name), [view.block.definitions for view in self._views])

    def files_using(self, name: str) -> list[str]:
        """Return the sorted paths of files that use a name with the same hash."""
        return self._find(hash_name(name), [view.block.uses for view in self._views])

    def generation_of(self, path: str) -> int | None:
        """Return the generation of a file; None if it is not indexed."""
        entry = self._find_file(path)
        return None if entry is None else int(entry[0].generations[entry[1]])

    def defined_hashes(self, path: str) -> list[int] | None:
        """Return the hashes of the names that a file defines; None if it is not indexed."""
        entry = self._find_file(path)
        return None if entry is None else entry[0].definitions.hashes_of(entry[1]).tolist()

    def used_hashes(self, path: str) -> list[int]:
        """Return the hashes of the names that a file uses, imports or exports."""
        entry = self._find_file(path)
        return [] if entry is None else entry[0].uses.hashes_of(entry[1]).tolist()

    def _find_file(self, path: str) -> tuple[NameBlock, int] | None:
        """Return the block of a file and its number there; None if it is not indexed."""
        for view in self._views:
            number = view.block.position(path)
            if number is not None and view.live[number]:
                return view.block, number
        return None

    def changed_paths(self, generations: Mapping[str, int]) -> set[str]:
        """Return the paths of new, gone and changed files.

        A file has changed if `generations` has another generation for it.
        """
        present = dict[str, int]()
        for view in self._views:
            present.update(
                zip(view.live_paths(), view.block.generations[view.live].tolist(), strict=True)
            )
        return {path for path, _ in present.items() ^ generations.items()}

    def paths_ending(self, suffix: str) -> list[str]:
        """Return the paths that are `suffix` or end with "/" and `suffix`, sorted."""
        endings = self._find_by_path(ending_key(suffix))
        return [path for path in endings if path == suffix or path.endswith(f"/{suffix}")]

    def paths_in(self, directory: str) -> list[str]:
        """Return the paths of the files directly in a directory ("" is the root), sorted."""
        inside = self._find_by_path(f"{directory}/")
        return [path for path in inside if path.rpartition("/")[0] == directory]

    def paths(self) -> list[str]:
        """Return all paths, sorted."""
        return sorted(chain.from_iterable(view.live_paths() for view in self._views))

    def name_graph(self) -> NameGraph:
        """Return the names of all files as arrays. The result is cached unless it is large."""
        if self._graph is not None:
            return self._graph
        graph = _make_graph(self._views)
        if graph.uses.files.nbytes + graph.definitions.files.nbytes <= _MAX_GRAPH_BYTES:
            self._graph = graph
        return graph

    def _find_by_path(self, key: str) -> Sequence[str]:
        paths = self._paths_by_key.get(key)
        if paths is None:
            paths = self._find(hash_name(key), [view.block.endings for view in self._views])
            if len(paths) <= _MAX_CACHED_PATHS and len(self._paths_by_key) < _MAX_CACHED_KEYS:
                self._paths_by_key[key] = paths
        return paths

    def _find(self, hashed: int, tables: Sequence[HashFiles]) -> list[str]:
        paths = list[str]()
        for view, table in zip(self._views, tables, strict=True):
            numbers = table.find(hashed)
            paths += [view.block.paths[number] for number in numbers[view.live[numbers]].tolist()]
        return sorted(paths)


def split_files(files: Iterable[StoredNames]) -> Iterator[list[StoredNames]]:
    """Split files into parts that each fit into one block."""
    part = list[StoredNames]()
    size = 0
    for file in files:
        size += size_of_names(file)
        if part and (size > MAX_HASHES or len(part) == MAX_TABLE_FILES):
            yield part
            part = []
            size = size_of_names(file)
        part.append(file)
    if part:
        yield part


def _all_live(block: NameBlock) -> NameView:
    return NameView(block, np.ones(len(block.paths), np.bool_))


def _remove_files(views: Iterable[NameView], paths: Iterable[str]) -> Iterator[NameView]:
    """Yield the views without the files at `paths`."""
    removed = set(paths)
    for view in views:
        positions = [view.block.position(path) for path in removed]
        dead = [number for number in positions if number is not None]
        if not dead:
            yield view
            continue
        live = view.live.copy()
        live[dead] = False
        yield view._replace(live=live)


def _merge(views: list[NameView]) -> Iterator[NameView]:
    """Merge the last blocks while their sizes are similar, and rewrite blocks with many dead files.

    Therefore each file is moved only a few times, however many changes there are.
    """
    while len(views) > 1 and _fit_together(*views[-2:]):
        views[-2:] = [_all_live(merge_name_blocks(views[-2:]))]
    for view in views:
        live = int(view.live.sum())
        if live:
            is_hollow = 2 * live < len(view.live)
            yield _all_live(merge_name_blocks([view])) if is_hollow else view


def _fit_together(first: NameView, second: NameView) -> bool:
    sizes = [view.block.size for view in (first, second)]
    files = len(first.live) + len(second.live)
    return sizes[0] <= 2 * sizes[1] and sum(sizes) <= MAX_HASHES and files <= MAX_TABLE_FILES


def _make_graph(views: Sequence[NameView]) -> NameGraph:
    """Make the name graph: the live files of all blocks are numbered by path."""
    origins = sorted((path, part) for part, view in enumerate(views) for path in view.live_paths())
    parts = np.array([part for _, part in origins], np.int64)
    numbers = list[NDArray[np.int64]]()
    for part, view in enumerate(views):
        graph_numbers = np.full(len(view.live), -1, np.int64)
        graph_numbers[view.live] = np.flatnonzero(parts == part)
        numbers.append(graph_numbers)
    return NameGraph(
        paths=[path for path, _ in origins],
        definitions=_join_tables([view.block.definitions for view in views], numbers),
        uses=_join_tables([view.block.uses for view in views], numbers),
    )


def _join_tables(tables: Sequence[HashFiles], numbers: Sequence[NDArray[np.int64]]) -> NameFiles:
    """Join tables of several blocks with new file numbers; files with -1 are left out."""
    counts = [
        int((new[table.files] >= 0).sum()) for table, new in zip(tables, numbers, strict=True)
    ]
    pairs = np.empty(sum(counts), np.uint64)  # a hash in the high half, a file in the low half
    first = 0
    for table, new_numbers, count in zip(tables, numbers, counts, strict=True):
        targets = new_numbers[table.files]
        part = pairs[first : first + count]
        part[:] = np.repeat(table.hashes, np.diff(table.starts))[targets >= 0]
        part <<= _HALF
        part |= targets[targets >= 0].astype(np.uint32)
        first += count
    pairs.sort()
    files = pairs.astype(np.uint32)
    pairs >>= _HALF
    names = pairs.astype(np.uint32)
    firsts = first_positions(names)
    return NameFiles(
        names=names[firsts],
        starts=np.append(firsts, len(pairs)).astype(np.int64),
        files=files,
    )
