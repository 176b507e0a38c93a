"""Files without known symbols do not end a list: the files after them are listed."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cocosearchd.filters.filter_fields import Filter
from cocosearchd.languages import symbol_table
from cocosearchd.search.listing import symbol_list
from cocosearchd.search.listing.symbol_list import SymbolPage, read_symbols
from cocosearchd.store.reads.file_symbols import FileSymbols, SymbolFile
from tests.graph.memory_files import symbol

LIMIT = 11
UNKNOWN = 40


@pytest.mark.anyio
async def test_a_page_of_files_with_unknown_symbols_does_not_end_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = symbol_table.pack([symbol("f", (1, 2))])

    async def file_symbols(
        _: object, __: object, paths: Sequence[str]
    ) -> Mapping[str, FileSymbols]:
        return {
            path: FileSymbols(1, "python", None if path < f"{UNKNOWN:03}" else packed)
            for path in paths
        }

    monkeypatch.setattr(symbol_list, "file_symbols", file_symbols)
    page = SymbolPage(Filter(symbol_types=("function",)), None, LIMIT)
    stored = [SymbolFile(f"{number:03}.py", True, False) for number in range(200)]
    database: Any = None
    listed = await read_symbols(database, database, page, stored[: page.max_files])
    assert [row.path for row in listed.candidates] == [
        f"{number:03}.py" for number in range(UNKNOWN, UNKNOWN + LIMIT)
    ]
    assert listed.unknown == UNKNOWN
