"""Immutable blocks of a name table: some files with their names and paths. Pure."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cocosearchd.graph.hash_files import (
    HASH_TYPE,
    MAX_TABLE_FILES,
    HashFiles,
    build_hash_files,
    merge_hash_files,
)
from cocosearchd.languages.name_hashes import hash_name, split
from cocosearchd.store.file_facts import StoredNames

# Hashes per block: building or merging takes some 30 bytes per hash, 60 MB in total.
MAX_HASHES = 2_000_000

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NameBlock:
    """F files, sorted by path. `endings` finds files by parts of their paths: see `path_keys`."""

    paths: Sequence[str]
    generations: NDArray[np.int64]  # (F,)
    definitions: HashFiles
    uses: HashFiles
    endings: HashFiles

    @property
    def size(self) -> int:
        """The number of names and files: the cost of a merge."""
        return len(self.paths) + len(self.definitions.files) + len(self.uses.files)

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes, without the paths."""
        tables = (self.definitions, self.uses, self.endings)
        return self.generations.nbytes + sum(table.nbytes for table in tables)

    def position(self, path: str) -> int | None:
        """Return the number of a file; None if the block does not have it."""
        number = bisect_left(self.paths, path)
        is_there = number < len(self.paths) and self.paths[number] == path
        return number if is_there else None


class NameView(NamedTuple):
    """A block with the mask of its live files."""

    block: NameBlock
    live: Mask  # (F,)

    def live_paths(self) -> Iterator[str]:
        """Yield the paths of the live files, in order."""
        return (self.block.paths[number] for number in np.flatnonzero(self.live).tolist())


def size_of_names(file: StoredNames) -> int:
    """Return how much a file adds to the size of a block: about the number of its names."""
    return 1 + len(file.name_hashes) // HASH_TYPE.itemsize


def path_keys(path: str) -> list[str]:
    """Return the lookup keys of a path.

    These are its last part, its last two parts, and its directory with a final "/".
    """
    directory, _, name = path.rpartition("/")
    parent = directory.rpartition("/")[2]
    return [name, f"{directory}/", *([f"{parent}/{name}"] if parent else ())]


def ending_key(suffix: str) -> str:
    """Return the lookup key for paths with a suffix: the last two parts of the suffix."""
    return "/".join(suffix.rsplit("/", 2)[-2:])


def build_name_block(files: Sequence[StoredNames]) -> NameBlock:
    """Build a block of at most `MAX_TABLE_FILES` files.

    Names that are not packed in the format of `name_hashes` are left out.
    """
    assert len(files) <= MAX_TABLE_FILES, "numbers of files have 16 bits"
    ordered = sorted(files)
    names = [_split(file.name_hashes) for file in ordered]
    return NameBlock(
        paths=[file.path for file in ordered],
        generations=np.array([file.generation for file in ordered], np.int64),
        definitions=build_hash_files([defined for defined, _ in names]),
        uses=build_hash_files([used for _, used in names]),
        endings=build_hash_files([_pack_keys(file.path) for file in ordered]),
    )


def _split(packed: bytes) -> tuple[bytes, bytes]:
    try:
        return split(packed)
    except ValueError:
        return b"", b""


def _pack_keys(path: str) -> bytes:
    return np.array([hash_name(key) for key in path_keys(path)], HASH_TYPE).tobytes()


def merge_name_blocks(views: Sequence[NameView]) -> NameBlock:
    """Merge the live files of blocks. Their paths must be distinct."""
    origins = sorted((path, part) for part, view in enumerate(views) for path in view.live_paths())
    parts = np.array([part for _, part in origins], np.int64)
    numbers = list[NDArray[np.int64]]()
    generations = np.zeros(len(origins), np.int64)
    for part, view in enumerate(views):
        new_numbers = np.full(len(view.live), -1, np.int64)
        new_numbers[view.live] = np.flatnonzero(parts == part)
        generations[parts == part] = view.block.generations[view.live]
        numbers.append(new_numbers)
    blocks = [view.block for view in views]
    return NameBlock(
        paths=[path for path, _ in origins],
        generations=generations,
        definitions=merge_hash_files(
            zip([block.definitions for block in blocks], numbers, strict=True)
        ),
        uses=merge_hash_files(zip([block.uses for block in blocks], numbers, strict=True)),
        endings=merge_hash_files(zip([block.endings for block in blocks], numbers, strict=True)),
    )
