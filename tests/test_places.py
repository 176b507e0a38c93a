"""Files as people, editors and assistants name them."""

from typing import cast

from cocosearchd import places
from cocosearchd.lookup import Lookup
from cocosearchd.tuning import RunningIndex


class OfOne(Lookup):
    """A lookup of one index, whichever is asked for."""

    async def one(self, name: str | None, cwd: str | None) -> RunningIndex:
        return cast(RunningIndex, None)


async def test_unsaved_text_belongs_to_a_file_as_rows_name_it() -> None:
    for named, row in [("./src/a.py", "src/a.py"), ("caf\udce9.py", "caf\\xe9.py"), ("café.py", "café.py")]:
        assert (await places.unsaved(OfOne(), named, None, None))[1] == row
