"""The table of reasons why an answer is not fresh: complete, used, documented, and the only one."""

import ast
import re
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

from cocosearchd.freshness import STALE_REASONS, Freshness, StaleCode, stale_reason
from cocosearchd.model import Clock
from tests.test_architecture import nodes, syntax_tree

ROOT = Path(__file__).resolve().parent.parent
DAEMON = ROOT / "daemon" / "cocosearchd"
TABLE = DAEMON / "freshness.py"


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def calls(name: str) -> list[tuple[Path, ast.Call]]:
    return [
        (path, node)
        for path in sorted(DAEMON.rglob("*.py"))
        for node in nodes(syntax_tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def test_every_code_has_a_row() -> None:
    assert set(STALE_REASONS) == set(get_args(StaleCode))


@pytest.mark.parametrize("code", get_args(StaleCode))
def test_a_row_says_what_is_wrong(code: StaleCode) -> None:
    values = {name: f"<{name}>" for name in fields(STALE_REASONS[code])}
    reason = stale_reason(code, **values)
    assert reason.code == code
    assert all(value in reason.sentence for value in values.values())
    assert reason.sentence
    assert not reason.sentence.endswith(".")


def test_every_reason_is_made_somewhere_with_the_details_of_its_sentence() -> None:
    templates = {str(code): template for code, template in STALE_REASONS.items()}
    codes = set()
    for path, call in calls("stale_reason"):
        code = ast.literal_eval(call.args[0])
        details = {keyword.arg for keyword in call.keywords}
        assert details == fields(templates[code]), f"{path.name}, line {call.lineno}: {code}"
        codes.add(code)
    assert codes == set(templates)


def test_only_the_table_makes_reasons() -> None:
    assert {path for path, _ in calls("StaleReason")} == {TABLE}


def test_the_architecture_names_the_modules_that_make_reasons() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    (row,) = re.findall(r"^\| a reason why an answer is stale \|.*$", text, re.MULTILINE)
    names = tuple(re.findall(r"`([\w/]+(?:/|\.py))`", row))
    modules = {path.relative_to(DAEMON).as_posix() for path, _ in calls("stale_reason")}
    assert {module for module in modules if not module.startswith(names)} == set()


def test_the_design_document_shows_the_table() -> None:
    """Its third column says what makes answers fresh again."""
    text = (ROOT / "docs" / "design" / "freshness.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)
    expected = [
        (code, template.replace("{", "*").replace("}", "*"))
        for code, template in STALE_REASONS.items()
    ]
    assert rows[1:] == expected, "the first row is the head"


def test_an_answer_without_a_reason_is_fresh() -> None:
    clock = Clock("epoch", 7)
    fresh = Freshness(clock)
    assert (fresh.fresh, fresh.reason, fresh.code) == (True, None, None)
    reason = stale_reason("scan_failed", error="{path} is odd")
    stale = Freshness(clock, reason.in_index("demo"))
    assert (stale.fresh, stale.code) == (False, "scan_failed")
    assert stale.reason == "demo: {path} is odd", "a detail is no template"
