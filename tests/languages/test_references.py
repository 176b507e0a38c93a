"""Code facts of hostile and random files: bounded time, exact positions, packed and unpacked."""

import time
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.errors import BadSettings
from cocosearchd.graph.code_files_view import unpack_file
from cocosearchd.languages.code_facts import (
    NO_FACTS,
    TOP_LEVEL,
    Binding,
    CodeFacts,
    Import,
    Use,
)
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import Parsed, parse
from cocosearchd.languages.references import fact_extraction, fact_table, use_extraction
from cocosearchd.languages.references.chain_text import LONG_TEXT, MAX_TEXT
from cocosearchd.languages.symbols import check_overrides
from cocosearchd.store.file_facts import StoredCode

SOURCE = Path(__file__).parent / "cases" / "source"
FILES = {
    path.relative_to(SOURCE).as_posix(): path.read_bytes()
    for path in SOURCE.rglob("*")
    if path.is_file()
}
WITH_FACTS = sorted(path for path, data in FILES.items() if parse(path, data).facts != NO_FACTS)


def check(parsed: Parsed) -> None:
    """Check the invariants of the facts of every file."""
    facts = parsed.facts
    lines = [line.decode("utf-8", "replace") for line in parsed.data.split(b"\n")]
    for use in facts.uses:
        assert lines[use.line - 1].startswith(use.name, use.column - 1), use
        assert len(use.receiver) <= MAX_TEXT
    places = [(use.line, use.column) for use in facts.uses]
    assert all(first < second for first, second in pairwise(places))
    owners = [use.symbol for use in facts.uses] + [item.symbol for item in facts.bindings]
    assert all(-1 <= owner < len(parsed.symbols) for owner in owners)
    for use in facts.uses:
        if use.symbol >= 0:
            symbol = parsed.symbols[use.symbol]
            assert symbol.start_line <= use.line <= symbol.end_line
    assert all(1 <= item.line <= len(lines) for item in facts.imports)
    assert fact_table.unpack(fact_table.pack(facts), len(parsed.symbols)) == facts


@pytest.mark.parametrize("path", WITH_FACTS)
def test_positions_are_those_of_the_names(path: str) -> None:
    parsed = parse(path, FILES[path])
    assert parsed.facts.uses
    check(parsed)
    windows = parse(path, FILES[path].replace(b"\n", b"\r\n"))
    assert windows.facts.uses == parsed.facts.uses


@settings(deadline=None)  # a large file on a busy machine
@given(st.sampled_from(WITH_FACTS), st.integers(0, 3000), st.integers(0, 60), st.binary(max_size=9))
def test_broken_files_have_facts(path: str, start: int, length: int, middle: bytes) -> None:
    data = FILES[path]
    check(parse(path, data[:start] + middle + data[start + length :]))


def test_names_of_broken_code_begin_at_different_bytes() -> None:
    """A parser that recovers reads `fn` as a name, and `fn push` as one."""
    data = b"enum A { Closed { reason: String },/ Adds.\n fn push(&mut self, item: T);\n"
    parsed = parse("a.rs", data)
    assert parsed.facts.uses
    check(parsed)


HOSTILE_PYTHON = {
    "nested calls": b"f(" * 900 + b")" * 900 + b"\n",
    "deep calls": b"x = " + b"f(\n" * 60_000 + b")" * 60_000,
    "a chain": b"x = (a\n" + b".bb\n" * 50_000 + b")",
    "chained calls": b"x = (a\n" + b".b()\n" * 40_000 + b")",
    "a sum": b"x = (a\n" + b"+ b\n" * 50_000 + b")",
    "a list": b"x = [\n" + b"a, b,\n" * 40_000 + b"]",
    "arguments": b"f(\n" + b"a=b, c=d,\n" * 20_000 + b")",
    "imports": b"from a import (\n" + b"b as c,\n" * 25_000 + b")",
    "targets": b"def f():\n " + b"a, " * 5_000 + b"= b\n" + b" x = y\n" * 20_000,
    "functions": b"".join(b"%sdef f%d(a):\n" % (b" " * n, n) for n in range(600))
    + b" " * 601
    + b"a",
    "lambdas": b"x = " + b"lambda a: " * 1_000 + b"a\n",
    "comprehensions": b"x = [a for a in b]\n" * 10_000,
    "types": b"x: " + b"A[" * 500 + b"B" + b"]" * 500 + b"\n" + b"y: 'A | B'\n" * 10_000,
    "classes": b"".join(b"%sclass C%d(A):\n" % (b" " * n, n) for n in range(600))
    + b" " * 601
    + b"x",
    "accents": ("x = [" + "é.a, " * 3000 + "]\n").encode() * 10,
    "parts": b"# comment\n" * 20_000 + b"def f(a):\n    return b(a.c)\n" * 9_000,
}


HOSTILE_TYPESCRIPT = {
    "nested arrows": b"x = " + b"a => \n" * 20_000 + b"a",
    "nested blocks": b"{\n" * 30_000 + b"a" + b"}" * 30_000,
    "chained calls": b"x = a\n" + b".b(c => c)\n" * 20_000,
    "nested types": b"type A = " + b"B<\n" * 900 + b"C" + b">" * 900,
    "type parameters": b"function f<\n" + b"A,\n" * 40_000 + b">() {}",
    "exports": b"export {\n" + b"a as b,\n" * 20_000 + b"}",
    "destructuring": b"const {\n" + b"a: b,\n" * 20_000 + b"} = require('c')",
    "elements": b"x = <a>\n" + b"<B c={d}/>\n" * 10_000 + b"</a>",
    "assignments": b"module.exports = {\n" + b"a, b: c,\n" * 20_000 + b"}",
}
HOSTILE = [
    *((name, "a.py", data) for name, data in HOSTILE_PYTHON.items()),
    *((name, "a.tsx", data) for name, data in HOSTILE_TYPESCRIPT.items()),
]
NO_QUERIES = (("python.references", "; replace"), ("typescript.references", "; replace"))


@pytest.mark.parametrize(("name", "path", "data"), HOSTILE)
def test_hostile_files_take_bounded_time(name: str, path: str, data: bytes) -> None:
    without = time.process_time()
    bare = parse(path, data, NO_QUERIES)
    start = time.process_time()
    parsed = parse(path, data)
    end = time.process_time()
    assert bare.facts == NO_FACTS
    # a tenth of this on an idle machine; work in the square of the size would take minutes
    assert end - start < 2 * (start - without) + 6
    check(parsed)


def test_a_generated_file_has_its_first_uses() -> None:
    parsed = parse("a.py", b"f(a.b)\n" * 30_000)
    assert len(parsed.facts.uses) == use_extraction.MAX_USES
    assert parsed.facts.uses[-1].line == -(-use_extraction.MAX_USES // 3)
    assert fact_table.unpack(fact_table.pack(parsed.facts)) == parsed.facts


def test_parts_of_a_large_file_are_read_once() -> None:
    text = b"def f(a):\n    b(a.c)\n    x = D()\n"
    count = 9_000
    facts = parse(
        "a.py", b"from a import (b,\n" + b" c,\n" * 50_000 + b" d)\n" + text * count
    ).facts
    assert [(use.name, use.receiver) for use in facts.uses] == [
        ("b", ""),
        ("c", "a"),
        ("D", ""),
    ] * count
    assert len(facts.bindings) == count
    assert len(facts.imports) == fact_extraction.MAX_IMPORTS


def test_a_long_receiver_is_no_name() -> None:
    facts = parse("a.py", b"f(" + b"a, " * 300 + b").run()").facts
    assert [(use.kind, use.receiver) for use in facts.uses if use.name == "run"] == [
        ("call", LONG_TEXT)
    ]


def test_arguments_of_generics_are_uses_and_type_parameters_are_not() -> None:
    text = b"def f[T](x: list[P], y: T) -> type[P]: ...\ntype A[K] = dict[K, V]\n"
    names = [use.name for use in parse("a.py", text).facts.uses]
    assert names == ["list", "P", "type", "P", "dict", "V"]


def test_overrides_extend_and_replace() -> None:
    data = b"import os\nprint(f())\n"
    more = check_overrides([("python.references", "((comment) @name)")])
    assert len(parse("a.py", data, more).facts.uses) == 2
    only = check_overrides(
        [("python.references", "; replace\n(call function: (identifier) @call)")]
    )
    facts = parse("a.py", data, only).facts
    assert [(use.kind, use.name) for use in facts.uses] == [("call", "print"), ("call", "f")]
    assert facts.imports == ()
    assert [symbol.name for symbol in parse("a.py", b"def f(): pass", only).symbols] == ["f"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("python.references", "(no_such_node) @name", "no_such_node"),
        ("python.references", "(identifier) @scope", "captures no use"),
        ("pyton.references", "(identifier) @name", "no language 'pyton'"),
    ],
)
def test_a_bad_override_is_one_clear_error(name: str, text: str, message: str) -> None:
    with pytest.raises(BadSettings) as caught:
        check_overrides([(name, text)])
    assert message in str(caught.value)


texts = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=9)
numbers = st.integers(1, 1 << 20)
owners = st.integers(-1, 9)
uses = st.builds(
    Use,
    kind=st.sampled_from(["call", "type", "inherit", "name"]),
    name=texts,
    receiver=texts,
    is_local=st.booleans(),
    line=numbers,
    column=numbers,
    symbol=owners,
)
imports = st.builds(Import, texts, texts, texts, numbers, st.booleans())
bindings = st.builds(
    Binding,
    st.sampled_from(["type", "call", "value", "element", "return"]),
    *(texts, texts, owners, numbers, numbers),
)
facts_of_a_file = st.builds(
    CodeFacts,
    package=texts,
    imports=st.lists(imports, max_size=5).map(
        lambda rows: tuple(sorted(rows, key=lambda row: row.line))
    ),
    uses=st.lists(uses, max_size=5).map(lambda rows: tuple(sorted(rows, key=lambda row: row.line))),
    bindings=st.lists(bindings, max_size=5).map(tuple),
)


@given(facts_of_a_file)
def test_facts_are_read_as_they_were_packed(facts: CodeFacts) -> None:
    packed = fact_table.pack(facts)
    assert fact_table.unpack(packed) == facts
    exported = {item.local for item in facts.imports if item.exported}
    names = {use.name for use in facts.uses} | {item.name for item in facts.imports} | exported
    assert names - {"", "*"} <= fact_table.names(packed)


def test_no_facts_are_no_bytes() -> None:
    assert fact_table.pack(NO_FACTS) == b""
    assert fact_table.unpack(b"") == NO_FACTS
    assert fact_table.names(b"") == frozenset()


@pytest.mark.parametrize(
    ("module", "parts"),
    [
        ("flask.app", {"flask", "app"}),
        ("os", {"os"}),
        ("..x", {"x"}),
        ("./a/b.js", {"a", "b"}),
        ("../lib/index.ts", {"lib"}),
        ("stdio.h", {"stdio"}),
        ("crate::x::y", {"x", "y"}),
        ("@scope/my-package/sub", {"my-package", "sub"}),
    ],
)
def test_parts_of_modules_are_names(module: str, parts: set[str]) -> None:
    packed = fact_table.pack(CodeFacts(imports=(Import(module, "", "", 1),)))
    assert fact_table.names(packed) == parts


GOLDEN = fact_table.pack(parse("references/shop.py", FILES["references/shop.py"]).facts)


@given(st.integers(0, len(zlib.decompress(GOLDEN)) - 1), st.integers(0, 255))
def test_changed_bytes_are_other_facts_or_none(position: int, value: int) -> None:
    table = bytearray(zlib.decompress(GOLDEN))
    table[position] = value
    facts = fact_table.unpack(zlib.compress(bytes(table)), 9)
    assert facts is None or replace(facts, package="")
    assert isinstance(fact_table.names(zlib.compress(bytes(table))), frozenset)


@pytest.mark.parametrize(
    "packed",
    [
        b"x",
        GOLDEN[:-3],
        zlib.compress(b""),
        zlib.compress(zlib.decompress(GOLDEN) + b"\0"),
        zlib.compress(zlib.decompress(GOLDEN)[:-1]),
        zlib.compress(b"\xff" * 400),
        zlib.compress(bytes(fact_table.MAX_TABLE + 1)),
    ],
)
def test_other_bytes_are_no_facts(packed: bytes) -> None:
    assert fact_table.unpack(packed) is None


def test_facts_of_missing_definitions_are_those_of_the_file() -> None:
    parsed = parse("references/shop.py", FILES["references/shop.py"])
    last = len(parsed.symbols) - 1
    assert fact_table.unpack(GOLDEN, last + 1) == parsed.facts
    facts = fact_table.unpack(GOLDEN, last)
    assert facts is not None
    assert facts.imports == parsed.facts.imports
    for unpacked, written in (
        (facts.uses, parsed.facts.uses),
        (facts.bindings, parsed.facts.bindings),
    ):
        assert [fact.name for fact in unpacked] == [fact.name for fact in written]
        expected = [TOP_LEVEL if fact.symbol == last else fact.symbol for fact in written]
        assert [fact.symbol for fact in unpacked] == expected


def test_a_file_whose_definitions_do_not_all_fit_keeps_its_uses() -> None:
    name = "C" * 390
    methods = "".join(f"    def m{number}(self): g()\n" for number in range(6000))
    parsed = parse("a.py", f"class {name}:\n{methods}def last(): pass\nlast()\n".encode())
    code = pack_code(parsed.symbols, fact_table.pack_columns(parsed.fact_columns))
    file = unpack_file(StoredCode("a.py", 1, "python", code.symbols or b"", code.facts or b""))
    assert len(file.symbols) < len(parsed.symbols)
    assert len(file.facts.uses) == len(parsed.facts.uses) == 6001


def test_java_names_outside_of_expressions_are_uses() -> None:
    source = b"""
interface Limits { int LARGEST = SMALLEST; }
class Reader {
    void read(Object object) throws Exception {
        try (shared) { total = COUNT; }
        if (object instanceof Point(int left, var right)) { open(left); }
        @org.junit.Rule int rule;
    }
}
"""
    uses = {use.name for use in parse("Reader.java", source).facts.uses}
    assert {"LARGEST", "SMALLEST", "shared", "total", "COUNT", "Point", "org"} <= uses
    assert uses.isdisjoint({"Reader", "read", "object", "rule"})
    module = parse("module-info.java", b"module a.b { requires c.d; exports e; uses f.G; }")
    assert {use.name for use in module.facts.uses} >= {"a", "b", "c", "d", "e", "f", "G"}
