"""References: all uses are counted, filtered and paged; the answer is partial when time is over."""

from dataclasses import replace
from itertools import count

import pytest

from benchmarks.graph.parsed_files import ParsedFiles
from cocosearchd.filters.filter_fields import make_filter
from cocosearchd.graph.code_files import CodeFile, CodeFiles, DefinitionKey
from cocosearchd.graph.questions.reference_pages import (
    FoundReference,
    ReferencePage,
    ReferenceQuery,
    find_references,
)
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.graph.questions.target_search import find_definitions
from cocosearchd.graph.questions.time_limit import OutOfTime, TimedFiles
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.languages.code_facts import CodeFacts, Import, Use
from tests.graph.memory_files import symbol
from tests.graph.sources import parse_source, parse_sources

FILES = parse_sources(
    {
        "app/config.py": """
            def load(path):
                return path

            class Base:
                pass
            """,
        "app/main.py": """
            from app.config import Base, load

            class Main(Base):
                def run(self, base: Base):
                    return load("a"), load("b")

            HANDLER = load
            """,
        "app/other.ts": "export function load() {}\n",
        "tests/test_config.py": """
            from app import config

            def test_load():
                assert config.load("x") == "x"
            """,
    }
)

ALL = ReferenceQuery()


def uses(name: str, query: ReferenceQuery = ALL, files: CodeFiles = FILES) -> ReferencePage:
    resolver = Resolver(files)
    target = parse_target(name)
    keys = find_definitions(files, resolver, replace(target, paths=(target.path,))).keys
    return find_references(files, resolver, keys, query, lambda: False)


def rows(page: ReferencePage) -> list[tuple[str, int, int, str]]:
    return [
        (item.position.path, item.position.line, item.position.column, item.position.kind)
        for item in page.references
    ]


def test_uses_come_by_place_and_tests_last() -> None:
    page = uses("config.load")
    assert rows(page) == [
        ("app/main.py", 1, 0, "import"),
        ("app/main.py", 5, 16, "call"),
        ("app/main.py", 5, 27, "call"),
        ("app/main.py", 7, 11, "name"),
        ("tests/test_config.py", 4, 19, "call"),
    ]
    assert page.is_last
    assert page.is_complete
    assert sum(page.counts.values()) == 5
    assert page.file_counts == {"app/main.py": 4, "tests/test_config.py": 1}


def test_a_use_names_the_definition_around_it() -> None:
    names = [item.symbol and item.symbol.qualified_name for item in uses("config.load").references]
    assert names == [None, "Main.run", "Main.run", "HANDLER", "test_load"]


@pytest.mark.parametrize(
    ("kinds", "lines"), [({"inherit"}, [3]), ({"type"}, [4]), ({"import"}, [1]), (set(), [1, 3, 4])]
)
def test_kinds_are_chosen(kinds: set[str], lines: list[int]) -> None:
    page = uses("Base", ReferenceQuery(kinds=frozenset(kinds)))
    assert [item.position.line for item in page.references] == lines
    assert sum(page.counts.values()) == len(lines)


def test_files_are_chosen_by_language_and_path() -> None:
    where = make_filter({"not_paths": ["tests/**"]})
    assert {row[0] for row in rows(uses("config.load", ReferenceQuery(where)))} == {"app/main.py"}
    nothing = make_filter({"languages": ["typescript"]})
    assert uses("config.load", ReferenceQuery(nothing)).references == ()


def test_weaker_uses_are_left_out() -> None:
    files = parse_sources(
        {
            "a.py": "class A:\n    def go(self): pass\n",
            "b.py": "class B:\n    def go(self): pass\n",
            "c.py": "def f(x):\n    x.go()\n",
        }
    )
    page = uses("A.go", files=files)
    assert [item.confidence for item in page.references] == ["possible"]
    assert uses("A.go", ReferenceQuery(min_confidence="likely"), files).references == ()


def test_pages_are_the_whole_list_in_order() -> None:
    everything = uses("config.load")
    listed = list[FoundReference]()
    after = None
    for _ in range(10):
        page = uses("config.load", ReferenceQuery(limit=2, after=after))
        assert page.counts == everything.counts
        listed += page.references
        if page.is_last:
            break
        after = page.references[-1].position
    assert tuple(listed) == everything.references


def test_a_file_is_used_by_those_that_import_it() -> None:
    assert rows(uses("app/config.py", ReferenceQuery(kinds=frozenset({"import"})))) == [
        ("app/main.py", 1, 0, "import"),
        ("tests/test_config.py", 1, 0, "import"),
    ]


def hot_files(uses_a_file: int, files: int) -> ParsedFiles:
    """Make a function that is called very often."""
    target = CodeFile("hot.py", "python", (symbol("hot", (1, 2)),), CodeFacts())
    callers = [
        CodeFile(
            f"caller{number}.py",
            "python",
            (),
            CodeFacts(
                "",
                (Import("hot", "hot", "hot", 1),),
                tuple(
                    Use("call", "hot", "", False, line, 1, -1) for line in range(2, uses_a_file + 2)
                ),
            ),
        )
        for number in range(files)
    ]
    return ParsedFiles([target, *callers])


def test_a_hundred_thousand_uses_are_counted_and_paged() -> None:
    files = hot_files(uses_a_file=1000, files=100)
    page = uses("hot", ReferenceQuery(limit=10), files)
    assert page.counts == {"certain": 100_100}
    assert len(page.references) == 10
    assert not page.is_last
    following = uses("hot", ReferenceQuery(limit=10, after=page.references[-1].position), files)
    assert following.references[0].position > page.references[-1].position


def test_an_answer_is_partial_when_the_time_is_over() -> None:
    files = hot_files(uses_a_file=100, files=1000)
    looks = count()
    page = find_references(
        files,
        Resolver(files),
        [DefinitionKey("hot.py", 0)],
        ReferenceQuery(),
        lambda: next(looks) > 3,
    )
    assert not page.is_complete
    assert 0 < sum(page.counts.values()) < 1000


def test_no_more_files_are_read_when_the_time_is_over() -> None:
    files = TimedFiles(hot_files(uses_a_file=1, files=10), lambda: True)
    page = find_references(
        files, Resolver(files), [DefinitionKey("hot.py", 0)], ReferenceQuery(), lambda: False
    )
    assert not page.is_complete
    with pytest.raises(OutOfTime):
        files.load(["hot.py"])


def test_the_parts_of_a_parsed_source_are_those_of_the_daemon() -> None:
    assert [s.name for s in parse_source("a.py", "def f(): pass\n").symbols] == ["f"]
