"""Names of definitions that are similar to an unknown name, for the hint of an error."""

import difflib

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.languages import symbol_table
from cocosearchd.languages.identifiers import fold_name, split_parts
from cocosearchd.model import IndexRecord
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_symbols import file_symbols, symbol_files

MAX_SIMILAR_FILES = 50  # files that are read for each part of a name
MAX_PARTS = 4
MIN_PART = 3  # characters; shorter parts are in too many names
MAX_NAMES = 3
CUTOFF = 0.6  # the default of `difflib`


async def find_nearest_names(db: Database, record: IndexRecord, name: str) -> list[str]:
    """Return the most similar names, best first, each with its location.

    Only names that share a part or the first characters are compared. Raises `StoreUnavailable`.
    """
    locations = dict[str, str]()
    parts = [part for part in split_parts(name) if len(part) >= MIN_PART and part.isalnum()]
    globs = [f"*{part}*" for part in parts[:MAX_PARTS]]
    start = name.lstrip("_")[:MIN_PART]
    globs += [f"{start}*"] if start.isalnum() else []
    for glob in globs:
        locations |= await _find_locations(db, record, glob)
    folded = {fold_name(candidate): candidate for candidate in locations}
    matches = difflib.get_close_matches(fold_name(name), folded, MAX_NAMES, CUTOFF)
    return [f"{folded[match]} ({locations[folded[match]]})" for match in matches]


async def _find_locations(db: Database, record: IndexRecord, glob: str) -> dict[str, str]:
    """Return the names in the files that match a glob best, each with the location of a definition."""
    files = await symbol_files(db, record, Filter(symbol_name=glob), "", MAX_SIMILAR_FILES)
    stored = await file_symbols(db, record, [file.path for file in files])
    return {
        symbol.name: f"{path}:{symbol.start_line}"
        for path, file in stored.items()
        for symbol in symbol_table.unpack(file.symbols or b"") or ()
    }
