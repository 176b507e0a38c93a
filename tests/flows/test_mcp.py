"""Real MCP clients against the real daemon, over both HTTP transports, and refused clients."""

import json
import re
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import mcp_types
import pytest
from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import SSETransport, StreamableHttpTransport
from mcp.shared.exceptions import MCPDeprecationWarning

from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from tests.daemon import Daemon
from tests.mcp_messages import STRUCTURED, answer_text


@pytest.fixture
def listening(shared: Daemon) -> dict[str, str]:
    addresses: dict[str, str] = shared.json("status")["mcp"]
    token = (shared.home / "state" / "token").read_text().strip()
    return addresses | {"token": token}


@pytest.fixture
def served(listening: dict[str, str], shared: Daemon, project: Path) -> dict[str, str]:
    shared.index(project)
    return listening


async def search(transport: Any) -> tuple[set[str], Any]:
    async with Client(transport) as client:
        tools = {tool.name for tool in await client.list_tools()}
        answer = await client.call_tool(
            "search_code",
            {"query": "should_retry", "index_name": "project"},
            meta=STRUCTURED,
        )
        return tools, answer.structured_content


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_client_lists_the_tools_and_finds(served: dict[str, str], kind: str) -> None:
    headers = {"Authorization": f"Bearer {served['token']}"}
    transport: Any = (
        StreamableHttpTransport(served["url"], headers=headers)
        if kind == "http"
        else SSETransport(served["sse_url"], headers=headers)
    )
    tools, answer = await search(transport)
    assert {"search_code", "list_indexes", "index_stats", "index_codebase", "clear_index"} <= tools
    assert answer["results"][0]["path"] == "src/retry.py"
    assert answer["fresh"] is True


async def test_any_text_is_a_question_or_gets_a_sentence(served: dict[str, str]) -> None:
    transport = StreamableHttpTransport(
        served["url"], headers={"Authorization": f"Bearer {served['token']}"}
    )
    frames = '  File "/srv/src/retry.py", line 6, in should_retry\n'
    trace = f"Retries stop\n```\n{frames * 3000}```\n"
    answers = {trace: "src/retry.py", "qzxv wvqk\nzzqq xxvv\n": "Fresh"}  # no word of the index
    refusals = {
        "\x7fELF\x00\x01\x02\n" * 50: "query contains a NUL character",
        "": "the query is empty",
        "```\n```\n": "the query is empty",
        "x" * 200_001: "200,001 characters",
    }
    async with Client(transport) as client:
        for text, sentence in (answers | refusals).items():
            arguments = {"query": text, "index_name": "project"}
            reply = await client.call_tool("search_code", arguments, raise_on_error=False)
            assert sentence in reply.content[0].text, text[:20]
            assert reply.is_error == (text in refusals), text[:20]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
    ],
)
async def test_strangers_are_refused(
    listening: dict[str, str], headers: dict[str, str], status: int
) -> None:
    token_headers = {} if status == 401 else {"Authorization": f"Bearer {listening['token']}"}
    async with httpx.AsyncClient() as client:
        reply = await client.post(listening["url"], json={}, headers=token_headers | headers)
    assert reply.status_code == status


class Told(MessageHandler):
    """Keeps what the server says about resources."""

    def __init__(self) -> None:
        self.relisted, self.updated = 0, set[str]()

    async def on_resource_list_changed(
        self, message: mcp_types.ResourceListChangedNotification
    ) -> None:
        self.relisted += 1

    async def on_resource_updated(self, message: mcp_types.ResourceUpdatedNotification) -> None:
        self.updated.add(str(message.params.uri))


async def test_a_client_hears_of_changes_by_others(
    served: dict[str, str], shared: Daemon, project: Path
) -> None:
    notices, elsewhere = Told(), shared.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b.py").write_text("B = 1\n")
    stats, file = "cocosearch://index/project/stats", "cocosearch://index/project/file/src/retry.py"
    transport = StreamableHttpTransport(
        served["url"], headers={"Authorization": f"Bearer {served['token']}"}
    )
    async with Client(transport, message_handler=notices, mode="legacy") as client:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            for uri in (stats, file):
                await client.session.subscribe_resource(uri)
        changed = "def should_retry() -> bool:\n    return False\n"
        with anyio.fail_after(60):
            while notices.updated < {
                stats,
                file,
            }:  # it tells of changes some time after it is asked
                (project / "src" / "retry.py").write_text(f"{changed}# {time.monotonic_ns()}\n")
                await anyio.sleep(0.2)
        (project / "src" / "retry.py").write_text(changed)
        await anyio.to_thread.run_sync(shared.ctl, "up", str(elsewhere), "--wait")
        with anyio.fail_after(60):
            while notices.relisted < 1:
                await anyio.sleep(0.05)
        (read,) = await client.read_resource(file)
        assert isinstance(read, mcp_types.TextResourceContents)
        assert read.text.rstrip() == "def should_retry() -> bool:\n    return False"
        await anyio.to_thread.run_sync(shared.ctl, "clear", "elsewhere", "--yes")
        with anyio.fail_after(60):
            while notices.relisted < 2:
                await anyio.sleep(0.05)


async def test_indexing_reports_progress_and_its_wait_can_be_given_up(
    served: dict[str, str], shared: Daemon
) -> None:
    many = shared.home / "many"
    many.mkdir()
    for number in range(400):
        (many / f"m{number}.py").write_text(f"def f{number}() -> int:\n    return {number}\n")
    reports = list[float]()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        reports.append(done)

    transport = StreamableHttpTransport(
        served["url"], headers={"Authorization": f"Bearer {served['token']}"}
    )
    async with Client(transport, progress_handler=progress) as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "index_codebase", {"path": str(many)})
                with anyio.fail_after(60):
                    while not reports:
                        await anyio.sleep(0.01)
                scope.cancel()
        # it goes on; this waits for it
        reply = await client.call_tool("index_codebase", {"path": str(many)}, meta=STRUCTURED)
    assert reply.structured_content is not None
    assert reply.structured_content["created"] is False
    assert reply.structured_content["progress"]["done"] == 400


FIRST_MODULE = "packages/package_number_0/source/retry_module_0.py"


@pytest.fixture
def large(shared: Daemon) -> Iterator[Path]:
    """A project whose answers have to be cut: 150 files, one of them with 2,400 lines."""
    root = shared.home / "large"
    for number in range(150):
        package = root / "packages" / f"package_number_{number % 10}" / "source"
        package.mkdir(parents=True, exist_ok=True)
        body = "".join(
            f"    total_{line} = retry_count * {line} + attempt_number\n" for line in range(30)
        )
        text = f"def retry_request_{number}(retry_count, attempt_number):\n{body}    return 1\n"
        (package / f"retry_module_{number}.py").write_text(text)
    long = "".join(
        f"def step_{number}(value):\n    return value + {number}\n\n\n" for number in range(600)
    )
    (root / "long.py").write_text(long)
    shared.index(root)
    yield root
    shared.clear()
    shutil.rmtree(root)


USUAL_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search_code", {"query": "retry request with attempts"}),
    ("search_code", {"query": "retry request with attempts", "context_after": 30}),
    ("search_code", {"query": "sym:function"}),
    ("search", {"query": "retry request with attempts"}),
    ("grep", {"pattern": "retry_count"}),
    ("get_file", {"filename": "long.py"}),
    ("list_files", {}),
    ("find_related", {"filename": FIRST_MODULE, "line": 1}),
    ("explain_query", {"query": "retry request with attempts", "why_not": "long.py"}),
    ("list_indexes", {}),
    ("index_stats", {"include_failures": True}),
)


async def test_usual_answers_fit_and_name_the_next_call(
    listening: dict[str, str], large: Path
) -> None:
    async with Client(_http(listening)) as client:
        answers = [answer_text(await client.call_tool(tool, call)) for tool, call in USUAL_CALLS]
        sizes = [estimate_tokens(answer) for answer in answers]
        print({tool: size for (tool, _), size in zip(USUAL_CALLS, sizes, strict=True)})
        assert max(sizes) <= 1500
        for (tool, call), answer in zip(USUAL_CALLS, answers, strict=True):
            next_call = _next_call(tool, answer)
            if next_call is not None:
                following = answer_text(await client.call_tool(tool, call | next_call))
                assert set(_places(following)) - set(_places(answer)), tool
            else:
                assert tool in ("explain_query", "search", "list_indexes", "index_stats")


async def test_related_code_says_what_it_leaves_out(listening: dict[str, str], large: Path) -> None:
    async with Client(_http(listening)) as client:
        call = {"filename": FIRST_MODULE, "line": 1, "limit": 2}
        answer = answer_text(await client.call_tool("find_related", call))
    assert re.search(
        rf"Left out: {FIRST_MODULE}, more of these files, and code less similar than \d\.\d\d\.$",
        answer,
    )


async def test_an_explanation_takes_the_filters_of_a_search(
    listening: dict[str, str], large: Path
) -> None:
    call = {"query": "retry request", "paths": ["**/package_number_3/**"], "language": "python"}
    async with Client(_http(listening)) as client:
        answer = answer_text(
            await client.call_tool("explain_query", call | {"why_not": FIRST_MODULE})
        )
    assert "1. packages/package_number_3/" in answer
    assert "left out by the filter on" in answer


def _http(listening: dict[str, str]) -> StreamableHttpTransport:
    return StreamableHttpTransport(
        listening["url"], headers={"Authorization": f"Bearer {listening['token']}"}
    )


def _next_call(tool: str, answer: str) -> dict[str, Any] | None:
    """The arguments of the call that an answer names as the next one."""
    if tool == "search":
        return None  # it has no budget; search_code has
    call = re.search(rf"{tool}\((.*)\)$", answer, re.MULTILINE)
    same_call = re.search(r"the same call with (\w+=(?:\d+|\"(?:[^\"\\]|\\.)*\"))", answer)
    match = call or same_call
    if match is None:
        return None
    pairs = re.findall(r'(\w+)=(\d+|"(?:[^"\\]|\\.)*")', match[1])
    return {name: json.loads(value) for name, value in pairs}


def _places(answer: str) -> list[str]:
    """The lines of an answer that name a file, or lines of it."""
    return re.findall(r"^(?:packages/|long\.py:)\S+", answer, re.MULTILINE)
