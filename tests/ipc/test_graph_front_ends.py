"""Verbs about the code graph through the front ends: requests and answers."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import get_args

import pytest
from fastmcp import Client

from cocosearch_ipc import graph_protocol as g
from cocosearch_ipc.cli import exits
from cocosearch_ipc.graph_vocabulary import REFERENCE_KINDS
from cocosearch_ipc.mcp.root_policy import RootPolicy
from cocosearch_ipc.mcp.server import McpServer
from cocosearch_ipc.render import output
from cocosearch_ipc.render.graph import reference_answers
from cocosearch_ipc.render.visible import CONTENT_NOTICE
from cocosearchd.graph.questions import reference_pages
from cocosearchd.languages.code_facts import UseKind
from tests.ipc.conftest import Served
from tests.ipc.engine import SERVER, FixedEngine

CTL = [
    sys.executable,
    "-c",
    "import sys; from cocosearch_ipc.cli.main import main; sys.exit(main())",
]
PLAIN = output.Style(colour=False, links=False)


def ctl(served: Served, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CTL, *arguments],
        env=served.environment,
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/srv",
        check=False,
    )


def test_kinds_of_uses_are_those_of_parsed_files_and_imports() -> None:
    """The daemon's `languages` imports no front end, so it has its own list."""
    assert {*get_args(UseKind), reference_pages.IMPORT} == set(REFERENCE_KINDS)


def test_options_become_parameters(served: Served) -> None:
    options = (
        *("--index", "demo", "--lang", "go", "--path", "src/**", "--not-path", "x"),
        *("--min-confidence", "likely", "--limit", "7", "--cursor", "[1]", "--budget", "900"),
    )
    common = {
        "index": "demo",
        "cwd": "/srv",
        "languages": ("go",),
        "paths": ("src/**",),
        "not_paths": ("x",),
        "min_confidence": "likely",
        "limit": 7,
        "cursor": "[1]",
        "budget_tokens": 900,
    }
    assert (
        ctl(served, "references", "a", "--kind", "call,type", "--count-all", *options).returncode
        == 0
    )
    assert ctl(served, "callers", "a", "--depth", "3", *options).returncode == 0
    assert ctl(served, "callees", "a", "--no-sync").returncode == 0
    assert ctl(served, "definition", "a.py:3").returncode == 0
    assert served.engine.requests == [
        g.ReferencesRequest("a", **common, kinds=("call", "type"), count_all=True),  # type: ignore[arg-type]
        g.CallsRequest("a", **common, depth=3),  # type: ignore[arg-type]
        g.CallsRequest("a", cwd="/srv", sync_timeout_ms=0),
        g.DefinitionRequest("a.py:3", cwd="/srv"),
    ]


def test_an_unknown_confidence_is_refused_with_the_valid_ones(served: Served) -> None:
    done = ctl(served, "references", "a", "--min-confidence", "sure")
    assert done.returncode == exits.USAGE
    assert "use one of 'certain', 'likely', 'possible'" in done.stderr


def test_references_on_a_pipe_are_places(served: Served) -> None:
    done = ctl(served, "references", "retry")
    assert done.stdout.splitlines() == [
        "demo/src/app.py:7:3:client.retry(2)",
        "demo/src/app.py:9:1:x.retry(2)",
    ]
    assert "there are more: raise --limit" in done.stderr
    assert "--cursor '[1]'" in done.stderr


def test_no_references_on_a_pipe_are_no_lines_and_a_sentence(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer_nothing(request: g.ReferencesRequest) -> g.ReferencesReply:
        reply = await FixedEngine.references(served.engine, request)
        return replace(reply, files=(), total=0, total_files=0, counts={}, cursor=None)

    monkeypatch.setattr(served.engine, "references", answer_nothing)
    done = ctl(served, "references", "retry")
    assert (done.returncode, done.stdout) == (exits.OK, "")
    assert done.stderr == "no use of Client.retry (src/retry.py:3) in demo\n"


def test_references_for_people_are_grouped_with_reasons(served: Served) -> None:
    reply = json.loads(ctl(served, "references", "retry", "--json").stdout)
    assert list(reference_answers.references(reply, PLAIN))[:5] == [
        "3 uses of Client.retry (src/retry.py:3) in 2 files: 2 certain, 1 possible",
        "",
        "src/app.py  2",
        "    7:3  client.retry(2)  main",
        "    9:1  x.retry(2)  possible: by its name alone",
    ]


def test_files_that_were_not_read_are_named_with_the_counts(served: Served) -> None:
    reply = json.loads(ctl(served, "references", "retry", "--json").stdout)
    assert next(reference_answers.references(reply | {"unread_files": 7}, PLAIN)) == (
        "3 uses of Client.retry (src/retry.py:3) in 2 files or more, "
        "as 7 files with the name were not read: 2 certain, 1 possible"
    )


def test_a_page_of_callers_is_not_said_to_be_all(served: Served) -> None:
    reply = json.loads(ctl(served, "callers", "retry", "--json").stdout)
    lines = list(reference_answers.callers(reply | {"cursor": "[2]"}, PLAIN))
    assert lines[0] == "2 or more callers of Client.retry (src/retry.py:3)"


def test_trees_and_definitions_as_text(served: Served) -> None:
    assert ctl(served, "callers", "retry").stdout.splitlines() == [
        "2 callers of Client.retry (src/retry.py:3)",
        "main  src/app.py:7:3  client.retry(2)  (and 1 more)",
        "  Client.retry  src/app.py:7:3  client.retry(2)  (recursion)  likely: only one",
    ]
    assert ctl(served, "callees", "retry").stdout.splitlines() == [
        "2 callees of Client.retry (src/retry.py:3)",
        "main  src/app.py:6  called at line 7, …",
        "  Client.retry  src/retry.py:3  called at line 7  (recursion)  likely: only one",
        "outside of the index: print",
    ]
    assert ctl(served, "definition", "src/app.py:7").stdout.splitlines() == [
        "retry  src/app.py:7:3  likely: it seems so",
        "  src/retry.py:3-5  method Client.retry",
        "      def retry(self, times: int) -> None",
    ]


def test_scip_imports_a_file_by_its_whole_path_or_removes_all(served: Served) -> None:
    done = ctl(served, "scip", "index.scip", "--index", "demo")
    assert done.stdout == "demo: 1,200 uses in 2 files are certain now\n"
    assert done.stderr.splitlines() == [
        "left out 1 file changed after the SCIP index: make it again, and import it",
        "left out 4 documents not in the index",
    ]
    done = ctl(served, "scip", "--remove")
    assert done.stdout == "demo: removed the precise uses of 3 files\n"
    assert served.engine.requests == [
        g.ScipRequest("/srv/index.scip", index="demo"),
        g.ScipRequest(remove=True, cwd="/srv"),
    ]
    assert ctl(served, "scip").returncode == exits.USAGE
    assert json.loads(ctl(served, "scip", "--remove", "--json").stdout)["removed"] == 3


def test_hostile_names_do_not_control_the_terminal(served: Served) -> None:
    reply = json.loads(ctl(served, "references", "retry", "--json").stdout)
    reply["files"][0]["path"] = "a\x1b[2Jb"
    reply["files"][0]["references"][0] |= {"text": "\x1b]0;x\x07", "symbol_name": "\x9b31m"}
    reply["definitions"][0] |= {"name": "\x1b[2J", "path": "\u202e"}
    reply["notes"] = ["\x1b[2J"]
    text = "\n".join(reference_answers.references(reply, PLAIN))
    assert text.replace("\n", "").isprintable()


def test_the_repl_asks_the_graph_of_its_index(served: Served) -> None:
    lines = "/index demo\n/references retry\n/callers retry\n/definition\n/index a,b\n/callees x\n"
    done = subprocess.run(
        [*CTL, "repl"],
        input=lines,
        env=served.environment,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=os.fspath("/srv"),
        check=False,
    )
    assert "3 uses of Client.retry" in done.stdout
    assert "2 callers of Client.retry" in done.stdout
    assert "give a name or a location, for example /definition Client.retry" in done.stderr
    assert "the code graph is of one index" in done.stderr
    assert served.engine.requests[:1] == [g.ReferencesRequest("retry", "demo", cwd="/srv")]


async def ask(engine: FixedEngine, **arguments: object) -> str:
    async with Client(
        McpServer(engine, RootPolicy((), "/nowhere"), SERVER.answer_tokens).fastmcp
    ) as client:
        answer = await client.call_tool(
            "find_references", {"index_name": "demo", **arguments}, raise_on_error=False
        )
        return "".join(block.text for block in answer.content if hasattr(block, "text"))


async def test_the_tool_answers_references_with_counts_first_and_the_next_call() -> None:
    engine = FixedEngine()
    assert (await ask(engine, target="retry", language="go,c")).splitlines() == [
        "3 uses in 2 files: 2 certain, 1 possible.",
        CONTENT_NOTICE,
        "```",
        "of src/retry.py:3-5  method Client.retry  def retry(self, times: int) -> None",
        "src/app.py (2)",
        "7:3: client.retry(2)  [main]",
        "9:1: x.retry(2)  possible: by its name alone",
        "```",
        'More: the same call with cursor="[1]"; paths narrow it.',
        "Fresh as of 3f0c9a52/7.",
    ]
    request = engine.requests[-1]
    assert isinstance(request, g.ReferencesRequest)
    assert (request.languages, request.index, request.limit) == (("go", "c"), "demo", 100)
    assert request.budget_tokens == 1350


@pytest.mark.parametrize(
    ("relation", "row"),
    [
        ("callers", "main  src/app.py:7: client.retry(2) (+1)"),
        ("callees", "main  src/app.py:6  called at line 7 (+1)"),
        ("definition", "retry at src/app.py:7:3  likely: it seems so"),
    ],
)
async def test_the_tool_answers_other_relations(relation: str, row: str) -> None:
    text = await ask(FixedEngine(), target="retry", relation=relation, depth=2)
    assert row in text.splitlines()


async def test_an_unknown_relation_is_refused_with_the_valid_ones() -> None:
    text = await ask(FixedEngine(), target="retry", relation="users")
    assert text == (
        "unknown relation 'users'\nHint: use one of references, definition, callers, callees"
    )
