"""Finds cycles of a directed graph: strongly connected components, by Tarjan's algorithm. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field


def find_cycles(edges: Mapping[str, Collection[str]]) -> list[tuple[str, ...]]:
    """Return the sets of nodes that all reach each other: each sorted, the largest first.

    A single node is a cycle if it has an edge to itself. Time is linear in nodes and edges, and
    there is no recursion.
    """
    search = _Search(edges)
    for node in edges:
        if node not in search.number:
            search.visit(node)
    cycles = [
        tuple(sorted(component))
        for component in search.components
        if len(component) > 1 or component[0] in edges.get(component[0], ())
    ]
    return sorted(cycles, key=lambda cycle: (-len(cycle), cycle))


@dataclass(slots=True)
class _Search:
    """A depth-first search. `lowest` is the smallest number on the stack that a node reaches."""

    edges: Mapping[str, Collection[str]]
    number: dict[str, int] = field(default_factory=dict)  # order of the first visit
    lowest: dict[str, int] = field(default_factory=dict)
    stack: list[str] = field(default_factory=list)
    on_stack: set[str] = field(default_factory=set)
    components: list[list[str]] = field(default_factory=list)

    def visit(self, start: str) -> None:
        """Visit all nodes that can be reached from `start`."""
        path = [self._enter(start)]
        while path:
            node, targets = path[-1]
            target = next(targets, None)
            if target is None:
                path.pop()
                self._leave(node, path[-1][0] if path else None)
            elif target not in self.number:
                path.append(self._enter(target))
            elif target in self.on_stack:
                self.lowest[node] = min(self.lowest[node], self.number[target])

    def _enter(self, node: str) -> tuple[str, Iterator[str]]:
        self.number[node] = self.lowest[node] = len(self.number)
        self.stack.append(node)
        self.on_stack.add(node)
        return node, iter(self.edges.get(node, ()))

    def _leave(self, node: str, parent: str | None) -> None:
        if parent is not None:
            self.lowest[parent] = min(self.lowest[parent], self.lowest[node])
        if self.lowest[node] == self.number[node]:
            component = list[str]()
            while not component or component[-1] != node:
                component.append(self.stack.pop())
            self.on_stack.difference_update(component)
            self.components.append(component)
