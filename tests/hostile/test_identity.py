"""The identity of a root: nothing that replaces it (a link, a swap, a special file) is read."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp.shared.exceptions import MCPError
from psycopg import sql

from cocosearch_ipc.client import CallFailed
from cocosearch_ipc.mcp import uris
from tests.daemon import Daemon
from tests.hostile.neighbour import Neighbour
from tests.hostile.swapper import swapping

SECRET = "zanzibarpassphrase"
MARK = "registeredcontent"
WITHIN_MS = 30_000


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory that is no root; its files are named as those of the root, and hold a secret."""
    directory = tmp_path / "outside"
    fill(directory, SECRET)
    return directory


@pytest.fixture
def root(hostile_root: Path) -> Path:
    """A root with a directory and its files."""
    fill(hostile_root, MARK)
    return hostile_root


def fill(directory: Path, word: str) -> None:
    """The same names everywhere, with a word of the place's own."""
    (directory / "src").mkdir(parents=True)
    for name in ("main.py", "src/deep.py"):
        (directory / name).write_text(f"def {word}_function():\n    return '{word}'\n")
    (directory / "cocosearch.yaml").write_text(f"topics: [{word}]\n")


def await_state(daemon: Daemon, state: str, index: str = "hostile") -> dict[str, Any]:
    """The status of an index once its state is as named."""
    end = time.monotonic() + WITHIN_MS / 1000
    while time.monotonic() < end:
        status: dict[str, Any] = next(
            i for i in daemon.call("status")["indexes"] if i["name"] == index
        )
        if status["state"] == state:
            return status
        time.sleep(0.05)
    pytest.fail(f"the root is {status['state']}: {status}")


def rows_with(daemon: Daemon, text: str) -> list[str]:
    """The tables of the daemon's database that have a text in a row, plain or in bytes."""
    listed = """select format('%I.%I', schemaname, tablename) from pg_tables
        where schemaname not like 'pg\\_%' and schemaname <> 'information_schema'"""
    holding = list[str]()
    with psycopg.connect(daemon.call("status")["store"]["dsn"], autocommit=True) as connection:
        for (table,) in connection.execute(listed).fetchall():
            query = sql.SQL("select count(*) from {} t where t::text like any(%s)").format(
                sql.SQL(table)
            )
            patterns = [f"%{text}%", f"%{text.encode().hex()}%"]
            if connection.execute(query, (patterns,)).fetchall() != [(0,)]:
                holding.append(table)
    return holding


def assert_nowhere(daemon: Daemon) -> None:
    """The secret is in no row, log, cache, snapshot or other file of the daemon."""
    assert rows_with(daemon, MARK), "the search itself finds what is stored"
    assert rows_with(daemon, SECRET) == []
    assert SECRET not in daemon.log
    for directory, _, names in os.walk(daemon.home):
        for name in names:
            path = Path(directory, name)
            with contextlib.suppress(FileNotFoundError):  # PostgreSQL removes files all the time
                assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def assert_not_shown(daemon: Daemon, index: str = "hostile") -> None:
    """No verb gives the secret out, whatever it is asked."""
    for query in (MARK, "function", "return deep main"):
        for options in ({}, {"context_lines": 20, "all_chunks": True}):
            with contextlib.suppress(CallFailed):
                answer = daemon.call(
                    "search", query=query, index=index, sync_timeout_ms=20, **options
                )
                assert SECRET not in str(answer["results"])
    for path in ("main.py", "src/deep.py", "cocosearch.yaml"):
        with contextlib.suppress(CallFailed):
            assert SECRET not in str(daemon.call("get_file", path=path, index=index))
    for verb in ("status", "list_indexes"):
        assert SECRET not in str(daemon.call(verb))
    assert SECRET not in str(daemon.call("list_files", index=index))


def replace_root(root: Path, outside: Path) -> None:
    root.rename(root.with_name("away"))
    root.symlink_to(outside)


def replace_ancestor(root: Path, outside: Path) -> None:
    """The directory above is the ancestor; the outside has a `hostile` of its own."""
    root.parent.rename(root.parent.with_name("away"))
    (outside.parent / "fake").mkdir()
    outside.rename(outside.parent / "fake" / root.name)
    root.parent.symlink_to(outside.parent / "fake")


def assert_replaced(daemon: Daemon, index: str) -> None:
    """The hostile root is known to be replaced, and nothing of what replaced it is shown."""
    status = await_state(daemon, "root_missing", index)
    assert "is a symbolic link now" in status["reason"]
    assert "clear this index" in status["reason"]
    answer = daemon.call("search", query=MARK, index=index)
    assert not answer["fresh"]
    assert "is a symbolic link now" in answer["stale_reason"]
    assert answer["results"], "what was indexed is kept"
    assert all(result["stale"] for result in answer["results"])
    assert_not_shown(daemon, index)


def test_roots_replaced_by_links_are_replaced_roots(
    daemon: Daemon, neighbour: Neighbour, tmp_path: Path
) -> None:
    """A root that a link has replaced, and one whose ancestor a link has replaced."""
    neighbour.watch(daemon)
    replacements = {"root": replace_root, "ancestor": replace_ancestor}
    roots = {name: tmp_path / name / "nest" / "hostile" for name in replacements}
    for name, replace in replacements.items():
        outside = tmp_path / name / "outside"
        fill(roots[name], MARK)
        fill(outside, SECRET)
        daemon.index(roots[name], name)
        replace(roots[name], outside)
    for name in replacements:
        assert_replaced(daemon, name)
    neighbour.assert_fresh(daemon)
    daemon.stop()
    daemon.start()  # of what was before it nothing is remembered, but the path
    for name in replacements:
        assert_replaced(daemon, name)
    assert_nowhere(daemon)

    for name, root in roots.items():
        link = root if root.is_symlink() else root.parent
        link.unlink()
        link.with_name("away").rename(link)
        answer = daemon.call(
            "search", query=MARK, index=name, sync_timeout_ms=WITHIN_MS, collapse=False
        )
        assert answer["fresh"]
        assert {result["path"] for result in answer["results"]} >= {"main.py", "src/deep.py"}


async def test_a_replaced_root_gives_nothing_to_assistants(
    shared: Daemon, root: Path, outside: Path
) -> None:
    """Tools and resources of MCP: what was indexed, and nothing that is behind the link."""
    shared.index(root)
    token = (shared.home / "state" / "token").read_text().strip()
    url = shared.call("status")["mcp"]["url"]
    replace_root(root, outside)
    await_state(shared, "root_missing")
    async with Client(
        StreamableHttpTransport(url, headers={"Authorization": f"Bearer {token}"})
    ) as client:
        # a resource is the file of now, or none
        with pytest.raises(MCPError, match="not as it was indexed"):
            await client.read_resource(uris.file("hostile", "main.py"))
        search = str(
            await client.call_tool("search_code", {"query": MARK, "index_name": "hostile"})
        )
        file = str(
            await client.call_tool("get_file", {"filename": "main.py", "index_name": "hostile"})
        )
    for text in (search, file):
        assert MARK in text
        assert SECRET not in text


def test_a_root_that_is_moved_away_and_back_keeps_its_index(shared: Daemon, root: Path) -> None:
    shared.index(root)
    statistics = shared.call("index_stats", index="hostile")
    root.rename(root.with_name("away"))
    await_state(shared, "root_missing")
    root.with_name("away").rename(root)
    answer = shared.call("search", query=MARK, index="hostile", sync_timeout_ms=WITHIN_MS)
    assert answer["fresh"]
    after = shared.call("index_stats", index="hostile")
    assert (after["files"], after["generation"]) == (statistics["files"], statistics["generation"])


def test_a_root_registered_through_a_link_is_the_directory_behind_it(
    shared: Daemon, root: Path, outside: Path
) -> None:
    """A home directory that is a link, or `/tmp` on macOS: nothing is replaced there."""
    link = root.with_name("link")
    link.symlink_to(root)
    shared.index(link)
    (root / "main.py").write_text("def saved_through_real_path(): pass\n")
    answer = shared.call("search", query="saved_through_real_path", cwd=str(link))
    assert (answer["fresh"], answer["results"][0]["path"]) == (True, "main.py")
    link.unlink()
    link.symlink_to(outside)  # the link is of no account any more
    answer = shared.call("search", query="saved_through_real_path", index="hostile")
    assert (answer["fresh"], answer["results"][0]["path"]) == (True, "main.py")


@pytest.mark.parametrize("seconds", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_a_directory_swapped_for_a_link_all_the_time_gives_nothing_away(
    daemon: Daemon, neighbour: Neighbour, tmp_path: Path, seconds: int
) -> None:
    """Queries, files, context and indexing race with the swaps; the secret gets nowhere."""
    neighbour.watch(daemon)
    outside, roots = (
        tmp_path / "outside" / "hostile",
        [tmp_path / name / "hostile" for name in ("root", "above", "in")],
    )
    for top, word in ((outside, SECRET), *((root, MARK) for root in roots)):
        fill(top, word)
    for root in roots:
        daemon.index(root, root.parent.name)
    swapped = (
        (roots[0], outside),
        (roots[1].parent, outside.parent),
        (roots[2] / "src", outside / "src"),
    )
    end, number = time.monotonic() + seconds, 0
    with contextlib.ExitStack() as swappers:
        for directory, target in swapped:
            swappers.enter_context(swapping(directory, target, pause_s=0.001))
        while time.monotonic() < end:
            number += 1
            for root in roots:
                with (
                    contextlib.suppress(OSError),
                    (root / "src" / f"n{number % 5}.py").open("a") as file,
                ):
                    file.write(f"n{number} = 1\n")
                assert_not_shown(daemon, root.parent.name)
        neighbour.assert_fresh(daemon)
    for root in roots:
        answer = daemon.call(
            "search", query=MARK, index=root.parent.name, sync_timeout_ms=WITHIN_MS
        )
        assert answer["fresh"], answer["stale_reason"]
        assert "main.py" in {result["path"] for result in answer["results"]}
        assert_not_shown(daemon, root.parent.name)
    daemon.stop()  # what is in memory is written
    daemon.start()
    assert_nowhere(daemon)
