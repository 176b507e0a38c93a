"""Replies list few definitions of one name, however many there are: answers have a budget."""

from dataclasses import replace

from cocosearchd.api.graph.graph_questions import (
    MAX_DEFINITIONS,
    GraphMoment,
    definition_notes,
    make_definition_entries,
)
from cocosearchd.api.verbs import references
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.graph.code_files import DefinitionKey
from cocosearchd.graph.questions.reference_pages import ReferenceQuery
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.graph.resolution.resolver import Resolver
from tests.graph.sources import parse_sources

COUNT = 100
FILES = parse_sources({"a.py": "def f(): 0\n" * COUNT + "f()\n"})


def moment(text: str) -> GraphMoment:
    target = parse_target(text)
    target = replace(target, paths=(target.path,))
    return GraphMoment(FILES, Resolver(FILES), target, Filter(), lambda: False)


def test_a_target_with_many_definitions_is_listed_in_part_with_a_note() -> None:
    uses = references._find_uses(ReferenceQuery(), moment("f"))
    assert len(uses.definitions) == MAX_DEFINITIONS
    assert uses.notes == (
        f"{COUNT - MAX_DEFINITIONS} further definitions of the name are not listed",
    )


def test_a_used_name_with_many_definitions_is_not_complete() -> None:
    meanings = references._find_meanings(moment(f"a.py:{COUNT + 1}"))
    assert [len(name.definitions) for name in meanings.names] == [MAX_DEFINITIONS]
    assert not meanings.is_complete


def test_few_definitions_are_all_listed() -> None:
    keys = [DefinitionKey("a.py", position) for position in range(MAX_DEFINITIONS)]
    assert len(make_definition_entries(FILES, keys)) == MAX_DEFINITIONS
    assert definition_notes(keys) == ()
