"""Impact of changes, over hand-made uses."""

from collections.abc import Iterator, Sequence

import pytest

from cocosearch_ipc.graph_vocabulary import Confidence
from cocosearchd.graph.code_files import (
    WHOLE_FILE,
    DefinitionKey,
    Resolution,
    ResolvedUse,
)
from cocosearchd.graph.questions.impact import ImpactBounds, find_impact
from cocosearchd.languages.code_facts import TOP_LEVEL, Use
from tests.graph.memory_files import MemoryFiles, call, code_file, symbol


class ByName:
    """Resolves by name alone, as far as the receiver says: the real rules have their own tests."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files

    def uses_of(self, definition: DefinitionKey) -> Iterator[ResolvedUse]:
        """Yield the uses of a name."""
        if definition.position == WHOLE_FILE:
            return
        name = self._files.files[definition.path].symbols[definition.position].name
        for path in self._files.files_using(name):
            file = self._files.files[path]
            for use in file.facts.uses:
                if use.name == name:
                    confidence: Confidence = "possible" if use.receiver == "any" else "certain"
                    confidence = "likely" if use.receiver == "some" else confidence
                    yield ResolvedUse(file, use, Resolution((definition,), confidence, "test"))

    def overriders_of(self, key: DefinitionKey) -> Iterator[DefinitionKey]:
        """Yield nothing."""
        return iter(())


def chain(*names: str) -> MemoryFiles:
    """Make functions of which each calls the one before, each in a file."""
    return MemoryFiles(
        code_file(f"{name}.py", [symbol(name, (1, 9))], [call(callee, 5, 0)] if callee else [])
        for name, callee in zip(names, ("", *names), strict=False)
    )


def never() -> bool:
    """Return False: there is time."""
    return False


def affected(
    files: MemoryFiles, starts: Sequence[DefinitionKey], depth: int = 9
) -> list[tuple[str, int]]:
    """Return path or name and distance of what changes affect."""
    bounds = ImpactBounds(depth, "possible", never)
    impact = find_impact(files, ByName(files), starts, bounds)
    assert impact.complete
    return [
        (item.symbol.qualified_name if item.symbol else item.key.path, item.distance)
        for item in impact.affected
    ]


def test_users_of_users_are_affected_up_to_a_depth() -> None:
    files = chain("a", "b", "c", "d")
    assert affected(files, [DefinitionKey("a.py", 0)]) == [("b", 1), ("c", 2), ("d", 3)]
    assert affected(files, [DefinitionKey("a.py", 0)], depth=2) == [("b", 1), ("c", 2)]


def test_tests_are_told_from_code_and_come_last() -> None:
    files = MemoryFiles(
        [
            code_file("a.py", [symbol("a", (1, 2))]),
            code_file("a_test/test_a.py", [symbol("test_a", (1, 2))], [call("a", 2, 0)]),
            code_file("z.py", [symbol("z", (1, 2))], [call("a", 2, 0)]),
        ]
    )
    impact = find_impact(
        files, ByName(files), [DefinitionKey("a.py", 0)], ImpactBounds(3, "certain", never)
    )
    assert [(item.key.path, item.is_test) for item in impact.affected] == [
        ("z.py", False),
        ("a_test/test_a.py", True),
    ]
    assert impact.distances == {1: 2}


def test_circles_end() -> None:
    files = MemoryFiles(
        code_file(f"{name}.py", [symbol(name, (1, 9))], [call(callee, 5, 0)])
        for name, callee in (("a", "c"), ("b", "a"), ("c", "b"))
    )
    assert affected(files, [DefinitionKey("a.py", 0)], depth=1_000) == [("b", 1), ("c", 2)]


def test_a_chain_of_1_000_calls_is_followed() -> None:
    files = chain(*(f"f{number}" for number in range(1_001)))
    assert affected(files, [DefinitionKey("f0.py", 0)], depth=1_000)[-1] == ("f1000", 1_000)


def test_the_weakest_use_on_the_best_way_counts() -> None:
    def use(name: str, receiver: str) -> Use:
        return Use("call", name, receiver, is_local=False, line=1, column=1, symbol=0)

    files = MemoryFiles(
        [
            code_file("a.py", [symbol("a", (1, 2))]),
            code_file("b.py", [symbol("b", (1, 2))], [use("a", "any"), use("a", "some")]),
            code_file("c.py", [symbol("c", (1, 2))], [use("b", "")]),
            code_file("d.py", [symbol("d", (1, 2))], [use("c", "any")]),
        ]
    )
    start = [DefinitionKey("a.py", 0)]
    impact = find_impact(files, ByName(files), start, ImpactBounds(9, "possible", never))
    assert [(item.key.path, item.confidence) for item in impact.affected] == [
        ("b.py", "likely"),
        ("c.py", "likely"),
        ("d.py", "possible"),
    ]
    strong = find_impact(files, ByName(files), start, ImpactBounds(9, "likely", never))
    assert [item.key.path for item in strong.affected] == ["b.py", "c.py"]
    assert not find_impact(files, ByName(files), start, ImpactBounds(9, "certain", never)).affected


def test_a_class_changes_its_members_and_a_constructor_its_class() -> None:
    members = [
        symbol("A", (1, 9), kind="class"),
        symbol("__init__", (2, 3), "A"),
        symbol("m", (4, 5), "A"),
        symbol("other", (11, 12)),
    ]
    users = [
        code_file(f"uses_{name}.py", [symbol(f"u_{name}", (1, 2))], [call(name, 1, 0)])
        for name in ("A", "m", "other")
    ]
    files = MemoryFiles([code_file("a.py", members), *users])
    assert affected(files, [DefinitionKey("a.py", 0)]) == [("u_A", 1), ("u_m", 1)]
    assert affected(files, [DefinitionKey("a.py", 1)]) == [("u_A", 1)]
    assert affected(files, [DefinitionKey("a.py", 2)]) == [("u_m", 1)]
    assert len(affected(files, [DefinitionKey("a.py", WHOLE_FILE)])) == 3


def test_an_affected_constructor_affects_those_that_make_objects() -> None:
    files = MemoryFiles(
        [
            code_file("a.py", [symbol("a", (1, 2))]),
            code_file(
                "b.py",
                [symbol("B", (1, 9), kind="class"), symbol("__init__", (2, 3), "B")],
                [call("a", 3, 1)],
            ),
            code_file("c.py", [symbol("c", (1, 2))], [call("B", 2, 0)]),
        ]
    )
    assert affected(files, [DefinitionKey("a.py", 0)]) == [("B.__init__", 1), ("c", 2)]


def test_code_outside_of_definitions_is_affected_and_leads_no_further() -> None:
    files = MemoryFiles(
        [
            code_file("a.py", [symbol("a", (1, 2))]),
            code_file("b.py", [symbol("b", (1, 2))], [call("a", 9, TOP_LEVEL)]),
            code_file("c.py", [symbol("c", (1, 2))], [call("b", 1, 0)]),
        ]
    )
    assert affected(files, [DefinitionKey("a.py", 0)]) == [("b.py", 1)]


@pytest.mark.parametrize(
    "bounds",
    [
        ImpactBounds(9, "possible", never, max_affected=10),
        ImpactBounds(9, "possible", never, max_uses=10),
        ImpactBounds(9, "possible", lambda: True),
    ],
)
def test_a_search_that_ends_early_says_so(bounds: ImpactBounds) -> None:
    users = [code_file(f"u{i}.py", [symbol(f"u{i}", (1, 2))], [call("a", 1, 0)]) for i in range(99)]
    files = MemoryFiles([code_file("a.py", [symbol("a", (1, 2))]), *users])
    impact = find_impact(files, ByName(files), [DefinitionKey("a.py", 0)], bounds)
    assert not impact.complete
    assert len(impact.affected) < 99
