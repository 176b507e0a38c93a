"""Definitions by regular expressions, language by language."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.languages.patterns.definitions import KEYWORDS, find_definitions


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("python", "class User(Base):\n    async def save(self):\n        pass\n", {"User": 3.0, "save": 2.0}),
        ("python", "class A:\n    class B:\n        def c(self): ...\n", {"A": 3.0, "B": 3.0, "c": 1.5}),
        ("go", "func (m *Mux) Handle(p string) {}\ntype Mux struct {\n}\n", {"Handle": 2.0, "Mux": 1.0}),
        ("rust", "pub(crate) const fn new() -> Self {}\npub struct Wheel<T> {}\n", {"new": 2.0, "Wheel": 3.0}),
        ("kotlin", "data class Point(val x: Int)\nfun <T> lift(t: T) = t\n", {"Point": 3.0, "lift": 2.0}),
        ("ruby", "module Rack\n  def self.build(app)\n", {"Rack": 3.0, "build": 2.0}),
        ("haskell", "module Data.Key where\nfromText :: Text -> Key\n", {"Data.Key": 3.0, "Key": 3.0, "fromText": 2.0}),
        ("zig", "const Server = struct {\n};\nconst max = 5;\n", {"Server": 3.0, "max": 1.0}),
        ("typescript", "export const run = async (x: number) => x\nconst n = 1\n", {"run": 2.0, "n": 1.0}),
        ("lua", "function M.setup(opts)\nend\n", {"M.setup": 2.0, "setup": 2.0}),
        ("lua", "M.reload = function()\nend\n", {"M.reload": 2.0, "reload": 2.0}),
        ("c", "static int zslInsert(zsl *l, double s) {\n  if (x) {\n  }\n}\nstruct node *p;\n", {"zslInsert": 2.0}),
        ("java", "public final class Cache {\n    public int size() {\n", {"Cache": 3.0, "size": 2.0}),
        ("bash", "nvm_echo() {\n", {"nvm_echo": 2.0}),
        ("fortran", "subroutine solve(a)\n", {"solve": 2.0}),
        ("pascal", "procedure TForm.Draw;\n", {"TForm.Draw": 2.0, "Draw": 2.0}),
        ("solidity", "abstract contract Token is Base {\n", {"Token": 3.0}),
        ("vhdl", "entity counter is\n", {"counter": 3.0}),
        ("go", "entity counter is\nsubroutine solve\n", {}),
    ],
)  # fmt: skip
def test_definitions(language: str, text: str, expected: dict[str, float]) -> None:
    assert {item.name: item.value for item in find_definitions(text, language)} == expected


def test_minor_names_deep_inside_are_dropped() -> None:
    assert find_definitions("        let counter = 1;\n", "rust") == []


def test_offsets_are_of_the_names() -> None:
    text = "x = 1\ndef first(): ...\n"
    assert [text[item.offset :][:5] for item in find_definitions(text, "python")] == ["first"]


OTHERS = (
    "#define", "macro_rules!", "pub", "static", "(", ")", "<", ">", "*", " ", "  ", "\t", "\n", "\r", "é", "name",
    "a.b", "X::y", "@dec(1) ", "[attr] ", "\u0301", "self.", ":", "{", ";", 'extern "C" ',
)  # fmt: skip
DEFINED = st.lists(st.sampled_from([*KEYWORDS, *OTHERS])).map("".join)
BETWEEN = re.compile(r"[^\w\x80-\U0010ffff]", re.ASCII)


@settings(max_examples=300, deadline=None)
@given(DEFINED, st.sampled_from(["python", "c", "zig", "typescript", "rust"]))
def test_only_lines_with_a_keyword_define(text: str, language: str) -> None:
    lines = [
        n
        for n, line in enumerate(text.split("\n"))
        if not set(KEYWORDS).isdisjoint(BETWEEN.split(line))
    ]
    assert find_definitions(text, language, lines) == find_definitions(text, language)
