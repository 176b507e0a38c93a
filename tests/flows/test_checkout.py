"""git switches branches of a watched root: every table then equals that of a fresh index."""

import asyncio
import json
import random
import shutil
import subprocess
from pathlib import Path

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.model import hash_content
from cocosearchd.store import index_records
from cocosearchd.store.connection.database import Database
from tests.daemon import Daemon, git
from tests.flows.test_crash import digest, in_sync, populate, write

FILES = 120


def two_branches(root: Path) -> None:
    """`main` and `other`: files edited, moved with their directory, deleted and new."""
    rng = random.Random(20261121)
    root.mkdir()
    populate(root, rng, FILES)
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "main")
    git(root, "switch", "--quiet", "--create", "other")
    for number in range(0, FILES, 3):
        write(root, rng, number)
    git(root, "mv", "package6", "moved")
    shutil.rmtree(root / "package5")
    for number in range(FILES, FILES + 20):
        write(root, rng, number)
    git(root, "add", "--all", ".")
    git(root, "commit", "--quiet", "--message", "other")
    git(root, "switch", "--quiet", "main")


def computed(daemon: Daemon) -> int:
    number = daemon.call("status")["worker"]["computed"]
    assert isinstance(number, int)
    return number


def fresh_digest(daemon: Daemon, root: Path) -> tuple[object, ...]:
    daemon.ctl("clear", "sample", "--yes", check=False)
    daemon.index(root, "sample")
    in_sync(daemon)
    return digest(daemon)


def held(daemon: Daemon) -> dict[str, dict[str, bytes]]:
    """Return for each index: path -> hash of the content that its rows are of."""

    async def read() -> dict[str, dict[str, bytes]]:
        dsn: str = daemon.call("status")["store"]["dsn"]
        async with Database.open(dsn, DatabaseSettings()) as db:
            return {
                record.name: {
                    file.path: file.content_hash
                    for file in await index_records.file_records(db, record)
                }
                for record in await index_records.list_indexes(db)
            }

    return asyncio.run(read())


def on_disk(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): hash_content(path.read_bytes())
        for path in root.rglob("*.py")
    }


def test_roots_inside_of_each_other_follow_a_switch(shared: Daemon, tmp_path: Path) -> None:
    """One stays, one is made anew, one leaves and comes back; the one around them, given by two
    names, is one index.
    """
    root = tmp_path / "root"
    two_branches(root)
    (root / "main_only").mkdir()
    (root / "main_only" / "here.py").write_text("def here():\n    return 1\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "on main alone")
    (tmp_path / "link").symlink_to(root)
    roots = {
        "outer": root,
        "stays": root / "package1",
        "anew": root / "package6",
        "leaves": root / "main_only",
    }
    switched = ("outer", "stays", "anew")
    for name, directory in roots.items():
        shared.index(directory, name)
    assert shared.json("up", str(tmp_path / "link"), "--wait")["index"] == "outer"
    for branch, present in (("other", switched), ("main", tuple(roots)), ("other", switched)):
        previous = held(shared)
        git(root, "switch", "--quiet", branch)
        for name in roots:
            patience = "30" if name in present else "0.3"
            reply = json.loads(
                shared.ctl(
                    "sync", "--index", name, "--timeout", patience, "--json", check=name in present
                ).stdout
            )
            assert reply["fresh"] is (name in present), (branch, name, reply)
        current = held(shared)
        assert {name: current[name] for name in present} == {
            name: on_disk(roots[name]) for name in present
        }, branch
        assert "leaves" in present or current["leaves"] == previous["leaves"], (
            "what is indexed of a missing root is kept"
        )


def test_there_and_back(daemon: Daemon, shared: Daemon, tmp_path: Path) -> None:
    root = tmp_path / "root"
    two_branches(root)
    daemon.index(root, "sample")
    in_sync(daemon)
    previous = digest(daemon)

    git(root, "switch", "--quiet", "other")
    in_sync(daemon)
    switched, computed_count = digest(daemon), computed(daemon)
    assert switched != previous
    assert switched == fresh_digest(shared, root)

    git(root, "switch", "--quiet", "main")
    in_sync(daemon)
    assert digest(daemon) == previous
    assert previous == fresh_digest(shared, root)
    assert computed(daemon) == computed_count  # nothing was embedded to come back

    git(root, "switch", "--quiet", "other")
    in_sync(daemon)
    assert digest(daemon) == switched
    assert computed(daemon) == computed_count


def test_another_worktree_embeds_nothing(stopped: Daemon, tmp_path: Path) -> None:
    daemon = stopped  # of another test, it may have the vectors
    daemon.start()
    root, worktree = tmp_path / "root", tmp_path / "worktree"
    two_branches(root)
    daemon.index(root, "sample")
    computed_count = computed(daemon)
    subprocess.run(
        ["git", "worktree", "add", "--quiet", "--detach", worktree, "main"], cwd=root, check=True
    )
    daemon.index(worktree, "worktree")
    assert {index["name"]: index["files"] for index in daemon.json("status")["indexes"]} == {
        "sample": FILES,
        "worktree": FILES,
    }
    assert computed(daemon) == computed_count
