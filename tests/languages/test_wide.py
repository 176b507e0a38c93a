"""Files with thousands of definitions side by side, as generators write them, take linear time."""

import sys
from types import FrameType
from typing import Any

import pytest

from cocosearchd.languages.parse import parse

WIDE = {
    "errors.go": ("package errors\n\nconst (\n{}\n)\n", "\tERROR_{} = {}\n"),
    "table.js": ("const {};\n", "name_{} = {},\n"),
    "names.py": ("class Names:\n{}", "    NAME_{} = {}\n"),
    "codes.rs": ("pub enum Codes {{\n{}}}\n", "    Code{} = {},\n"),
    "codes.java": ("class Codes {{\n{}}}\n", "    static final int CODE_{} = {};\n"),
    "codes.h": ("enum codes {{\n{}}};\n", "    CODE_{} = {},\n"),
}


def steps(path: str, definitions: int) -> int:
    """Count the calls that parsing takes: the count is the same on every machine."""
    around, step = WIDE[path]
    text = around.format(
        "".join(step.format(n, n) for n in range(definitions)).rstrip(",\n") + "\n"
    ).encode()
    parse(path, text)  # grammars and queries are loaded once
    count = 0

    def counted(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        parse(path, text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("path", WIDE)
def test_four_times_the_definitions_take_four_times_the_steps(path: str) -> None:
    few = steps(path, 100)
    many = steps(path, 400)
    assert many < 5 * few
