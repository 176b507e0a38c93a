"""Questions about the code graph whose time ends within a search keep what they found."""

from collections.abc import Callable, Iterable, Mapping

import pytest

from cocosearch_ipc import structure_protocol as s
from cocosearchd.api.graph.graph_questions import GraphMoment
from cocosearchd.api.verbs import change_impact, references
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.graph.code_files import CodeFile, CodeFiles
from cocosearchd.graph.questions.reference_pages import ReferenceQuery
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.graph.questions.time_limit import TimedFiles
from cocosearchd.graph.resolution.resolver import Resolver
from tests.graph.sources import parse_sources

SOURCES = {"shop.py": "def price():\n    return 1\n"} | {
    f"user{number}.py": "from shop import price\n\n\ndef total():\n    return price()\n"
    for number in range(600)
}


class Clock:
    """Ends the time once a number of files has been loaded."""

    def __init__(self, files: CodeFiles, limit: int) -> None:
        self._load = files.load
        self._limit = limit
        self.loaded = 0

    def load(self, paths: Iterable[str]) -> Mapping[str, CodeFile]:
        loaded = self._load(paths)
        self.loaded += len(loaded)
        return loaded

    def is_over(self) -> bool:
        return self.loaded > self._limit


def make_moment(limit: int) -> tuple[GraphMoment, Clock]:
    """Return files whose time is over once so many have been loaded."""
    files = parse_sources(SOURCES)
    clock = Clock(files, limit)
    files.load = clock.load  # type: ignore[method-assign]
    timed = TimedFiles(files, clock.is_over)
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
    moment, clock = make_moment(limit=1 << 30)
    complete_answer = find(moment)
    assert complete_answer[1:] == (True, 1)
    moment, clock = make_moment(limit=clock.loaded * 3 // 4)
    count, is_complete, definitions = find(moment)
    assert 0 < count <= complete_answer[0]
    assert (is_complete, definitions) == (False, 1)
    assert clock.is_over()
