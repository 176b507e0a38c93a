"""Directories and filters of questions about the structure of code. Pure."""

import posixpath
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.graph.code_files import CodeFiles
from cocosearchd.graph.questions.target import Target
from cocosearchd.languages.detect import detect
from cocosearchd.search.code.file_masks import passing_files
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot
from cocosearchd.search.overlay import Overlay


class FileLanguages:
    """The languages of the files of an index, as indexed or as unsaved.

    Content may decide: a script is known by its first line, a header of C++ by its classes. Without
    a snapshot, and for files of blanks, the name decides.
    """

    def __init__(
        self, snapshot: IndexSnapshot | None = None, overlay: Overlay | None = None
    ) -> None:
        self._snapshot = snapshot
        self._overlay = overlay

    def find(self, path: str) -> str:
        """Return the language id of a file, "" for none."""
        language = self._by_path.get(path)
        return detect(path, b"") if language is None else language

    @cached_property
    def _by_path(self) -> Mapping[str, str]:
        languages = dict[str, str]()
        if self._snapshot is not None:
            live = self._snapshot.live_documents
            languages |= zip(live.paths, live.languages, strict=True)
        if self._overlay is not None:
            languages |= {path: file.language for path, file in self._overlay.files.items()}
        return languages


def find_directory(files: CodeFiles, target: Target) -> str | None:
    """Return the directory that a target names, "" for the root; None if no file is below it."""
    paths = files.paths()
    return next(
        (path for path in _directories(target) if not path or _paths_below(paths, path)), None
    )


def paths_below(files: CodeFiles, directory: str) -> Sequence[str]:
    """Return the paths of the files below a directory, sorted."""
    return _paths_below(files.paths(), directory)


def is_selected(path: str, target: Target) -> bool:
    """Return True for a file that a target names, or that is below a directory of that name."""
    return any(
        not directory or path == directory or path.startswith(f"{directory}/")
        for directory in _directories(target)
    )


def passing_paths(where: Filter, paths: Iterable[str], languages: FileLanguages) -> list[str]:
    """Return the paths that pass a filter."""
    listed = list(paths)
    if where == Filter():
        return listed
    ids = list(map(languages.find, listed)) if where.languages else [""] * len(listed)
    passing = passing_files(where, listed, ids).tolist()
    return [path for path, passes in zip(listed, passing, strict=True) if passes]


def _directories(target: Target) -> list[str]:
    """Return the directories that a target may name, "" for the root."""
    normal = [posixpath.normpath(path.strip("/")) for path in target.paths]
    return ["" if path == "." else path for path in normal]


def _paths_below(paths: Sequence[str], directory: str) -> Sequence[str]:
    if not directory:
        return paths
    # "0" follows "/" in ASCII: paths that begin with the directory and "/" lie between these two
    first = bisect_left(paths, f"{directory}/")
    return paths[first : bisect_left(paths, f"{directory}0")]
