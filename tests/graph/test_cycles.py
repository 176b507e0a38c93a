"""Cycles of directed graphs."""

from graphlib import CycleError, TopologicalSorter

from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.graph.structure.cycles import find_cycles

_EDGES = st.dictionaries(
    st.sampled_from("abcdefgh"), st.sets(st.sampled_from("abcdefgh"), max_size=4), max_size=8
)


def test_files_that_import_each_other_are_a_cycle() -> None:
    edges = {
        "a": ["b"],
        "b": ["c"],
        "c": ["a", "d"],
        "d": ["e"],
        "e": ["d"],
        "f": ["a"],
        "g": ["g"],
    }
    assert find_cycles(edges) == [("a", "b", "c"), ("d", "e"), ("g",)]


def test_a_chain_of_100_000_files_needs_no_recursion() -> None:
    chain = {str(number): [str(number + 1)] for number in range(100_000)}
    assert find_cycles(chain) == []
    assert len(find_cycles({**chain, "100000": ["0"]})[0]) == 100_001


def reachable(edges: dict[str, set[str]], start: str) -> set[str]:
    """Return the nodes that are reached by at least one edge."""
    nodes = set[str]()
    ahead = [start]
    while ahead:
        for target in edges.get(ahead.pop(), set()) - nodes:
            nodes.add(target)
            ahead.append(target)
    return nodes


@given(_EDGES)
def test_nodes_of_a_cycle_reach_each_other_and_no_other_cycle_does(
    edges: dict[str, set[str]],
) -> None:
    cycles = find_cycles(edges)
    both_ways = {
        (first, second)
        for first in "abcdefgh"
        for second in reachable(edges, first)
        if first in reachable(edges, second)
    }
    assert {(a, b) for cycle in cycles for a in cycle for b in cycle} == both_ways
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        assert cycles
    else:
        assert not cycles
