"""The history of a project as evidence for the later files of a long answer, through the daemon."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon, git

pytestmark = pytest.mark.timeout(180)

MODULES = (
    *("account", "basket", "catalog", "coupon", "currency", "customer", "delivery", "discount"),
    *("invoice", "ledger", "notice", "order", "payment", "refund", "report", "review"),
)
# The words of the report are in each file alike, so that nothing but history tells them apart.
TEXT = '"""Handles the {name} of a shop."""\n\n\ndef handle_{name}(amount, rounding):\n    return amount\n'
REPORT = (
    "Amounts of a shop are handled with a wrong rounding\n"
    "When the amount is handled, the rounding is lost. "
    + "Each amount of a shop is handled so. "
    * 8
)
MESSAGE = "Keep the rounding of an amount"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with a file for each module, and one commit."""
    root = tmp_path / "shop"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for name in MODULES:
        (root / f"{name}.py").write_text(TEXT.format(name=name))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Add a shop")
    return root


def commit(root: Path, message: str, *names: str) -> None:
    """Commit files, each with a change that no question finds."""
    for name in names:
        with (root / f"{name}.py").open("a") as file:
            file.write("\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)


def reads(daemon: Daemon) -> list[dict[str, Any]]:
    """Return the log records of reads of histories."""
    records = [json.loads(line) for line in daemon.log.splitlines() if line.startswith("{")]
    return [record for record in records if record.get("event") == "history_read"]


def await_reads(daemon: Daemon, count: int) -> dict[str, Any]:
    """Wait until histories were read so many times; return the record of the last time."""
    end = time.monotonic() + 60
    while len(records := reads(daemon)) < count:
        assert time.monotonic() < end, daemon.log[-4000:]
        time.sleep(0.1)
    return records[-1]


def ask(daemon: Daemon, **options: Any) -> list[str]:
    """Return the paths of the answer to the report, in their order."""
    options = {"limit": len(MODULES), "index": "shop"} | options
    return [hit["path"] for hit in daemon.call("search", query=REPORT, **options)["results"]]


def test_history_orders_the_tail_and_follows_head(stopped: Daemon, shop: Path) -> None:
    commit(shop, "Fold names", "refund")
    git(shop, "checkout", "-qb", "future")
    commit(shop, MESSAGE, "ledger")
    git(shop, "checkout", "-q", "main")
    stopped.variables["COCOSEARCH_SEARCH_HISTORY"] = "false"
    stopped.start()
    stopped.index(shop)
    plain = ask(stopped)
    assert sorted(plain) == sorted(f"{name}.py" for name in MODULES)
    assert not reads(stopped)
    stopped.stop()
    del stopped.variables["COCOSEARCH_SEARCH_HISTORY"]

    stopped.start()
    assert await_reads(stopped, 1)["commits"] == 2, "no commit of another branch"
    earlier = ask(stopped)
    path = plain[9]
    commit(shop, MESSAGE, path.removesuffix(".py"))
    assert await_reads(stopped, 2)["new"] == 1
    after = ask(stopped)
    assert after[:3] == plain[:3] == earlier[:3]
    assert 3 <= after.index(path) < earlier.index(path), "no cached answer of another history"
    assert sorted(after) == sorted(plain)
    assert ask(stopped, use_cache=False) == after

    assert path not in ask(stopped, not_paths=[path])
    request = {"query": REPORT, "index": "shop", "limit": len(MODULES), "explain": True}
    explained = stopped.call("search", **request)["explain"]
    result = next(r for r in find(explained, "results") if r["path"] == path)
    assert result["features"]["history_messages"] == max(
        r["features"].get("history_messages", 0.0) for r in find(explained, "results")
    )
    assert find(explained, "history")["commits"] == 3

    git(shop, "checkout", "-q", "--detach", "future")
    assert await_reads(stopped, 3)["commits"] == 3
    assert ask(stopped).index(path) > after.index(path), "that commit is no ancestor any more"


def find(tree: Any, name: str) -> Any:
    """Return the first non-empty value with a name anywhere in a tree of JSON."""
    if isinstance(tree, dict):
        if tree.get(name):
            return tree[name]
        tree = list(tree.values())
    if isinstance(tree, list):
        return next((value for item in tree if (value := find(item, name))), None)
    return None


def test_a_repository_that_cannot_be_read_is_logged_once(stopped: Daemon, shop: Path) -> None:
    git(shop, "repack", "-adq")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=shop, capture_output=True, check=True, text=True
    ).stdout.strip()
    [pack] = (shop / ".git" / "objects" / "pack").glob("*.pack")
    moved = shop.parent / "pack"
    pack.rename(moved)
    with moved.open("rb") as objects:
        subprocess.run(["git", "unpack-objects", "-q"], cwd=shop, stdin=objects, check=True)
    (shop / ".git" / "objects" / head[:2] / head[2:]).unlink()
    stopped.start()
    stopped.index(shop)
    end = time.monotonic() + 60
    while "history_not_read" not in stopped.log:
        assert time.monotonic() < end, stopped.log[-4000:]
        time.sleep(0.1)
    for _ in range(3):
        assert ask(stopped, use_cache=False)
        time.sleep(0.2)
    assert stopped.log.count("history_not_read") == 1
