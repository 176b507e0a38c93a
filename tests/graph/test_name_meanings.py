"""Definitions of names and of what is used at a location."""

from dataclasses import replace

import pytest

from cocosearchd.errors import NotFound
from cocosearchd.filters.filter_fields import Filter, make_filter
from cocosearchd.graph.questions.name_meanings import Meanings, find_meanings
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.graph.resolution.resolver import Resolver
from tests.graph.sources import parse_sources

FILES = parse_sources(
    {
        "pkg/__init__.py": "from pkg.core import Thing\n",
        "pkg/core.py": """
            class Thing:
                def go(self): pass
            """,
        "use.py": """
            import os
            from pkg import Thing

            def main(x):
                Thing().go(os.path.join(x))
            """,
    }
)


def meanings(text: str) -> Meanings:
    target = parse_target(text)
    return find_meanings(FILES, Resolver(FILES), replace(target, paths=(target.path,)), Filter())


def rows(answer: Meanings) -> list[tuple[str, list[str]]]:
    return [
        (
            name.name,
            [
                FILES.load([key.path])[key.path].symbols[key.position].qualified_name
                for key in name.keys
            ],
        )
        for name in answer.names
    ]


def test_a_column_means_one_name_and_re_exports_are_followed() -> None:
    answer = meanings("use.py:5:5")
    assert answer.path == "use.py"
    assert rows(answer) == [("Thing", ["Thing"])]
    assert answer.names[0].keys[0].path == "pkg/core.py"


def test_a_line_means_all_names_on_it() -> None:
    assert rows(meanings("use.py:5"))[:2] == [("Thing", ["Thing"]), ("go", ["Thing.go"])]


def test_a_name_of_another_project_has_no_definition() -> None:
    assert dict(rows(meanings("use.py:5")))["join"] == []


def test_an_import_means_the_definition_behind_it() -> None:
    answer = meanings("use.py:2")
    assert [key.path for key in answer.names[0].keys] == ["pkg/core.py"]


def test_all_definitions_of_a_name_are_listed() -> None:
    assert rows(meanings("go")) == [("go", ["Thing.go"])]


def test_a_line_without_names_is_an_error_with_what_is_near() -> None:
    with pytest.raises(NotFound, match=r"nothing is defined or used at use\.py:3"):
        meanings("use.py:3")


def test_a_filter_chooses_among_the_definitions_of_a_name() -> None:
    files = parse_sources(
        {"app/a.py": "def run(): pass\n", "lib/b.go": "package b\n\nfunc run() {}\n"}
    )

    def located(text: str, **values: list[str]) -> list[str]:
        target = replace(parse_target(text), paths=("lib/b.go",) if "/" in text else ())
        answer = find_meanings(files, Resolver(files), target, make_filter(values))
        return [key.path for name in answer.names for key in name.keys]

    assert located("run") == ["app/a.py", "lib/b.go"]
    assert located("run", paths=["lib"]) == ["lib/b.go"]
    assert located("run", languages=["python"]) == ["app/a.py"]
    assert located("lib/b.go:3", not_paths=["app"]) == ["lib/b.go"]
    with pytest.raises(NotFound, match="no definition at"):
        located("lib/b.go:3", not_paths=["lib"])
    with pytest.raises(NotFound, match="no definition of 'run' passes the filters"):
        located("run", paths=["web"])


def test_a_name_whose_definitions_a_filter_leaves_out_is_not_called_unknown() -> None:
    files = parse_sources(
        {
            "app/a.py": "from lib.b import run\nfrom lib.c import walk\nrun(walk, missing)\n",
            "lib/b.py": "def run(): pass\n",
            "lib/c.py": "def walk(): pass\n",
        }
    )
    target = replace(parse_target("app/a.py:3"), paths=("app/a.py",))

    def names(**values: list[str]) -> list[str]:
        answer = find_meanings(files, Resolver(files), target, make_filter(values))
        return [name.name for name in answer.names]

    assert names() == ["run", "walk", "missing"]
    assert names(not_paths=["lib/b.py"]) == ["walk", "missing"]
