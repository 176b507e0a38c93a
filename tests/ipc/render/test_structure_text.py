"""Impact, dependencies, outlines and maps as text, and diagrams of hostile names."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from cocosearch_ipc import structure_protocol as s
from cocosearch_ipc.graph_protocol import GraphSymbol
from cocosearch_ipc.graph_vocabulary import Direction
from cocosearch_ipc.render import output
from cocosearch_ipc.render.graph import diagrams, structure_text
from cocosearch_ipc.rpc import shapes

PLAIN = output.Style(colour=False, links=False)
COMMON: dict[str, Any] = {"index": "p", "fresh": True, "stale_reason": None, "as_of": None}
RETRY = GraphSymbol("net.py", "python", "method", "Client.retry", 3, 9, "def retry(self)")
FETCH = GraphSymbol("api.py", "python", "function", "fetch", 4, 8, "def fetch()")
WHOLE = GraphSymbol("main.py", "python", "file", "main.py", 0, 0)
TEST = GraphSymbol("tests/test_api.py", "python", "function", "test_fetch", 1, 3)
AFFECTED = (
    s.AffectedEntry(
        FETCH, 1, "certain", "import", "the file imports the name", "Client.retry", 6, 4
    ),
    s.AffectedEntry(WHOLE, 2, "likely", "unique_name", "only one has the name", "fetch", 9, 1),
    s.AffectedEntry(TEST, 2, "certain", "import", "", "fetch", 2, 5, is_test=True, broken=True),
)
IMPACT_FIELDS: dict[str, Any] = {
    "affected": AFFECTED,
    "total": 3,
    "total_files": 3,
    "distances": {"1": 1, "2": 2},
    "test_files": ("tests/test_api.py",),
    "total_test_files": 1,
}


def values(reply: object) -> dict[str, Any]:
    """Return a reply as the command line gets it."""
    result: dict[str, Any] = json.loads(shapes.to_json(reply))
    return result


def test_a_definition_that_overrides_another_is_called_so() -> None:
    overriding = replace(AFFECTED[0], reason="overrides", confidence="possible", explanation="so")
    reply = s.ImpactReply(**COMMON, **IMPACT_FIELDS | {"affected": (overriding,)})
    lines = list(structure_text.impact(values(reply), PLAIN))
    assert "  api.py:4  function fetch  overrides Client.retry at 6  possible: so" in lines


def test_impact_is_grouped_by_distance_and_names_the_tests() -> None:
    reply = s.ImpactReply(**COMMON, definitions=(RETRY,), **IMPACT_FIELDS)
    assert list(structure_text.impact(values(reply), PLAIN)) == [
        "Client.retry (net.py:3): affects 3 definitions in 3 files, tests in 1 file",
        "",
        "distance 1: 1 definition",
        "  api.py:4  function fetch  uses Client.retry at 6",
        "",
        "distance 2: 2 definitions",
        "  main.py  outside of definitions  uses fetch at 9  likely: only one has the name",
        "  tests/test_api.py:1  function test_fetch  still uses fetch at 2",
        "",
        "tests to run",
        "  tests/test_api.py",
    ]


@pytest.mark.parametrize(
    ("complete", "text"),
    [(True, "affects nothing else"), (False, "nothing affected was found in time")],
)
def test_no_impact_is_told_from_too_little_time(complete: bool, text: str) -> None:
    reply = s.ImpactReply(**COMMON, definitions=(RETRY,), complete=complete)
    assert list(structure_text.impact(values(reply), PLAIN)) == [f"Client.retry (net.py:3): {text}"]


def test_changes_name_files_and_their_definitions() -> None:
    changed = (
        s.ChangedFile(
            "gone.py",
            "deleted",
            removed=(
                s.RemovedSymbol(FETCH, uses=2),
                s.RemovedSymbol(WHOLE, moved_to=RETRY),
                s.RemovedSymbol(replace(RETRY, name="Client.again"), moved_to=RETRY),
            ),
            removed_count=4,
        ),
        s.ChangedFile(
            "net.py",
            "modified",
            (RETRY,),
            symbol_count=4,
            signatures=(s.ChangedSignature(RETRY, "def retry()"),),
            signature_count=1,
        ),
    )
    reply = s.ChangesReply(**COMMON, base="a" * 40, changed=changed, total_changed=2)
    assert list(structure_text.changes(values(reply), PLAIN)) == [
        "aaaaaaaaaa to the files now: 2 changed files; affects nothing else",
        "gone.py  deleted",
        "  removed  function fetch  2 uses left",
        "  moved  file main.py  to net.py:3",
        "  renamed  method Client.again  to Client.retry",
        "  and 1 more removed definition",
        "net.py  modified",
        "  net.py:3  method Client.retry",
        "  and 3 more definitions",
        "  Client.retry:3  was def retry()  is def retry(self)",
    ]


def test_dependencies_of_a_file_are_a_tree_with_packages_and_cycles() -> None:
    reply = s.DependenciesReply(
        **COMMON,
        target="a.py",
        imports=(s.DependencyNode("b.py", 1), s.DependencyNode("c.py", 2)),
        importers=(s.DependencyNode("b.py", 1),),
        edges=(
            s.DependencyEdge("a.py", "b.py", 1),
            s.DependencyEdge("b.py", "a.py", 2),
            s.DependencyEdge("b.py", "c.py", 3),
        ),
        packages=(s.PackageUse("os", 2), s.PackageUse("re", 1)),
        cycles=(("a.py", "b.py"),),
        total_imports=2,
        total_importers=1,
        notes=("a note",),
    )
    assert list(structure_text.dependencies(values(reply), PLAIN)) == [
        "a.py imports 2, and 1 import it",
        "",
        "imports",
        "  b.py  a.py:1",
        "    c.py  b.py:3",
        "",
        "imported by",
        "  b.py:2  imports a.py",
        "",
        "packages: os (2), re",
        "cycle: a.py · b.py",
        "note: a note",
    ]


@pytest.mark.parametrize(
    ("direction", "line"),
    [
        ("both", "a.py imports 2, and 1 import it"),
        ("imports", "a.py imports 2"),
        ("importers", "1 import a.py"),
    ],
)
def test_only_the_direction_that_was_asked_for_is_counted(direction: Direction, line: str) -> None:
    reply = s.DependenciesReply(
        **COMMON, target="a.py", direction=direction, total_imports=2, total_importers=1
    )
    assert next(structure_text.dependencies(values(reply), PLAIN)) == line


def test_commits_of_a_change_are_equally_short() -> None:
    reply = s.ChangesReply(**COMMON, base="a" * 40, head="b" * 40)
    first = next(structure_text.changes(values(reply), PLAIN))
    assert first.startswith(f"{'a' * 10} to {'b' * 10}: ")


def test_an_outline_without_definitions_says_so() -> None:
    files = (s.OutlineFile("README.md", "markdown"),)
    outline = s.OutlineReply(**COMMON, files=files)
    assert list(structure_text.outline(values(outline), PLAIN)) == [
        "README.md",
        "no definitions are known there",
    ]


def test_modules_are_listed_with_what_they_import() -> None:
    reply = s.DependenciesReply(
        **COMMON,
        kind="directory",
        modules=(s.DependencyNode("api", 0, 3), s.DependencyNode("db", 0, 1)),
        edges=(s.DependencyEdge("api", "db", 0, 2),),
    )
    lines = list(structure_text.dependencies(values(reply), PLAIN))
    assert lines[1:] == ["api  3 files", "  imports db (2)", "db  1 file"]


def test_outlines_and_maps_are_nested_signatures() -> None:
    symbols = (
        s.OutlineSymbol("class", "Client", "class Client:", 1, 9, 0),
        s.OutlineSymbol("method", "Client.retry", "", 3, 9, 1),
    )
    outline = s.OutlineReply(
        **COMMON, files=(s.OutlineFile("net.py", "python", symbols, omitted=2),), omitted_files=5
    )
    assert list(structure_text.outline(values(outline), PLAIN)) == [
        "net.py",
        "    1  class Client:",
        "    3    method Client.retry",
        "       and 2 definitions more",
        "5 more files: a larger budget or a directory shows them",
    ]
    mapped = s.MapReply(**COMMON, files=(s.MapFile("net.py", "python", 0.5, symbols[:1]),))
    assert list(structure_text.repository_map(values(mapped), PLAIN)) == [
        "net.py",
        "    1  class Client:",
    ]
    empty = list(structure_text.repository_map(values(s.MapReply(**COMMON)), PLAIN))
    assert empty == ["no file of this index uses a definition of another one"]


def test_what_an_answer_lacks_is_said() -> None:
    reply = s.ImpactReply(
        **{**COMMON, "fresh": False, "stale_reason": "busy"}, cursor="100", notes=("n",)
    )
    assert list(structure_text.warnings(values(reply)))[:2] == [
        "there are more: a higher limit or the cursor shows them",
        "note: n",
    ]
    assert list(structure_text.warnings(values(reply)))[2].startswith("not fresh: ")


HOSTILE = (
    'a"]; end --> x["b.py',
    "x\ny.py",
    "<script>alert(1)</script>.py",
    "\u202egnp.py",
    "\x1b[31m.py",
    "n1;%%{init: {}}%%.py",
    'quote".py',
    "back\\slash.py",
    "#35;.py",
    "`code`.py",
)


def hostile_reply() -> dict[str, Any]:
    """Return dependencies between files with hostile names."""
    edges = tuple(s.DependencyEdge("a.py", name, 1, 2) for name in HOSTILE)
    nodes = tuple(s.DependencyNode(name, 1) for name in HOSTILE)
    return values(s.DependenciesReply(**COMMON, target="a.py", imports=nodes, edges=edges))


def test_a_hostile_name_is_only_a_label_in_mermaid() -> None:
    lines = list(diagrams.mermaid(hostile_reply()))
    assert lines[0] == "flowchart LR"
    shape = re.compile(r'  n\d+\["[\w ./@+#;-]*"\]|  n\d+ --> n\d+')
    assert all(shape.fullmatch(line) for line in lines[1:]), lines
    assert len(lines) == 1 + len(HOSTILE) + 1 + len(HOSTILE)


def test_a_hostile_name_is_only_a_label_in_dot() -> None:
    lines = list(diagrams.dot(hostile_reply()))
    label = r'"(?:[^"\\]|\\.)*"'
    shape = re.compile(rf"  n\d+ \[label={label}\];|  n\d+ -> n\d+ \[label=2\];")
    assert all(shape.fullmatch(line) and line.isprintable() for line in lines[2:-1]), lines
    assert lines[-1] == "}"


def test_mermaid_draws_as_many_edges_as_it_can() -> None:
    edges = tuple(s.DependencyEdge("a.py", f"b{i}.py", 1) for i in range(diagrams.MAX_EDGES + 3))
    lines = list(diagrams.mermaid(values(s.DependenciesReply(**COMMON, edges=edges))))
    assert sum("-->" in line for line in lines) == diagrams.MAX_EDGES
    assert lines[-1] == "  %% 3 more edges are not drawn"


@pytest.mark.parametrize("render", [structure_text.dependencies])
def test_hidden_characters_are_escaped_in_text(render: Any) -> None:
    text = "\n".join(render(hostile_reply(), PLAIN))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "x\ny.py" not in text
