"""Unsaved text in the code graph: as the file would be stored."""

import numpy as np

from cocosearchd.api.graph.unsaved_code import unsaved_files
from cocosearchd.languages import name_hashes
from cocosearchd.languages.name_hashes import hash_name
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import parse
from cocosearchd.languages.references import fact_table
from cocosearchd.search.answers.disk_files import make_contents
from cocosearchd.search.overlay import OverlayFile, make_overlay

TEXT = b"from net import Client\n\n\ndef load():\n    return Client().get()\n"


def test_an_overlay_gives_symbols_facts_and_names() -> None:
    parsed = parse("a.py", TEXT, language="python")
    file = OverlayFile(
        path="a.py",
        text=make_contents(TEXT),
        language="python",
        chunks=(),
        vectors=np.zeros((0, 4), np.float32),
        code=pack_code(parsed.symbols, fact_table.pack(parsed.facts)),
        symbols=parsed.symbols,
    )
    (unsaved,) = unsaved_files(make_overlay([file]))
    assert (unsaved.file.path, unsaved.file.language) == ("a.py", "python")
    assert [symbol.name for symbol in unsaved.file.symbols] == ["load"]
    assert [item.name for item in unsaved.file.facts.imports] == ["Client"]
    assert {use.name for use in unsaved.file.facts.uses} == {"Client", "get"}
    defined, used = name_hashes.split(unsaved.name_hashes)
    assert defined == hash_name("load").to_bytes(4, "little")
    assert hash_name("get").to_bytes(4, "little") in used


def test_no_overlay_gives_no_files() -> None:
    assert unsaved_files(None) == ()
