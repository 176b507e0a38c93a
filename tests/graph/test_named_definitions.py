"""Definitions of a name that many files have: few files are read, and no definition is missed."""

import pytest

from cocosearchd.graph.questions.named_definitions import find_named
from tests.graph.memory_files import MemoryFiles, call, code_file, symbol

COUNT = 300
CLASSES = [
    code_file(
        f"pkg/m{number}.py",
        [symbol(f"Class{number}", (1, 9), kind="class"), symbol("run", (2, 3), f"Class{number}")],
    )
    for number in range(COUNT)
]


@pytest.mark.parametrize(
    "parts", [["Class7", "run"], ["m7", "run"], ["pkg", "m7", "Class7", "run"]]
)
def test_a_qualified_name_reads_the_files_with_its_qualifier(parts: list[str]) -> None:
    files = MemoryFiles(CLASSES)
    definitions = find_named(files, parts)
    assert [match.path for match in definitions.matches] == ["pkg/m7.py"]
    assert definitions.complete
    assert files.loads <= 2


def test_all_files_are_read_for_a_qualifier_that_no_file_has() -> None:
    files = MemoryFiles(CLASSES)
    definitions = find_named(files, ["Missing", "run"])
    assert not definitions.matches
    assert len(definitions.similar) == COUNT


def test_members_that_are_written_outside_of_their_class_are_found() -> None:
    """In C++ and Go, the file of the body uses the name of the class, and does not define it."""
    header = code_file("engine.h", [symbol("Engine", (1, 9), kind="class")], language="cpp")
    body = code_file(
        "parts.cpp", [symbol("run", (1, 3), "Engine")], [call("Engine", 1)], language="cpp"
    )
    definitions = find_named(MemoryFiles([*CLASSES, header, body]), ["Engine", "run"])
    assert [match.path for match in definitions.matches] == ["parts.cpp"]
