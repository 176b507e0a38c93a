"""Makes files of the code graph in PostgreSQL, from what they define and use."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from cocosearchd.languages import name_hashes, symbol_table
from cocosearchd.languages.code_facts import CodeFacts, Use
from cocosearchd.languages.references import fact_table
from cocosearchd.model import PackedCode, Symbol
from cocosearchd.store.chunks.rows import FileWrite
from tests.store.support import file_write


def code_write(path: str, defined: Sequence[str], used: Sequence[str] = ()) -> FileWrite:
    """A file that defines functions, and calls others from outside of them."""
    symbols = [
        Symbol("function", name, name, f"def {name}()", None, 10 * n, 10 * n + 9, n + 1, n + 1)
        for n, name in enumerate(defined)
    ]
    uses = [Use("call", name, "", False, n + 1, 1, -1) for n, name in enumerate(used)]
    code = PackedCode(
        symbols=symbol_table.pack(symbols),
        facts=fact_table.pack(CodeFacts(uses=uses)),
        name_hashes=name_hashes.pack(defined, map(str.encode, used)),
    )
    content = repr((path, defined, used)).encode()
    return replace(
        file_write(path, "text"),
        code=code,
        content_hash=hashlib.blake2b(content, digest_size=16).digest(),
    )
