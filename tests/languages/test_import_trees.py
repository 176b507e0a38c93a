"""Trees of imports, and macros inside of declarations of C++."""

import time

import pytest

from cocosearchd.languages.parse import parse
from cocosearchd.languages.patterns.declaration_macros import blank_declaration_macros
from cocosearchd.languages.references.import_trees import (
    MAX_DEPTH,
    last_part,
    split_import_tree,
)

TREES = {
    "std::{io, fs::{self, File as F}, path::*}": [
        ("std", "io", "io"),
        ("std", "fs", "fs"),
        ("std::fs", "File", "F"),
        ("std::path", "*", ""),
    ],
    "super::X as _": [("super", "X", "")],
    "serde": [("serde", "", "serde")],
    "a::{\n  b, // c\n  /* d, */ e,\n}": [("a", "b", "b"), ("a", "e", "e")],
    "import c.d.E": [("c.d", "E", "E")],
    "import f.g.*": [("f.g", "*", "")],
    "import h.{i, j => k, _}": [("h", "i", "i"), ("h", "j", "k"), ("h", "*", "")],
    "import a.b.C, d.E": [("a.b", "C", "C"), ("d", "E", "E")],
    "use function H\\i;": [("H", "i", "i")],
    "use J\\{K, L as M};": [("J", "K", "K"), ("J", "L", "M")],
    "use": [],
    "{,};": [],
}


@pytest.mark.parametrize("text", TREES)
def test_trees_are_split(text: str) -> None:
    assert [path[:3] for path in split_import_tree(text)] == TREES[text]


def test_offsets_are_those_of_the_names() -> None:
    text = "import a.{bc, d => ef}"
    assert [text[path.offset :][: len(path.name)] for path in split_import_tree(text)] == [
        "bc",
        "d",
    ]


def test_deep_trees_end() -> None:
    assert list(split_import_tree("a::{" * (MAX_DEPTH + 1) + "b" + "}" * (MAX_DEPTH + 1))) == []
    inner = list(split_import_tree("a::{" * (MAX_DEPTH - 1) + "b" + "}" * (MAX_DEPTH - 1)))
    assert inner[0].module == "::".join("a" * (MAX_DEPTH - 1))


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("fmt", "fmt"),
        ("github.com/go-chi/chi/v5", "chi"),
        ("gopkg.in/yaml.v3", "yaml"),
        ("github.com/a/go-b-c", "b_c"),
        ("v2", "v2"),
        ("", ""),
    ],
)
def test_packages_of_go_have_the_last_part_of_their_path(module: str, name: str) -> None:
    assert last_part(module) == name


MACROS = {
    b"class SHOP_EXPORT Store {": b"class             Store {",
    b"struct API(1) Store final : Base {": b"struct        Store final : Base {",
    b"int n GUARDED_BY(mu);": b"int n               ;",
    b"void f() ABSL_EXCLUSIVE_LOCKS_REQUIRED(a, b) {": b"void f()                                     {",
    b"class Store {": b"class Store {",
    b"class STORE {": b"class STORE {",
    b"return REQUIRES(x) + 1;": b"return REQUIRES(x) + 1;",
}


@pytest.mark.parametrize("text", MACROS)
def test_macros_of_declarations_are_blank(text: bytes) -> None:
    blanked = blank_declaration_macros("cpp", text)
    assert len(blanked) == len(text)
    assert blanked == MACROS[text]
    assert blank_declaration_macros("java", text) == text


def test_classes_behind_macros_are_symbols() -> None:
    text = b"class SHOP_EXPORT Store {\n public:\n  int Get(int key);\n};\n"
    names = [symbol.qualified_name for symbol in parse("store.h", text).symbols]
    assert names == ["Store", "Store.Get"]


@pytest.mark.parametrize(
    "text", [b"class A_EXPORT " * 60_000, b"x GUARDED_BY(\n" * 60_000, b"class AA" + b"A" * 10**6]
)
def test_blanking_takes_linear_time(text: bytes) -> None:
    start = time.process_time()
    blank_declaration_macros("cpp", text)
    assert time.process_time() - start < 5  # 0.1 on an idle machine; the square takes minutes


HOSTILE = {
    "tokens.rs": b"fn f() { m!(\n" + b"a.b.c(d).e::f,\n" * 12_000 + b"); }\n",
    "trees.rs": b"use a::{\n" + b"b::{c, d as e},\n" * 20_000 + b"};\n",
    "chain.rs": b"fn f() { x\n" + b".m()\n" * 20_000 + b"; }\n",
    "lists.go": b"package p\nfunc f() {\n" + b"a, b := c(), d()\n" * 15_000 + b"}\n",
    "literals.go": b"package p\nvar x = T{\n" + b"a: {b: c},\n" * 15_000 + b"}\n",
    "Types.java": b"class A {\n" + b"java.util.Map<B, List<C>> d = new E<>();\n" * 6_000 + b"}\n",
    "paths.cpp": b"int x = a" + b"::b" * 3_000 + b";\n",
    "definitions.cpp": b"R A<B>::C::d(E& f) const { return g.h; }\n" * 6_000,
    "chain.cs": b"class A { object x = a\n" + b".B(c)\n" * 15_000 + b"; }\n",
    "names.rb": b"A::B::C.new.d\n" * 10_000,
    "group.php": b"<?php use A\\{\n" + b"B as C,\n" * 20_000 + b"D};\n",
    "chain.kt": b"val x = a\n" + b"  .b { it.c }\n" * 6_000,
    "chain.swift": b"let x = a\n" + b"  .b { $0.c }\n" * 4_000,
    "infix.scala": b"object A { val x = a " + b"b c " * 3_000 + b"}\n",
    "commands.sh": b'foo "$(bar $x)" | baz\n' * 10_000,
    "addresses.tf": b"a = [\n" + b"var.x.y[0].z,\n" * 10_000 + b"]\n",
}


@pytest.mark.parametrize("path", HOSTILE)
def test_hostile_files_take_bounded_time(path: str) -> None:
    start = time.process_time()
    parse(path, HOSTILE[path])
    # a tenth of this on an idle machine; work in the square of the size would take minutes
    assert time.process_time() - start < 20
