"""The user's symbol queries: `<language>.scm` files of one directory. A file that cannot be used
costs only itself.
"""

from dataclasses import dataclass
from pathlib import Path

from cocosearchd.config.settings_files import stamp
from cocosearchd.errors import BadSettings
from cocosearchd.languages.symbols import QueryOverrides, check_overrides


@dataclass(frozen=True, slots=True)
class SymbolQueryFiles:
    """Queries that compile, by language; `said` is a sentence for each file that was left out."""

    queries: QueryOverrides = ()
    warnings: tuple[str, ...] = ()


def stamp_query_files(directory: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Changes whenever a query may have. Blocking."""
    return tuple((file.name, stamp(file)) for file in _files(directory))


def read_overrides(directory: str) -> SymbolQueryFiles:
    """The queries in a directory; none without one. Blocking."""
    queries, said = list[tuple[str, str]](), list[str]()
    for file in _files(directory):
        try:
            queries += check_overrides([(file.stem, file.read_text("utf-8"))])
        except BadSettings as error:
            said.append(f"{file} is not used: {error.message}")
        except (OSError, UnicodeDecodeError) as error:
            said.append(f"{file} is not used: it cannot be read ({type(error).__name__})")
    if directory and not Path(directory).expanduser().is_dir():
        said.append(f"indexing.queries_dir {directory} is no directory")
    return SymbolQueryFiles(tuple(queries), tuple(said))


def _files(directory: str) -> list[Path]:
    return sorted(Path(directory).expanduser().glob("*.scm")) if directory else []
