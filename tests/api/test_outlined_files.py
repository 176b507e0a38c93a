"""Outlines of directories with more files than are read: the others are counted."""

from dataclasses import replace

import pytest

from cocosearch_ipc import structure_protocol as s
from cocosearchd.api.graph.graph_questions import GraphMoment
from cocosearchd.api.verbs import structure
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.graph.resolution.resolver import Resolver
from tests.graph.sources import parse_sources

FILES = parse_sources({f"{name}.py": "def f(): 0\n" for name in "abcde"})


def test_files_whose_definitions_are_not_read_are_counted_as_omitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(structure, "MAX_OUTLINED", 3)
    target = replace(parse_target("."), paths=(".",))
    moment = GraphMoment(FILES, Resolver(FILES), target, Filter(), lambda: False)
    outline = structure._find_outline(s.OutlineRequest("."), 1000, moment)
    assert [(file.path, len(file.symbols)) for file in outline.files] == [
        ("a.py", 1),
        ("b.py", 1),
        ("c.py", 1),
    ]
    assert outline.omitted_files == 2
