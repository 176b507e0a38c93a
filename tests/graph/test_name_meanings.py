"""Definitions of names and of what is used at a location."""

from dataclasses import replace

import pytest

from cocosearchd.errors import NotFound
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
    return find_meanings(FILES, Resolver(FILES), replace(target, paths=(target.path,)))


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
