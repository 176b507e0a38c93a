"""Finds the indexes of a joined corpus that have files with a name. Pure.

A report mentions many names, and few of a hundred indexes have files of these names.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from cocosearchd.search.lexical.ranking_signals import file_stem

_PACKAGE_STEM = "__init__"


class PartNames:
    """The names of the files of each index, as keys to the numbers of indexes, ascending."""

    def __init__(self, paths_by_part: Iterable[Sequence[str]]) -> None:
        # dictionaries in place of sets keep the order
        by_stem = defaultdict[str, dict[int, None]](dict)
        by_module = defaultdict[tuple[str, str], dict[int, None]](dict)
        for part, paths in enumerate(paths_by_part):
            for path in paths:
                stem = file_stem(path)
                by_stem[stem][part] = None
                above, directory, _ = ("", "", *path.split("/"))[-3:]
                by_module[directory, stem][part] = None
                if stem == _PACKAGE_STEM:
                    by_module[above, directory][part] = None
        self._by_stem = {stem: tuple(parts) for stem, parts in by_stem.items()}
        self._by_module = {module: tuple(parts) for module, parts in by_module.items()}

    def with_stem(self, stem: str) -> Sequence[int]:
        """Return the indexes that have a file with a name without suffix, in lower case."""
        return self._by_stem.get(stem, ())

    def with_module(self, directory: str, name: str) -> Sequence[int]:
        """Return the indexes that have a file `directory/name`, or `directory/name/__init__`.

        An index may be returned that has no such file.
        """
        return self._by_module.get((directory, name), ())
