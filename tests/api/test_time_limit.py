"""Questions about the code graph whose time ends within a search keep their results so far."""

from collections.abc import Callable
from math import inf

import pytest

from cocosearch_ipc import structure_protocol as s
from cocosearchd.api.graph.graph_questions import GraphMoment
from cocosearchd.api.verbs import change_impact, references
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.graph.questions.question_limits import TimedFiles
from cocosearchd.graph.questions.reference_pages import ReferenceQuery
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.graph.resolution.resolver import Resolver
from tests.graph.sources import parse_sources

SOURCES = {"shop.py": "def price():\n    return 1\n"} | {
    f"user{number}.py": "from shop import price\n\n\ndef total():\n    return price()\n"
    for number in range(600)
}


class Clock:
    """Ends the time at one of the looks at it."""

    def __init__(self, last_look: float) -> None:
        self._last_look = last_look
        self.looks = 0

    def is_over(self) -> bool:
        self.looks += 1
        return self.looks >= self._last_look


def make_moment(last_look: float) -> tuple[GraphMoment, Clock]:
    """Return files whose time is over at a look at the clock."""
    clock = Clock(last_look)
    timed = TimedFiles(parse_sources(SOURCES), clock.is_over)
    target = parse_target("price")
    return GraphMoment(timed, Resolver(timed), target, Filter(), clock.is_over), clock


def find_references(moment: GraphMoment) -> tuple[int, bool, int]:
    uses = references._find_uses(ReferenceQuery(), moment)
    return sum(uses.page.counts.values()), uses.page.is_complete, len(uses.definitions)


def find_impact(moment: GraphMoment) -> tuple[int, bool, int]:
    finding = change_impact._find_impact(s.ImpactRequest("price"), moment)
    return len(finding.impact.affected), finding.impact.complete, len(finding.definitions)


@pytest.mark.parametrize("find", [find_references, find_impact])
def test_a_partial_answer_names_its_definition(
    find: Callable[[GraphMoment], tuple[int, bool, int]],
) -> None:
    moment, clock = make_moment(last_look=inf)
    complete_answer = find(moment)
    assert complete_answer[1:] == (True, 1)
    moment, clock = make_moment(last_look=clock.looks)
    count, is_complete, definitions = find(moment)
    assert 0 < count <= complete_answer[0]
    assert (is_complete, definitions) == (False, 1)
    assert clock.is_over()
