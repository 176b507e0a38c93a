"""A digest of the installed code: a worker that starts later must run the same code.

Results of a worker with other code would differ.
"""

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("numpy", "tree_sitter", "tree_sitter_language_pack")  # beside our own


@cache
def installed_code_digest() -> str:
    """Return a digest of the sizes and times of our files and of `_PACKAGES`, loaded or not.

    It takes about 3 ms, once in a process: the code at the start of the process counts.
    """
    package_folder = Path(__file__).parents[1]
    specs = (find_spec(name) for name in _PACKAGES)
    origins = [spec.origin for spec in specs if spec is not None and spec.origin]
    lines = sorted(
        [*_lines(os.fspath(package_folder)), *(_line(file, Path(file).stat()) for file in origins)]
    )
    digest = hashlib.blake2b(sys.version.encode(), digest_size=16)
    digest.update("".join(lines).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _lines(folder: str) -> Iterator[str]:
    """Describe each file below a folder, with `DirEntry`: `Path` would take most of the time."""
    for entry in os.scandir(folder):
        if not entry.is_dir():
            with contextlib.suppress(FileNotFoundError):
                yield _line(entry.path, entry.stat())
        elif entry.name != "__pycache__":
            yield from _lines(entry.path)


def _line(file: str, status: os.stat_result) -> str:
    return f"{file} {status.st_size} {status.st_mtime_ns}\n"
