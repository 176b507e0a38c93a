"""A variable of a closure or a block shadows the outer one there, and nowhere else."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.graph.resolution.block_bindings import ANYWHERE, OUTSIDE, BlockBindings
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.languages.code_facts import Binding, FactGroups
from tests.graph.sources import parse_sources

GO = """
    package a

    type Cat struct{}
    func (c *Cat) Call() {}
    type Dog struct{}
    func (d *Dog) Call() {}
    func each(run func(x *Dog)) {}

    func main(x *Cat) {
        x.Call()           // Cat
        each(func(x *Dog) {
            x.Call()       // Dog
            if x := newCat(); true {
                x.Call()   // Cat
            }
            x.Call()       // Dog
        })
        x.Call()           // Cat
    }

    func newCat() *Cat { return nil }
    """
TYPESCRIPT = """
    class Cat { call() {} next(): Dog { return new Dog() } }
    class Dog { call() {} }

    export function main(x: Cat) {
        x.call()               // Cat
        each((x: Dog) => {
            x.call()           // Dog
        })
        {
            const x = new Dog()
            x.call()           // Dog
        }
        x.call()               // Cat
        each(() => {
            const y = x.next()
            y.call()           // Dog
            each(() => {
                const y = new Cat()
                y.call()       // Cat
            })
            y.call()           // Dog
        })
    }
    """


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("a.go", GO, id="Go"),
        pytest.param("a.ts", TYPESCRIPT, id="TypeScript"),
    ],
)
def test_shadowing_ends_with_the_block(path: str, text: str) -> None:
    files = parse_sources({path: text})
    file = files.load([path])[path]
    resolver = Resolver(files)
    lines = text.lstrip("\n").split("\n")
    answers = {
        use.line: [
            file.symbols[key.position].qualified_name
            for key in resolver.resolve(file, use).definitions
        ]
        for use in file.facts.uses
        if use.name.lower() == "call"
    }
    marks = {
        number: line.split()[-1]
        for number, line in enumerate(lines, 1)
        if line.endswith(("Cat", "Dog"))
    }
    assert {line: [name.split(".")[0] for name in names] for line, names in answers.items()} == {
        line: [mark] for line, mark in marks.items()
    }


def test_a_comprehension_shadows_a_parameter_of_another_type() -> None:
    text = """
        class Cat:
            def call(self): pass
        class Dog:
            def call(self): pass
        def main(x: Cat, dogs):
            x.call()
            return [
                x.call() for x in dogs]
        """
    files = parse_sources({"a.py": text})
    file = files.load(["a.py"])["a.py"]
    resolved = [Resolver(files).resolve(file, use) for use in file.facts.uses if use.name == "call"]
    assert [item.reason for item in resolved] == ["class_member", "name_only"]


def test_callbacks_with_equal_parameters_likely_have_the_same_type() -> None:
    text = """
        class Cat { call() {} }
        class Dog { call() {} }
        export function main(x: string) {
            on((cat: Cat) => cat.call())
            on((cat) =>
                cat.call())
        }
        """
    files = parse_sources({"a.ts": text})
    file = files.load(["a.ts"])["a.ts"]
    resolved = [Resolver(files).resolve(file, use) for use in file.facts.uses if use.name == "call"]
    assert [item.confidence for item in resolved] == ["certain", "likely"]
    assert resolved[0].definitions == resolved[1].definitions


def block_bindings(items: Sequence[Binding]) -> BlockBindings:
    return BlockBindings(FactGroups(items, Binding._fields.index("name")))


def bind(name: str, text: str, *lines: int, symbol: int = 0) -> Binding:
    return Binding("type", name, text, symbol, *lines)


def test_the_innermost_block_wins_and_then_the_symbol() -> None:
    items = [bind("x", "A"), bind("x", "B", 2, 9), bind("x", "C", 4, 5), bind("x", "D", 20, 30)]
    blocks = block_bindings([*items, bind("y", "E")])
    texts = {
        line: [item.text for item in blocks.find(0, "x", blocks.region("x", line))]
        for line in (1, 2, 4, 6, 10, 20, 31)
    }
    assert texts == {1: ["A"], 2: ["B"], 4: ["C"], 6: ["B"], 10: ["A"], 20: ["D"], 31: ["A"]}
    assert [blocks.region("x", line) for line in (0, 1, 5)] == [ANYWHERE, OUTSIDE, 4]
    assert blocks.region("y", 3) == ANYWHERE
    assert [item.text for item in blocks.find(0, "y", 3)] == ["E"]
    assert blocks.find(1, "x", 4) == ()


def test_a_value_of_its_own_name_is_that_of_the_block_around() -> None:
    blocks = block_bindings([bind("x", "A", 1, 9), inner := bind("x", "x.next", 3, 5)])
    assert blocks.region_of_value(inner, "x") == 1
    assert blocks.region_of_value(inner, "y") == ANYWHERE


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 10)), max_size=12), st.integers(1, 40))
def test_any_lines_have_a_region(lines: list[tuple[int, int]], line: int) -> None:
    """Blocks of broken files may overlap: an answer is one of those around the line, or outside."""
    items = [bind("x", "", first, first + length) for first, length in lines]
    blocks = block_bindings(items)
    region = blocks.region("x", line)
    around = [item.first_line for item in items if item.first_line <= line <= item.last_line]
    assert region in (*around, OUTSIDE) if items else region == ANYWHERE
    # blocks with one first line have one region: the innermost of them stands for all
    first_lines = {item.first_line for item in blocks.find(0, "x", region)}
    assert first_lines <= ({region} if region > 0 else set())


def test_thousands_of_blocks_are_searched_quickly() -> None:
    """Blocks beside each other, and in each other: no search looks at all of them."""
    beside = [bind("x", "", line, line) for line in range(1, 20_001)]
    nested = [bind("y", "", line, 40_000 - line) for line in range(1, 20_000)]
    blocks = block_bindings([*beside, *nested])
    for line in range(1, 20_001):
        region = blocks.region("x", line)
        assert len(blocks.find(0, "x", region)) == 1
    assert blocks.region("y", 39_999) == OUTSIDE  # too deep to be followed
