"""Questions about files that define, use or import one name thousands of times.

A repository's author chooses these numbers, and a question runs in a thread of the daemon.
"""

from collections.abc import Callable, Mapping
from itertools import count
from time import process_time

import pytest

from benchmarks.graph.parsed_files import ParsedFiles
from cocosearchd.graph.code_files import WHOLE_FILE, DefinitionKey
from cocosearchd.graph.questions.calls import CallQuery, find_callees, find_callers
from cocosearchd.graph.questions.changed_symbols import Hunk, changed_symbols
from cocosearchd.graph.questions.file_locations import enclosing_symbol
from cocosearchd.graph.questions.impact import ImpactBounds, find_impact
from cocosearchd.graph.questions.question_limits import TimedFiles
from cocosearchd.graph.questions.reference_pages import ReferenceQuery, find_references
from cocosearchd.graph.questions.removed_definitions import changed_signatures
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.graph.structure.file_imports import ImportGraph
from tests.graph.sources import parse_source, parse_sources
from tests.machine_speed import slowness

COUNT = 1500
# Seconds of CPU. These questions take less than a tenth of it; with a cost that grows by the square
# of `COUNT`, they take many times as much.
LIMIT_S = 2.0
SOURCES = {
    "overloads.py": "def f(): 0\n" * COUNT + "f()\n" * COUNT,
    "callbacks.js": "run(() => { function f(){} ; f() })\n" * COUNT,
    "methods.py": "class A:\n" + "    def f(self): self.f()\n" * COUNT,
    "classes.py": "class A:\n    def f(self): self.f()\n" * COUNT,
}


@pytest.mark.parametrize("path", SOURCES)
def test_a_name_with_thousands_of_definitions_and_uses_costs_little(path: str) -> None:
    files = ParsedFiles([parse_source(path, SOURCES[path])])
    symbols = files.load([path])[path].symbols
    position = next(i for i, item in enumerate(symbols) if item.name == "f")
    began = process_time()
    page = find_references(
        files, Resolver(files), [DefinitionKey(path, position)], ReferenceQuery(), lambda: False
    )
    assert process_time() - began < LIMIT_S * slowness()
    assert sum(page.counts.values()) == COUNT


def test_thousands_of_imports_in_a_file_with_thousands_of_definitions_cost_little() -> None:
    files = parse_sources(
        {
            "a.py": "def f(): 0\n",
            "b.py": "from a import f\n" * 6 * COUNT
            + "".join(f"def g{number}(): 0\n" for number in range(8 * COUNT)),
        }
    )
    began = process_time()
    page = find_references(
        files, Resolver(files), [DefinitionKey("a.py", 0)], ReferenceQuery(), lambda: False
    )
    assert process_time() - began < LIMIT_S * slowness()
    assert sum(page.counts.values()) == 6 * COUNT


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "def t(): 0\n"
            + "".join(f"class A{n}:\n    def __init__(self): t()\n" for n in range(6 * COUNT)),
            id="constructors",
        ),
        pytest.param("class A:\n" + "    def f(self): self.f()\n" * 6 * COUNT, id="overloads"),
    ],
)
def test_thousands_of_changed_definitions_of_one_file_cost_little(text: str) -> None:
    files = parse_sources({"a.py": text})
    count_of_symbols = len(files.load(["a.py"])["a.py"].symbols)
    keys = [DefinitionKey("a.py", position) for position in range(count_of_symbols)]
    began = process_time()
    impact = find_impact(files, Resolver(files), keys, ImpactBounds(3, "possible", lambda: False))
    assert process_time() - began < LIMIT_S
    assert not impact.affected


def test_callers_that_were_found_before_the_time_was_over_are_answered() -> None:
    users = {f"b{n}.py": "from a import f\ndef g():\n" + "    f()\n" * 300 for n in range(9)}
    files = parse_sources({"a.py": "def f(): 0\n"} | users)
    keys = [DefinitionKey("a.py", 0)]
    full = find_callers(files, Resolver(files), keys, CallQuery(depth=9), lambda: False)
    looks = count()
    timed = TimedFiles(files, lambda: next(looks) >= 0)
    sizes = set[int]()
    for allowed in range(200):
        looks = count(-allowed)
        tree = find_callers(timed, Resolver(timed), keys, CallQuery(depth=9), lambda: False)
        sizes.add(len(tree.nodes))
        assert tree.nodes == full.nodes[: len(tree.nodes)]
        assert tree == full or not tree.is_complete
    assert sizes == set(range(10)), "each caller is answered once it was found"


def test_the_time_is_checked_within_a_file() -> None:
    looks = count()
    files = TimedFiles(
        parse_sources({"a.py": "def f(): 0\n" + "f()\n" * 10_000}), lambda: next(looks) > 1_000
    )
    find_references(
        files, Resolver(files), [DefinitionKey("a.py", 0)], ReferenceQuery(), lambda: False
    )
    assert next(looks) > 100


def test_the_innermost_definition_is_around_a_line_that_others_share() -> None:
    source = """
        x
        class A {
          f() {} g() {
            0
          }
          h() {
            function k() {}
          }
        } class B {}
        x
        """
    file = parse_source("a.js", source)
    around = [enclosing_symbol(file, line) for line in range(1, 11)]
    names = ["" if number == WHOLE_FILE else file.symbols[number].name for number in around]
    assert names == ["", "A", "f", "g", "g", "h", "k", "h", "A", ""]


def looks_of(sources: Mapping[str, str], ask: Callable[[TimedFiles, Resolver], object]) -> int:
    """Count how often a question about sources looks at the time."""
    looks = count()
    files = TimedFiles(parse_sources(sources), lambda: next(looks) < 0)
    ask(files, Resolver(files))
    return next(looks)


def test_the_time_is_checked_between_calls_that_mean_nothing() -> None:
    source = "from library import *\n" + "".join(f"f{number}()\n" for number in range(10_000))
    looks = looks_of(
        {"a.py": source},
        lambda files, resolver: find_callees(
            files, resolver, [DefinitionKey("a.py", WHOLE_FILE)], CallQuery(), lambda: False
        ),
    )
    assert looks > 100


def test_the_time_is_checked_between_the_imports_of_a_file() -> None:
    source = "".join(f"from library import f{number}\n" for number in range(10_000))
    looks = looks_of(
        {"a.py": source}, lambda files, resolver: ImportGraph(files, resolver).imports("a.py")
    )
    assert looks > 100


def test_signatures_of_thousands_of_overloads_are_compared_quickly() -> None:
    texts = ("".join(f"function f({name}{i}){{}}\n" for i in range(9 * COUNT)) for name in "ab")
    earlier, present = (parse_source("a.js", text) for text in texts)
    began = process_time()
    assert len(changed_signatures(earlier, present)) == 9 * COUNT
    assert process_time() - began < LIMIT_S / 2 * slowness()


def test_thousands_of_hunks_over_thousands_of_definitions_cost_little() -> None:
    file = parse_source("a.py", "".join(f"def f{number}(): 0\n" for number in range(9 * COUNT)))
    hunks = [Hunk(number, 1, number, 9 * COUNT - number) for number in range(1, 9 * COUNT)]
    began = process_time()
    assert len(changed_symbols(file, hunks)) == 9 * COUNT - 1
    assert process_time() - began < LIMIT_S / 2 * slowness()
