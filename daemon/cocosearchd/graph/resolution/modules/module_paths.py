"""Joins, normalises and compares paths of modules as strings, for all languages. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from cocosearchd.graph.code_files import CodeFiles


def directory_of(path: str) -> str:
    """Return the directory of a path; "" is the root. For "a/b/", it is "a/b"."""
    return path.rpartition("/")[0]


def join(directory: str, path: str) -> str | None:
    """Join paths, with "." and ".." resolved; None if the result is outside of the root."""
    parts = directory.split("/") if directory else []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def first_indexed(files: CodeFiles, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the first indexed path, as a tuple; empty without one."""
    return next(((path,) for path in paths if files.has_path(path)), ())


def nearest(paths: Sequence[str], path: str) -> tuple[str, ...]:
    """Return the paths that share the most leading directories with `path`."""
    directories = path.split("/")[:-1]
    shared = [_shared_directories(candidate, directories) for candidate in paths]
    most = max(shared, default=0)
    return tuple(p for p, count in zip(paths, shared, strict=True) if count == most)


def _shared_directories(path: str, directories: Sequence[str]) -> int:
    pairs = zip(path.split("/")[:-1], directories, strict=False)
    count = 0
    for first_part, second_part in pairs:
        if first_part != second_part:
            break
        count += 1
    return count


def directories_above(path: str) -> Iterator[str]:
    """Yield the directories that contain a path, innermost first; the last one is ""."""
    directory = directory_of(path)
    while directory:
        yield directory
        directory = directory_of(directory)
    yield ""


def files_with_suffix(files: CodeFiles, directory: str, suffix: str) -> tuple[str, ...]:
    """Return the files directly in a directory whose names end with a suffix."""
    return tuple(path for path in files.paths_in(directory) if path.endswith(suffix))


def nearest_file(files: CodeFiles, path: str, name: str) -> str | None:
    """Return the nearest directory above a path that has a file called `name`; None without one."""
    for directory in directories_above(path):
        if files.has_path(f"{directory}/{name}" if directory else name):
            return directory
    return None


def tails(parts: Sequence[str]) -> Iterator[str]:
    """Yield the non-empty ends of a path, longest first."""
    for start in range(len(parts)):
        yield "/".join(parts[start:])
