"""The user's queries of symbols and references: `.scm` files of a directory; invalid ones are skipped."""

from dataclasses import dataclass
from pathlib import Path

from cocosearchd.config.settings_files import stamp
from cocosearchd.errors import BadSettings
from cocosearchd.languages.symbols import QueryOverrides, check_overrides
from cocosearchd.runtime.files.home_paths import expand_home


@dataclass(frozen=True, slots=True)
class SymbolQueryFiles:
    """Queries that compile, by language. `warnings` has a sentence for each skipped file."""

    queries: QueryOverrides = ()
    warnings: tuple[str, ...] = ()


def stamp_query_files(directory: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return names and stamps of the query files; the stamps differ after any change. Blocking."""
    return tuple((file.name, stamp(file)) for file in _files(directory))


def read_overrides(directory: str) -> SymbolQueryFiles:
    """Read the queries of a directory. An empty name has none. Blocking."""
    queries = list[tuple[str, str]]()
    warnings = list[str]()
    for file in _files(directory):
        try:
            queries += check_overrides([(file.stem, file.read_text("utf-8"))])
        except BadSettings as error:
            warnings.append(f"{file} is not used: {error.message}")
        except (OSError, UnicodeDecodeError) as error:
            warnings.append(f"{file} is not used: it cannot be read ({type(error).__name__})")
    if directory and not _is_directory(expand_home(directory)):
        warnings.append(f"indexing.queries_dir {directory} is not a directory")
    return SymbolQueryFiles(tuple(queries), tuple(warnings))


def _files(directory: str) -> list[Path]:
    path = expand_home(directory)
    return sorted(path.glob("*.scm")) if directory and _is_directory(path) else []


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # its name is too long, say
        return False
