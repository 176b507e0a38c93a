"""The comparison with SCIP indexes (`benchmarks`) counts correctly, on a small project."""

from benchmarks.graph.compare import compare
from benchmarks.graph.parsed_files import parse_texts
from benchmarks.graph.truth import import_lines, read_truth
from cocosearchd.graph.scip.scip_reader import DEFINITION, ScipDocument, ScipOccurrence

TEXTS = {
    "a.py": "def run():\n    pass\n\n\nclass Run:\n    def go(self, x):\n        x.stop()\n",
    "c.py": "def run():\n    missing = 1\n",
    "b.py": "from a import run, Run\nrun()\nRun().go(1)\nrun()\nmissing()\nother()\n",
}
PREFIX = "scip-python python p 0 "
MISSING = f"{PREFIX}c/missing()."
OTHER_RUN = f"{PREFIX}c/run()."
RUN, CLASS, GO = f"{PREFIX}a/run().", f"{PREFIX}a/Run#", f"{PREFIX}a/Run#go()."


def occurrence(line: int, column: int, text: str, symbol: str, roles: int = 0) -> ScipOccurrence:
    return ScipOccurrence(line, column, column + len(text), symbol, roles)


DOCUMENTS = [
    ScipDocument(
        "a.py",
        (
            occurrence(1, 5, "run", RUN, DEFINITION),
            occurrence(5, 7, "Run", CLASS, DEFINITION),
            occurrence(6, 9, "go", GO, DEFINITION),
        ),
        {},
    ),
    ScipDocument(
        "c.py",
        (
            occurrence(1, 5, "run", OTHER_RUN, DEFINITION),
            occurrence(2, 5, "missing", MISSING, DEFINITION),
        ),
        {},
    ),
    ScipDocument(
        "b.py",
        (
            occurrence(1, 15, "run", RUN),
            occurrence(2, 1, "run", RUN),
            occurrence(3, 1, "Run", CLASS),
            occurrence(3, 7, "go", GO),
            occurrence(4, 1, "run", OTHER_RUN),
            occurrence(5, 1, "missing", MISSING),
            occurrence(6, 1, "other", RUN),
        ),
        {},
    ),
]


def test_right_and_wrong_resolutions_are_counted() -> None:
    """Line 4 of b.py has a wrong truth on purpose, line 5 one that we cannot find.

    Line 6 names a definition with another name, which says nothing.
    """
    scores = compare(parse_texts(TEXTS, {"python"}), read_truth(DOCUMENTS, TEXTS))
    assert scores.truths == 5
    assert scores.right == {("certain", "import"): 2, ("certain", "class_member"): 1}
    assert scores.wrong == {("certain", "import"): 1}
    assert scores.recall("certain") == 3 / 5
    assert scores.precision("certain") == 3 / 4
    assert [(miss.position.line, miss.reason) for miss in scores.misses] == [
        (4, "import"),
        (5, "foreign"),
    ]


def test_imports_are_no_uses() -> None:
    text = """import a from './a';
import {
  b,
  c as d,
} from "./b";
export * from './c';
export { b };
export const x = 1;
const y = from(1);
"""
    assert import_lines("x.ts", text) == {1, 2, 3, 4, 5, 6, 7}
    assert import_lines("x.py", "import a\nfrom b import (\n    c,\n)\nx = 1\n") == {1, 2, 3, 4}
