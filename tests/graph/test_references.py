"""References: all uses are counted, filtered and paged; the answer is partial when time is over."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from benchmarks.graph.parsed_files import ParsedFiles
from cocosearchd.filters.filter_fields import make_filter
from cocosearchd.graph.code_files import (
    WHOLE_FILE,
    CodeFile,
    CodeFiles,
    DefinitionKey,
    ResolvedUse,
)
from cocosearchd.graph.questions.question_limits import LimitReached, TimedFiles
from cocosearchd.graph.questions.reference_pages import (
    COUNTED_FILES,
    FoundReference,
    ReferencePage,
    ReferenceQuery,
    find_references,
)
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.graph.questions.target_search import find_target_definitions
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.languages import symbol_table
from cocosearchd.languages.code_facts import CodeFacts, Import, Use
from cocosearchd.languages.references import fact_table
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
    keys = find_target_definitions(files, resolver, replace(target, paths=(target.path,))).keys
    return find_references(files, resolver, keys, query, lambda: False)


def rows(page: ReferencePage) -> list[tuple[str, int, int, str]]:
    return [
        (item.location.path, item.location.line, item.location.column, item.location.kind)
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
    assert [item.location.line for item in page.references] == lines
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
        after = page.references[-1].location
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
    page = uses("hot", ReferenceQuery(limit=10, counts_all=True), files)
    assert page.counts == {"certain": 100_100}
    assert page.unread_files == 0
    assert len(page.references) == 10
    assert not page.is_last
    following = uses("hot", ReferenceQuery(limit=10, after=page.references[-1].location), files)
    assert following.references[0].location > page.references[-1].location


def test_a_full_page_reads_some_more_files_and_says_how_many_are_left() -> None:
    files = hot_files(uses_a_file=1000, files=100)
    page = uses("hot", ReferenceQuery(limit=10), files)
    everything = uses("hot", ReferenceQuery(limit=10, counts_all=True), files)
    assert page.references == everything.references
    assert page.counts == {"certain": 1001 * COUNTED_FILES}
    assert page.file_counts.items() <= everything.file_counts.items()
    assert page.unread_files == 100 - COUNTED_FILES
    assert not page.is_last
    assert page.is_complete


def test_a_page_that_is_not_full_reads_all_files() -> None:
    files = hot_files(uses_a_file=1, files=3 * COUNTED_FILES)
    page = uses("hot", ReferenceQuery(limit=1000), files)
    assert len(page.references) == 2 * 3 * COUNTED_FILES
    assert (page.unread_files, page.is_last) == (0, True)


def test_pages_over_many_files_are_all_uses_once() -> None:
    files = hot_files(uses_a_file=1, files=3 * COUNTED_FILES)
    listed = list[FoundReference]()
    page = uses("hot", ReferenceQuery(limit=50), files)
    listed += page.references
    while not page.is_last:
        after = page.references[-1].location
        page = uses("hot", ReferenceQuery(limit=50, after=after), files)
        listed += page.references
    assert tuple(listed) == uses("hot", ReferenceQuery(limit=1000), files).references
    assert page.unread_files == 0


def test_no_file_is_resolved_that_the_filter_leaves_out() -> None:
    files = hot_files(uses_a_file=1, files=2 * COUNTED_FILES)
    where = make_filter({"paths": ["caller7.py"]})
    resolver = CountingResolver(files)
    page = find_references(
        files, resolver, [DefinitionKey("hot.py", 0)], ReferenceQuery(where), lambda: False
    )
    assert page.file_counts == {"caller7.py": 2}
    assert resolver.paths == ["caller7.py"]


def test_a_function_of_a_function_is_searched_in_its_file_alone() -> None:
    files = parse_sources(
        {
            "a.py": "def outer():\n    def inner(): pass\n    return inner()\n",
            "b.py": "def f(x):\n    inner()\n    x.inner()\n",
        }
    )
    resolver = CountingResolver(files)
    inner = DefinitionKey("a.py", 1)
    page = find_references(files, resolver, [inner], ALL, lambda: False)
    assert rows(page) == [("a.py", 3, 12, "call")]
    assert resolver.paths == ["a.py"]
    assert [match.use.line for match in Resolver(files).uses_of(inner)] == [3]


def test_thousands_of_overloads_are_searched_quickly() -> None:
    """No step looks at all of them for each of them."""
    members = [symbol("a", (line, line), "C", "method") for line in range(2, 20_002)]
    file = CodeFile(
        "a.py", "python", (symbol("C", (1, 20_002), kind="class"), *members), CodeFacts()
    )
    caller = parse_source("b.py", "from a import C\n\nC().a()\n")
    files = ParsedFiles([file, caller])
    page = find_references(files, Resolver(files), [DefinitionKey("a.py", 9)], ALL, lambda: False)
    assert rows(page) == [("b.py", 3, 5, "call")]


class CountingResolver(Resolver):
    """Notes the paths of the files whose uses are resolved."""

    def __init__(self, files: CodeFiles) -> None:
        super().__init__(files)
        self.paths = list[str]()

    def uses_in(self, definition: DefinitionKey, file: CodeFile) -> Iterator[ResolvedUse]:
        """Yield the uses in a file."""
        self.paths.append(file.path)
        return super().uses_in(definition, file)


CASES = Path(__file__).parents[1] / "languages" / "cases" / "source"


def test_references_are_what_all_uses_resolve_to() -> None:
    """Pages skip files and names: none of it may lose a use that forward resolution finds."""
    texts = {
        path.relative_to(CASES).as_posix(): path.read_text("utf-8")
        for path in sorted(CASES.rglob("*"))
        if path.is_file()
    }
    parsed = parse_sources(texts | {"app/library.py": LIBRARY, "app/user.py": USER})
    files = ParsedFiles(map(as_stored, parsed.load(parsed.paths()).values()))
    loaded = files.load(files.paths())
    expected = dict[DefinitionKey, set[tuple[str, int, int]]]()
    same_names = dict[str, set[tuple[str, int, int]]]()
    forward, backward = Resolver(files), Resolver(files)
    for file in loaded.values():
        for use in file.facts.uses:
            for key in forward.resolve(file, use).definitions:
                if key.position != WHOLE_FILE:
                    position = (file.path, use.line, use.column)
                    expected.setdefault(key, set()).add(position)
                    name = loaded[key.path].symbols[key.position].qualified_name
                    same_names.setdefault(name, set()).add(position)
    assert sum(map(len, expected.values())) > 150
    kinds = frozenset({"call", "type", "inherit", "name"})
    for key, places in expected.items():
        query = ReferenceQuery(kinds=kinds, limit=1000)
        page = find_references(files, backward, [key], query, lambda: False)
        assert places <= {row[:3] for row in rows(page)}, key
        listed = {
            (item.location.path, item.location.line, item.location.column)
            for item in page.references
            if item.reason != "through_base"  # it resolves to the base class
        }
        # overloads, and declarations in other files, are one definition
        assert listed <= same_names[loaded[key.path].symbols[key.position].qualified_name], key


def as_stored(file: CodeFile) -> CodeFile:
    """Return a file as it is read from the store: by columns."""
    symbols = symbol_table.unpack(symbol_table.pack(file.symbols))
    facts = fact_table.unpack(fact_table.pack(file.facts))
    assert symbols is not None
    assert facts is not None
    return replace(file, symbols=symbols, facts=facts)


LIBRARY = """
    class Base:
        def run(self): pass
        def __init__(self): self.other = Other()

    class Other(Base):
        def __init__(self): super().__init__()
        def stop(self) -> Base: return self.run()

    def make() -> Other: return Other()
    def outer():
        def inner(): pass
        inner()
"""
USER = """
    from app.library import Other as Alias, make as build
    import app.library

    class Mine(Alias):
        def run(self):
            super().run()
            self.stop().run()
            self.other.stop()

    def use(x, y: Alias):
        build().stop()
        app.library.make().run()
        x.run(), y.run()
        [z.stop() for z in x]
"""


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
    with pytest.raises(LimitReached):
        files.load(["hot.py"])


def test_the_parts_of_a_parsed_source_are_those_of_the_daemon() -> None:
    assert [s.name for s in parse_source("a.py", "def f(): pass\n").symbols] == ["f"]
