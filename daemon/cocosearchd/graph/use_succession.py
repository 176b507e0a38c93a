"""Decides whether resolved uses stay valid when some files change."""

from collections.abc import Collection, Mapping
from itertools import chain
from typing import NamedTuple

from cocosearchd.graph.code_files_view import unpack_file
from cocosearchd.graph.name_table import NameTable
from cocosearchd.graph.resolution.modules.javascript_modules import is_package_manifest
from cocosearchd.graph.use_cache import OutdatedFiles, UseCache
from cocosearchd.graph.visible_code import see_same_code
from cocosearchd.store.file_facts import StoredCode


class TableChange(NamedTuple):
    """A name table, the next one, and the files that differ."""

    earlier: NameTable
    later: NameTable
    paths: Collection[str]


def find_successor(
    uses: UseCache,
    change: TableChange,
    earlier_rows: Mapping[str, StoredCode],
    later_rows: Mapping[str, StoredCode],
) -> UseCache | None:
    """Return a cache for the later table with the uses that are still valid; None without any.

    The rows are those of changed files that questions have read, as far as they are known. A file
    that no question has read can change meanings only by the names by which it is found.
    """
    earlier, later, paths = change
    if not all(_is_found_alike(path, earlier, later) for path in paths):
        return None
    for path, row in later_rows.items():
        earlier_row = earlier_rows.get(path)
        if earlier_row is None or row.generation != later.generation_of(path):
            return None
        if not see_same_code(unpack_file(earlier_row), unpack_file(row)):
            return None
    unread = [path for path in paths if path not in later_rows]
    names = frozenset(chain.from_iterable(map(later.used_hashes, unread)))
    return uses.succeed(OutdatedFiles(later_rows.keys(), unread, names))


def _is_found_alike(path: str, earlier: NameTable, later: NameTable) -> bool:
    """Return True if uses in other files lead to a file by the same names in both tables.

    These are the names that it defines. The name of a package is one that its manifest uses.
    """
    defined = earlier.defined_hashes(path)
    if defined is None or defined != later.defined_hashes(path):
        return False
    return not is_package_manifest(path) or earlier.used_hashes(path) == later.used_hashes(path)
