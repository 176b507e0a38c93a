"""Packed tables of symbols: read as packed; other bytes are refused."""

import json
import re
import zlib
from importlib import resources
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.languages import symbol_table
from cocosearchd.languages.parse import parse
from cocosearchd.languages.symbols import KINDS
from cocosearchd.model import Symbol

texts = st.text(max_size=20)
numbers = st.integers(0, 1 << 40)
symbols = st.builds(
    Symbol,
    kind=texts,
    name=texts,
    qualified_name=texts,
    signature=texts,
    parent=st.none() | texts,
    start_byte=numbers,
    end_byte=numbers,
    start_line=numbers,
    end_line=numbers,
)


@given(st.lists(symbols, max_size=5))
def test_a_table_is_read_as_it_was_packed(rows: list[Symbol]) -> None:
    assert symbol_table.unpack(symbol_table.pack(rows)) == tuple(rows)


def test_a_file_without_symbols_takes_no_bytes() -> None:
    assert symbol_table.pack(()) == b""
    assert symbol_table.unpack(b"") == ()


def test_the_first_symbols_of_a_generated_file_are_packed() -> None:
    name = "n" * 1000
    row = Symbol("function", name, name, "", None, 0, 1, 1, 1)
    packed = symbol_table.pack([row] * 10_000)
    unpacked = symbol_table.unpack(packed)
    assert unpacked is not None
    assert 1500 < len(unpacked) < 2000
    assert len(packed) < 100_000


small_numbers = st.integers(1, 12)
ranges = st.tuples(small_numbers, small_numbers, small_numbers, small_numbers)


@given(st.lists(ranges, max_size=12), st.lists(small_numbers, max_size=12))
def test_the_innermost_definition_is_the_smallest_of_several_lines(
    rows: list[tuple[int, int, int, int]], lines: list[int]
) -> None:
    definitions = [
        Symbol(
            "class", f"c{number}", f"c{number}", "", None, first, first + size, line, line + more
        )
        for number, (first, size, line, more) in enumerate(rows)
    ]
    definitions.append(Symbol("constant", "X", "X", "", None, 0, 1, 6, 6))
    innermost = symbol_table.PackedSymbols(symbol_table.pack(definitions)).innermost(lines)
    for line in lines:
        sizes = [
            symbol.end_byte - symbol.start_byte
            for symbol in definitions
            if symbol.start_line <= line <= symbol.end_line != symbol.start_line
        ]
        symbol = innermost.get(line)
        assert (symbol is None) == (not sizes)
        if symbol is not None:
            assert symbol in definitions
            assert symbol.start_line <= line <= symbol.end_line
            assert symbol.end_byte - symbol.start_byte == min(sizes)


def test_bytes_that_are_no_table_have_no_innermost_definition() -> None:
    for packed in (b"", b"x", zlib.compress(b"[1]"), zlib.compress(b"a,1,2,3,4]")):
        assert symbol_table.PackedSymbols(packed).innermost([1, 3]) == {}


ROW = ["function", "f", "f", "def f()", None, 0, 9, 1, 2]


@pytest.mark.parametrize(
    "packed",
    [
        b"x",
        zlib.compress(json.dumps(ROW).encode())[:-2],
        zlib.compress(b"[]"),
        zlib.compress(b"nothing"),
        zlib.compress(b"7"),
        zlib.compress(b""),
        zlib.compress(json.dumps([ROW]).encode()),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b"\xff"),
        zlib.compress(b" " * (symbol_table.MAX_TABLE + 1)),
        *(
            zlib.compress(json.dumps([*ROW[:n], {}, *ROW[n + 1 :]]).encode())
            for n in range(len(ROW))
        ),
    ],
)
def test_bytes_of_anything_else_are_no_table(packed: bytes) -> None:
    assert symbol_table.unpack(packed) is None


def test_every_kind_of_a_query_can_be_asked_for() -> None:
    queries = [
        file.read_text("utf-8")
        for file in (resources.files("cocosearchd.languages") / "queries").iterdir()
        if file.name.endswith(".scm")
    ]
    captured = set(re.findall(r"@(?:definition|clause)\.(\w+)", "\n".join(queries)))
    assert len(captured) > 20
    assert captured - {"block"} <= KINDS  # the kind of a block of HCL is its first word


def test_kinds_of_terraform_can_be_asked_for() -> None:
    text = "\n".join(
        f'{kind} "a" "b" {{}}' for kind in ("resource", "data", "variable", "output", "module")
    )
    assert {symbol.kind for symbol in parse("main.tf", text.encode()).symbols} <= KINDS


def test_definitions_around_a_line_are_read_alone_the_innermost_first() -> None:
    rows = [
        Symbol("class", "A", "A", "class A", None, 0, 90, 1, 9),
        Symbol("method", "f", "A.f", "def f()", "A", 10, 20, 2, 3),
        Symbol("method", "g", "A.g", "def g()", "A", 30, 80, 5, 8),
        Symbol("function", "h", "A.g.h", "def h()", "A.g", 40, 50, 6, 6),
        Symbol("function", "k", "k", "def k()", None, 91, 99, 10, 10),
    ]
    table = symbol_table.PackedSymbols(symbol_table.pack(rows))
    around = {line: [symbol.name for symbol in table.around(line)] for line in range(12)}
    assert around == {
        0: [],
        1: ["A"],
        2: ["f", "A"],
        3: ["f", "A"],
        4: ["A"],
        5: ["g", "A"],
        6: ["h", "g", "A"],
        7: ["g", "A"],
        8: ["g", "A"],
        9: ["A"],
        10: ["k"],
        11: [],
    }


@given(st.lists(symbols, max_size=8), numbers, numbers)
def test_definitions_that_begin_on_lines_are_those_of_the_whole_table(
    rows: list[Symbol], first: int, last: int
) -> None:
    lines = range(first, last)
    ordered = sorted(rows, key=lambda symbol: symbol.start_line)
    expected = tuple(symbol for symbol in ordered if first <= symbol.start_line < last)
    table = symbol_table.PackedSymbols(symbol_table.pack(ordered))
    assert table.beginning_in(lines) == expected


@given(st.lists(symbols, max_size=8), numbers)
def test_definitions_around_a_line_are_those_of_the_whole_table(
    rows: list[Symbol], line: int
) -> None:
    ordered = sorted(rows, key=lambda symbol: symbol.start_line)
    expected = [symbol for symbol in ordered if symbol.start_line <= line <= symbol.end_line]
    packed = symbol_table.pack(ordered)
    assert symbol_table.PackedSymbols(packed).around(line) == tuple(reversed(expected))


@pytest.mark.parametrize("packed", [b"x", zlib.compress(b"nothing"), zlib.compress(b"a,1,1]")])
def test_bytes_of_anything_else_have_no_definitions_around_a_line(packed: bytes) -> None:
    assert symbol_table.PackedSymbols(packed).around(1) == ()
    assert symbol_table.PackedSymbols(packed).beginning_in(range(1, 9)) == ()


def test_a_definition_is_found_by_name_behind_thousands_whose_names_contain_it() -> None:
    count = symbol_table.MAX_SKIPPED + 500
    owners = [Symbol("class", "get", "get", '"get"', None, 0, 1, 1, 1)]
    longer = [
        Symbol("method", f"get_{n}", f"get.get_{n}", '"get"', "get", n, n + 1, n, n)
        for n in range(2, count)
    ]
    definition = Symbol("function", "get", "get", "def get()", None, count, count + 1, count, count)
    table = symbol_table.PackedSymbols(symbol_table.pack([*owners, *longer, definition]))
    assert table.named("get") == (*owners, definition)


def test_a_member_is_found_behind_thousands_of_its_name() -> None:
    rows = [
        Symbol("method", "run", f"Job{n}.run", "def run()", f"Job{n}", n, n + 1, n, n)
        for n in range(1, symbol_table.MAX_SKIPPED + 500)
    ]
    table = symbol_table.PackedSymbols(symbol_table.pack(rows))
    assert table.named("run", "Job1400") == (rows[1399],)
    assert table.named("run") == tuple(rows[: symbol_table.MAX_SKIPPED])
    assert table.named("run", "Job") == tuple(rows[: symbol_table.MAX_SKIPPED])


@given(st.lists(symbols, max_size=8), texts)
def test_definitions_with_a_name_are_those_of_the_whole_table(
    rows: list[Symbol], name: str
) -> None:
    definition = Symbol("function", name, name, "", None, 0, 1, 1, 1)
    packed = symbol_table.pack([*rows, definition])
    expected = tuple(symbol for symbol in (*rows, definition) if symbol.name == name)
    assert symbol_table.PackedSymbols(packed).named(name) == expected


SPANS = st.tuples(st.integers(0, 40), st.integers(1, 40), st.integers(1, 12), st.integers(0, 12))


@given(st.lists(SPANS, max_size=12), st.sets(st.integers(0, 26)))
def test_the_smallest_definition_around_each_line_is_found(
    spans: list[tuple[int, int, int, int]], lines: set[int]
) -> None:
    symbols = sorted(
        (
            Symbol(
                "function",
                'f[1],"',
                f"C.f{number}",
                "",
                "C",
                start,
                start + size,
                line,
                line + more,
            )
            for number, (start, size, line, more) in enumerate(spans)
        ),
        key=lambda symbol: symbol.start_line,
    )
    innermost = symbol_table.PackedSymbols(symbol_table.pack(symbols)).innermost(lines)
    for line in lines:
        around = [
            symbol
            for symbol in symbols
            if symbol.start_line <= line <= symbol.end_line > symbol.start_line
        ]
        sizes = [symbol.end_byte - symbol.start_byte for symbol in around]
        assert (line in innermost) is bool(around)
        if around:
            assert innermost[line] in around
            assert innermost[line].end_byte - innermost[line].start_byte == min(sizes)


def test_thousands_of_lines_and_definitions_cost_little() -> None:
    symbols = [
        Symbol("function", "f", f"f{n}", "", None, 10 * n, 10 * n + 9, 2 * n + 1, 2 * n + 2)
        for n in range(20_000)
    ]
    packed = symbol_table.pack(symbols)
    began = process_time()
    innermost = symbol_table.PackedSymbols(packed).innermost(range(1, 40_001))
    assert process_time() - began < 2.0
    assert innermost[39_999].start_line == innermost[40_000].start_line == 39_999


def test_other_bytes_have_no_definition_around_a_line() -> None:
    assert (
        symbol_table.PackedSymbols(b"").innermost([1])
        == symbol_table.PackedSymbols(b"nonsense").innermost([1])
        == {}
    )
