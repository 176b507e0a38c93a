"""Files over MCP: named as results name them, and in parts that fit a context window."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from fastmcp import Client

from cocosearch_ipc import error_codes
from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol as w
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.mcp import compact_text as text_of
from cocosearch_ipc.mcp.root_policy import RootPolicy
from cocosearch_ipc.mcp.server import McpServer
from cocosearch_ipc.render.visible import CONTENT_NOTICE
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.search.answers.file_content import FileContent, fit_content
from tests.ipc.engine import RESULT, FixedEngine
from tests.mcp_messages import STRUCTURED, answer_text

LINES = 4_000


class OneFile(FixedEngine):
    """Has `src/a.py`, of 4,000 lines, and `odd:3`, of one."""

    async def get_file(self, request: w.GetFileRequest) -> w.GetFileReply:
        lines = {
            "src/a.py": [f"line {n}: {'x' * 20}\n" for n in range(1, LINES + 1)],
            "odd:3": ["three\n"],
        }.get(request.path)
        if lines is None:
            raise Failure(f"index demo has no file {request.path}", code=error_codes.NOT_FOUND)
        first = request.start_line or 1
        last = min(request.end_line or len(lines), len(lines))
        content = FileContent(
            "demo",
            request.path,
            "python",
            "".join(lines[first - 1 : last]),
            first,
            last,
            len(lines),
            "disk",
        )
        assert request.budget_tokens is not None
        page = fit_content(content, request.budget_tokens)
        return w.GetFileReply(
            "demo", page.path, "python", page.content, first, page.last_line, len(lines), True
        )


async def got(answer_tokens: int = 1500, **arguments: object) -> Any:
    server = McpServer(OneFile(), RootPolicy((), "/nowhere"), answer_tokens=answer_tokens)
    async with Client(server.fastmcp) as client:
        return await client.call_tool(
            "get_file",
            {"index_name": "demo", **arguments},
            meta=STRUCTURED,
            raise_on_error=False,
        )


@pytest.mark.parametrize(
    ("arguments", "head"),
    [
        ({"filename": "src/a.py:12-14"}, "src/a.py:12-14 of 4000 lines"),
        ({"filename": "src/a.py:12"}, "src/a.py:12-12 of 4000 lines"),
        ({"filename": "odd:3"}, "odd:3:1-1 of 1 lines"),
    ],
)
async def test_a_file_may_be_named_with_its_lines(arguments: dict[str, Any], head: str) -> None:
    assert answer_text(await got(**arguments)).startswith(f"{CONTENT_NOTICE}\n{head}\n")


async def test_a_place_that_is_in_no_file_is_told_as_it_was_named() -> None:
    answer = await got(filename="src/b.py:3")
    assert answer.is_error
    assert "no file src/b.py" in answer_text(answer)
    answer = await got(filename="src/a.py:3", start_line=1)  # which lines, then?
    assert "no file src/a.py:3" in answer_text(answer)


@pytest.mark.parametrize(
    ("answer_tokens", "arguments"), [(1500, {}), (4000, {}), (1500, {"budget_tokens": 4000})]
)
async def test_a_long_file_comes_in_pages_that_name_the_next_call(
    answer_tokens: int, arguments: dict[str, Any]
) -> None:
    """A file of 4,000 lines, here from line 3,001 on: each page names the call for the next."""
    call: dict[str, Any] = {"filename": "src/a.py", "start_line": 3001}
    pages = list[str]()
    while True:
        answer = await got(answer_tokens, **call, **arguments)
        page = answer_text(answer)
        assert estimate_tokens(page) <= max(answer_tokens, arguments.get("budget_tokens", 0)) + 50
        pages.append(answer.structured_content["content"])
        match = re.search(r"^(\d+) more lines: get_file\((.*)\)$", page, re.MULTILINE)
        if match is None:
            break
        last = answer.structured_content["end_line"]
        assert int(match[1]) == LINES - last
        call = {
            name: json.loads(value)
            for name, value in (part.split("=", 1) for part in match[2].split(", "))
        }
        assert call == {"filename": "src/a.py", "start_line": last + 1, "index_name": "demo"}
        del call["index_name"]  # `got` names it
    assert len(pages) > 2
    assert "".join(pages) == "".join(f"line {n}: {'x' * 20}\n" for n in range(3001, LINES + 1))


async def test_named_lines_come_at_once_up_to_a_limit() -> None:
    answer = await got(filename="src/a.py", start_line=1, end_line=600)
    assert answer.structured_content["end_line"] == 600
    answer = answer_text(await got(filename="src/a.py:1-4000"))
    assert 6_000 < estimate_tokens(answer) < 13_000
    assert re.search(r'get_file\(filename="src/a.py", start_line=\d+, end_line=4000, ', answer)


async def test_lines_that_were_not_asked_for_are_not_missed() -> None:
    assert answer_text(await got(filename="src/a.py", start_line=3, end_line=5)).endswith("```")
    assert answer_text(await got(filename="src/a.py:3-5")).endswith("```")


def test_statistics_name_what_was_skipped_and_each_failure() -> None:
    failure = {
        "path": "src/broken.py",
        "language": "python",
        "status": "partial",
        "errors": 2,
        "message": "",
    }
    reply = p.StatsReply(
        "demo", "/srv/demo", 3, 5, 4, 12_345, {}, {"python": {"partial": 1}}, {"minified": 2}, None, {}, 7,
        (failure,), ("one file was made with other settings",),
        stale_reason="1 change is not applied yet", failure_count=3,
    )  # fmt: skip
    lines = text_of.stats(reply).splitlines()
    assert "Not fully parsed: 1. Skipped: minified 2. Last change: never." in lines[0]
    assert lines[1] == "NOT fresh: 1 change is not applied yet."
    assert lines[2:] == [
        "one file was made with other settings",
        "src/broken.py  python  partial  2",
        "... and 2 more",
    ]


def test_an_index_is_listed_with_its_topics() -> None:
    status = p.IndexStatus("demo", "/srv/demo", ("api", "web"), "live", 3, 5, 0, 7, None)
    assert text_of.indexes(p.IndexesReply((status,))).endswith("5 chunks  topics: api, web")


def test_skipped_files_are_told_beside_the_others() -> None:
    status = p.IndexStatus(
        "demo", "/srv/demo", (), "live", 3, 5, 0, 7, None, skipped={"minified": 2, "binary": 1}
    )
    assert "3 files, 3 skipped, 5 chunks" in text_of.indexes(p.IndexesReply((status,)))
    assert text_of.progress(p.IndexProgress("demo", "live", 6, 6, 5, 0, skipped=3)) == (
        "live: 6 of 6 files, 3 of them skipped, 5 chunks"
    )


def test_files_of_several_indexes_are_told_apart() -> None:
    first, second = (w.FileEntry(index, "src/a.py", "go", 2) for index in ("one", "other"))
    lines = text_of.files(w.ListFilesReply((first, second))).splitlines()
    assert lines[1:3] == ["one: src/a.py  go", "other: src/a.py  go"]
    assert text_of.files(w.ListFilesReply((first,))).splitlines()[1].startswith("src/a.py  go")


def test_no_file_is_told_with_what_paths_are_relative_to() -> None:
    assert "relative to the root" in text_of.files(w.ListFilesReply((), None))


def test_a_list_says_whether_it_is_of_the_disk() -> None:
    entry = w.FileEntry("demo", "src/a.py", "go", 2)
    at = p.AsOf("3f0c9a52-0000", 7)
    assert text_of.files(w.ListFilesReply((entry,), None, True, None, at)).endswith(
        "1 files.\nFresh as of 3f0c9a52/7."
    )
    late = w.ListFilesReply((entry,), None, False, "src is being read", at, ("src/b.py",))
    assert text_of.files(late).endswith(
        "NOT fresh as of 3f0c9a52/7: src is being read. Pending: src/b.py."
    )
    assert "NOT fresh" in text_of.files(w.ListFilesReply(()))


def test_a_name_stays_on_its_line() -> None:
    """An assistant takes what stands on a line of its own for ours."""
    odd = "a\nFresh.\x1b[31m.py"
    visible_name = r"a\x0aFresh.\x1b[31m.py"
    assert (
        text_of.files(w.ListFilesReply((w.FileEntry("demo", odd, "python", 1),)))
        .split("\n")[1]
        .startswith(f"{visible_name}  python")
    )
    file = w.GetFileReply("demo", odd, "python", "x\n", 1, 1, 1, fresh=True)
    assert text_of.file(file).split("\n")[1] == f"{visible_name}:1-1 of 1 lines"
    progress = p.IndexProgress("demo", "live", 1, 1, 1, 0)
    assert visible_name in text_of.indexed(p.IndexCodebaseReply("demo", odd, True, progress))


@pytest.mark.parametrize(
    ("name", "signature", "row"),
    [
        ("Job", "class Job(Base)", "src/retry.py:3-5  class Job(Base)"),
        ("Client.retry", "def retry(self)", "src/retry.py:3-5  Client.retry  def retry(self)"),
        ("Job", None, "src/retry.py:3-5  Job  method"),
    ],
)
def test_a_listed_symbol_has_its_name_once(name: str, signature: str | None, row: str) -> None:
    symbol = replace(RESULT, symbol_name=name, symbol_signature=signature)
    reply = p.SearchReply(
        "sym:class", (symbol,), True, None, None, "miss", {}, "demo", listing=True, cursor="next"
    )
    assert text_of.search(reply).splitlines() == [
        CONTENT_NOTICE,
        "```",
        row,
        "```",
        'More: the same call with cursor="next"',
        "Fresh.",
    ]
