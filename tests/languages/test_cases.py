"""Golden cases: each file below `cases/source` gives the symbols, facts, blocks and chunks written in
`cases/expected`.

A new case is a file in `source`; `UPDATE_GOLDEN=1 pytest tests/languages/test_cases.py` writes what
is expected, for reading in the diff. An expected file without a source is a failure, so that none
is forgotten.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline.chunker import chunk_file
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.code_facts import NO_FACTS
from cocosearchd.languages.parse import Parsed, parse

CASES = Path(__file__).parent / "cases"
SOURCE = CASES / "source"
EXPECTED = CASES / "expected"
PATHS = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if path.is_file())


def rendered(parsed: Parsed) -> str:
    """Render everything that is derived from a file but its text, one line for each item."""
    report = parsed.report
    lines = [
        f"{parsed.language} {report.status} {report.error_count} {report.error_message}".rstrip()
    ]
    lines += ["", "symbols"] if parsed.symbols else []
    for symbol in parsed.symbols:
        line_range = f"{symbol.start_line}-{symbol.end_line}"
        lines.append(
            f"  {symbol.kind} {symbol.qualified_name} {line_range} in {symbol.parent or '-'} | {symbol.signature}"
        )
    lines += (
        ["", "facts", *(f"  {fact}" for fact in render_facts(parsed))]
        if parsed.facts != NO_FACTS
        else []
    )
    lines += ["", "blocks"] if parsed.blocks else []
    for block in parsed.blocks:
        first = parsed.data.count(b"\n", 0, block.start_byte) + 1
        last = parsed.data.count(b"\n", 0, block.end_byte - 1) + 1
        lines.append(f"  {block.block_type} {block.hierarchy} {first}-{last}")
    lines += ["", "chunks"]
    for chunk in chunk_file(parsed, chunker_limits(IndexingSettings())):
        lines.append(
            f"  {chunk.start_line}-{chunk.end_line} {chunk.end_byte - chunk.start_byte}B | {chunk.header}"
        )
        lines.append(
            f"    {chunk.symbol_type or '-'} {chunk.symbol_name or '-'} | {chunk.block_type} {chunk.hierarchy}".rstrip()
        )
    return "\n".join(lines) + "\n"


def render_facts(parsed: Parsed) -> Iterator[str]:
    """Render imports, uses and bindings, one line for each."""
    symbols = [*(symbol.qualified_name for symbol in parsed.symbols), "-"]
    if parsed.facts.package:
        yield f"package {parsed.facts.package}"
    for item in parsed.facts.imports:
        exported = " exported" if item.exported else ""
        yield f"import {item.module or '-'} {item.name or '-'} {item.local or '-'} {item.line}{exported}"
    for use in parsed.facts.uses:
        receiver = f" of {use.receiver}{' (local)' * use.is_local}" if use.receiver else ""
        yield f"{use.kind} {use.name}{receiver} {use.line}:{use.column} in {symbols[use.symbol]}"
    for binding in parsed.facts.bindings:
        owner = symbols[binding.symbol]
        lines = f", lines {binding.first_line}-{binding.last_line}" if binding.last_line else ""
        yield f"binding {binding.kind} {binding.name or '-'} = {binding.text} in {owner}{lines}"


@pytest.mark.parametrize("path", PATHS)
def test_case(path: str) -> None:
    got = rendered(parse(path, (SOURCE / path).read_bytes()))
    golden = EXPECTED / f"{path}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(got, "utf-8")
    assert golden.read_text("utf-8") == got


def test_no_expected_file_is_left_over() -> None:
    leftovers = {
        path.relative_to(EXPECTED).as_posix().removesuffix(".txt")
        for path in EXPECTED.rglob("*.txt")
    }
    assert leftovers == set(PATHS)
