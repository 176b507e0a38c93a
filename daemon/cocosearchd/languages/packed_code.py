"""Packs the stored code of a file: definitions, facts and hashes of names. Pure."""

from collections.abc import Sequence

from cocosearchd.languages import definition_ranges, name_hashes, symbol_table
from cocosearchd.languages.references import fact_table
from cocosearchd.model import PackedCode, Symbol


def pack_code(symbols: Sequence[Symbol], facts: bytes) -> PackedCode:
    """Pack the symbols of a file, together with its already packed facts."""
    return PackedCode(
        scopes=definition_ranges.pack(symbols),
        symbols=symbol_table.pack(symbols),
        facts=facts,
        name_hashes=name_hashes.pack(
            (symbol.name for symbol in symbols), fact_table.encoded_names(facts)
        ),
    )
