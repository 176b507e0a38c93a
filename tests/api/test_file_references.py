"""References to files, as people, editors and assistants write them."""

from typing import cast

from cocosearchd.api import file_references
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.running_index import RunningIndex


class OneIndex(IndexLookup):
    """A lookup of one index, whichever is asked for."""

    async def select(self, name: str | None, cwd: str | None) -> RunningIndex:
        return cast(RunningIndex, None)


async def test_unsaved_text_belongs_to_a_file_as_rows_name_it() -> None:
    for name, row in [
        ("./src/a.py", "src/a.py"),
        ("caf\udce9.py", "caf\\xe9.py"),
        ("café.py", "café.py"),
    ]:
        assert (await file_references.unsaved_file(OneIndex({}), name, None, None))[1] == row
