"""Pages, directories and filters of questions about the structure of code. Pure."""

import posixpath
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from cocosearchd.filters.filter_fields import Filter, PathAndLanguage, file_passes
from cocosearchd.graph.code_files import CodeFiles
from cocosearchd.graph.questions.target import Target
from cocosearchd.languages.detect import detect


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


def passing_paths(where: Filter, paths: Iterable[str]) -> list[str]:
    """Return the paths that pass a filter; languages are detected from names."""
    if where == Filter():
        return list(paths)
    return [path for path in paths if file_passes(where, PathAndLanguage(path, detect(path, b"")))]


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
