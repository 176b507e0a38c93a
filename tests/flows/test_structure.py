"""Impact, changes, dependencies, outlines and maps through the whole daemon."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cocosearch_ipc import address, client
from cocosearch_ipc.client import CallFailed
from tests.daemon import Daemon, ensure_index, git

FILES = {
    "shop/__init__.py": "",
    "shop/prices.py": (
        "import decimal\n\n\n"
        "def round_price(value):\n    return decimal.Decimal(value)\n\n\n"
        "def unused():\n    return 1\n"
    ),
    "shop/cart.py": (
        "from shop.prices import round_price\n\n\n"
        "class Cart:\n"
        "    def __init__(self, items):\n        self.items = items\n\n"
        "    def total(self):\n        return round_price(sum(self.items))\n"
    ),
    "shop/orders.py": (
        "from shop.cart import Cart\n\n\n"
        "def place(items):\n    cart = Cart(items)\n    return cart.total()\n"
    ),
    "web/views.py": "from shop import orders\n\n\ndef buy(request):\n    return orders.place(request)\n",
    "web/urls.py": "from web.views import buy\n\nROUTES = [buy]\n",
    "tests/test_cart.py": (
        "from shop.cart import Cart\n\n\n"
        "def test_total():\n    cart = Cart([1])\n    assert cart.total() == 1\n"
    ),
    "loop/a.py": "from loop import b\n\n\ndef fa():\n    return b.fb()\n",
    "loop/b.py": "from loop import a\n\n\ndef fb():\n    return a.fa()\n",
    "loop/__init__.py": "",
    "notes.md": "# Notes\n\nNothing of interest.\n",
}


def write(root: Path, files: dict[str, str]) -> Path:
    """Write files below a directory."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def commit_files(root: Path) -> Path:
    """Make a repository of the files."""
    write(root, FILES)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


@pytest.fixture
def shop(shared: Daemon, tmp_path: Path) -> Path:
    """Index a committed repository of the test's own."""
    shared.clear()  # of the index that tests which only read share
    root = commit_files(tmp_path / "shop")
    shared.index(root, "shop")
    return root


@pytest.fixture(scope="module")
def unchanged_root(
    common_daemon: Daemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    yield commit_files(tmp_path_factory.mktemp("unchanged") / "shop")
    common_daemon.clear()


@pytest.fixture
def reader(common_daemon: Daemon, unchanged_root: Path) -> Daemon:
    """The daemon with an index of the repository, for tests that only read."""
    ensure_index(common_daemon, unchanged_root, "shop")
    return common_daemon


def affected(reply: dict[str, Any]) -> dict[str, int]:
    """Return the affected definitions with their distances."""
    assert reply["fresh"], reply["stale_reason"]
    assert reply["complete"], reply["notes"]
    return {entry["symbol"]["name"]: entry["distance"] for entry in reply["affected"]}


def test_impact_names_users_of_users_and_tests(reader: Daemon) -> None:
    reply = reader.call("impact", target="round_price", index="shop")
    assert affected(reply) == {
        "Cart.total": 1,
        "place": 2,
        "test_total": 2,
        "buy": 3,
    }
    assert reply["test_files"] == ["tests/test_cart.py"]
    assert reply["distances"] == {"1": 1, "2": 2, "3": 1}
    entry = reply["affected"][0]
    assert (entry["via"], entry["line"], entry["symbol"]["path"]) == (
        "round_price",
        9,
        "shop/cart.py",
    )
    far = affected(reader.call("impact", target="round_price", index="shop", depth=1_000))
    assert far["ROUTES"] == 4
    assert affected(reader.call("impact", target="unused", index="shop")) == {}


def test_a_file_and_a_place_are_targets_as_well(reader: Daemon, unchanged_root: Path) -> None:
    by_file = reader.call("impact", target="shop/prices.py", index="shop", depth=1)
    by_place = reader.call("impact", target="shop/prices.py:5", index="shop", depth=1)
    absolute = reader.call("impact", target=f"{unchanged_root}/shop/prices.py:4", depth=1)
    assert affected(by_place) == affected(absolute) == {"Cart.total": 1}
    assert affected(by_file)["Cart.total"] == 1


def test_impact_comes_page_by_page_and_passes_filters(reader: Daemon) -> None:
    everything = reader.call("impact", target="round_price", index="shop")
    pages = list[Any]()
    cursor: dict[str, Any] = {}
    while True:
        page = reader.call("impact", target="round_price", index="shop", limit=1, **cursor)
        pages += page["affected"]
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
    assert pages == everything["affected"]
    tests = reader.call("impact", target="round_price", index="shop", paths=["tests/**"])
    assert affected(tests) == {"test_total": 2}


def test_a_save_changes_the_next_answer(shared: Daemon, shop: Path) -> None:
    (shop / "web/views.py").write_text(
        "from shop.prices import unused\n\n\ndef view():\n    unused()\n"
    )
    assert affected(shared.call("impact", target="unused", index="shop")) == {"view": 1}
    assert affected(shared.call("impact", target="place", index="shop")) == {}


def test_changes_lead_from_lines_to_definitions_to_tests(shared: Daemon, shop: Path) -> None:
    unchanged = shared.call("changes", index="shop")
    assert (unchanged["changed"], unchanged["total"]) == ([], 0)
    text = FILES["shop/prices.py"].replace("Decimal(value)", "Decimal(value) + 1")
    write(
        shop,
        {"shop/prices.py": f"# a comment\n{text}", "shop/fresh.py": "def added():\n    pass\n"},
    )
    (shop / "loop/b.py").unlink()
    reply = shared.call("changes", index="shop")
    changed = {
        file["path"]: (file["kind"], [symbol["name"] for symbol in file["symbols"]])
        for file in reply["changed"]
    }
    assert changed == {
        "loop/b.py": ("deleted", []),
        "shop/fresh.py": ("untracked", ["shop/fresh.py", "added"]),
        "shop/prices.py": ("modified", ["shop/prices.py", "round_price"]),
    }
    assert affected(reply)["Cart.total"] == 1
    assert reply["test_files"] == ["tests/test_cart.py"]
    inside = shared.call("changes", index="shop", target="loop")
    assert [file["path"] for file in inside["changed"]] == ["loop/b.py"]
    filtered = shared.call("changes", index="shop", not_paths=["shop/**"])
    assert [file["path"] for file in filtered["changed"]] == ["loop/b.py"]
    assert filtered["total_changed"] == 1
    assert filtered["notes"] == ["2 further changed files do not pass the filters"]
    assert filtered["test_files"] == ["tests/test_cart.py"], "the change is the whole one"


def test_what_a_change_removes_or_moves_is_listed_with_who_still_uses_it(
    shared: Daemon, shop: Path
) -> None:
    prices = FILES["shop/prices.py"].replace("def unused():", "def unused(amount):")
    moved = prices.index("def round_price"), prices.index("def unused")
    write(
        shop,
        {
            "shop/prices.py": prices[: moved[0]] + prices[moved[1] :],
            "shop/rounding.py": "import decimal\n\n\n" + prices[moved[0] : moved[1]],
            "web/urls.py": "from shop.prices import unused\n\nunused()\n",
        },
    )
    (shop / "loop/b.py").unlink()
    reply = shared.call("changes", index="shop", depth=2)
    files = {file["path"]: file for file in reply["changed"]}
    [entry] = files["shop/prices.py"]["removed"]
    assert (entry["symbol"]["name"], entry["uses"]) == ("round_price", 2)
    assert entry["moved_to"]["path"] == "shop/rounding.py"
    [signature] = files["shop/prices.py"]["signatures"]
    assert signature["symbol"]["signature"] == "def unused(amount)"
    assert signature["earlier"] == "def unused()"
    gone = {entry["symbol"]["name"]: entry["uses"] for entry in files["loop/b.py"]["removed"]}
    assert gone == {"loop/b.py": 2, "fb": 1}
    broken = {
        (entry["symbol"]["path"], entry["symbol"]["name"], entry["via"])
        for entry in reply["affected"]
        if entry["broken"]
    }
    assert broken == {
        ("shop/cart.py", "shop/cart.py", "round_price"),
        ("shop/cart.py", "Cart.total", "round_price"),
        ("loop/a.py", "loop/a.py", "loop/b.py"),
        ("loop/a.py", "fa", "loop/b.py"),
    }
    assert affected(reply)["test_total"] == 2, "what uses a broken definition is affected"
    assert reply["test_files"] == ["tests/test_cart.py"]
    text = shared.ctl("changes", cwd=shop).stdout
    assert "moved  function round_price  to shop/rounding.py:4  2 uses left" in text
    assert "still uses round_price at 9" in text


def test_callers_of_a_changed_signature_are_affected(shared: Daemon, shop: Path) -> None:
    text = FILES["shop/prices.py"].replace("round_price(value)", "round_price(value, places)")
    write(shop, {"shop/prices.py": text})
    reply = shared.call("changes", index="shop", depth=1)
    [file] = reply["changed"]
    assert [item["symbol"]["name"] for item in file["signatures"]] == ["round_price"]
    assert affected(reply) == {"Cart.total": 1}


def test_what_commits_removed_is_compared_with_the_files_now(shared: Daemon, shop: Path) -> None:
    git(shop, "mv", "loop/b.py", "loop/c.py")
    git(shop, "commit", "-qm", "second")
    reply = shared.call("changes", index="shop", revisions="HEAD~1..HEAD")
    [gone, new] = reply["changed"]
    assert (gone["kind"], new["kind"]) == ("deleted", "added")
    entry = next(entry for entry in gone["removed"] if entry["symbol"]["name"] == "fb")
    assert entry["moved_to"]["path"] == "loop/c.py"
    assert {entry["via"] for entry in reply["affected"] if entry["broken"]} == {"loop/b.py"}
    (shop / "loop/b.py").write_text(FILES["loop/b.py"])
    again = shared.call("changes", index="shop", revisions="HEAD~1..HEAD")
    assert all(not file["removed"] for file in again["changed"])


def test_changes_between_commits_are_found_at_their_present_lines(
    shared: Daemon, shop: Path
) -> None:
    text = FILES["shop/prices.py"].replace("Decimal(value)", "Decimal(value) + 1")
    write(shop, {"shop/prices.py": text})
    git(shop, "commit", "-qam", "second")
    write(shop, {"shop/prices.py": "# one\n# two\n# three\n" + text})
    reply = shared.call("changes", index="shop", revisions="HEAD~1..HEAD")
    [file] = reply["changed"]
    assert [symbol["name"] for symbol in file["symbols"]] == ["round_price"]
    assert reply["head"] is not None
    assert shared.call("changes", index="shop", revisions="HEAD~1...HEAD")["changed"] == [file]


@pytest.mark.parametrize("revisions", ["missing", "a..b", "--output=/tmp/x", "HEAD:shop"])
def test_a_revision_that_is_none_is_named(reader: Daemon, revisions: str) -> None:
    with pytest.raises(CallFailed, match="is no commit of this repository"):
        reader.call("changes", index="shop", revisions=revisions)


def test_a_directory_outside_of_git_has_no_changes(shared: Daemon, tmp_path: Path) -> None:
    shared.index(write(tmp_path / "plain", FILES), "plain")
    with pytest.raises(CallFailed, match="plain is in no git repository"):
        shared.call("changes", index="plain")


def test_dependencies_of_a_file_go_both_ways(reader: Daemon) -> None:
    reply = reader.call("dependencies", target="shop/cart.py", index="shop", depth=2)
    assert reply["fresh"]
    assert {(node["path"], node["depth"]) for node in reply["imports"]} >= {("shop/prices.py", 1)}
    importers = {node["path"]: node["depth"] for node in reply["importers"]}
    assert importers == {"shop/orders.py": 1, "tests/test_cart.py": 1, "web/views.py": 2}
    only = reader.call("dependencies", target="shop/cart.py", index="shop", direction="imports")
    assert only["importers"] == []
    cyclic = reader.call("dependencies", target="loop/a.py", index="shop", depth=1_000)
    assert ["loop/a.py", "loop/b.py"] in cyclic["cycles"]
    prices = reader.call("dependencies", target="shop/prices.py", index="shop")
    assert prices["packages"] == [{"name": "decimal", "files": 1}]


def test_dependencies_pass_filters(reader: Daemon) -> None:
    parameters = {"target": "shop/cart.py", "index": "shop"}
    reply = reader.call("dependencies", **parameters, paths=["tests"])
    assert [node["path"] for node in reply["importers"]] == ["tests/test_cart.py"]
    assert (reply["imports"], reply["total_imports"]) == ([], 0)
    assert [edge["source"] for edge in reply["edges"]] == ["tests/test_cart.py"]
    below = reader.call("dependencies", target="shop", index="shop", not_paths=["tests", "web"])
    assert (below["importers"], below["total_importers"]) == ([], 0)
    tests = reader.call("dependencies", target="tests", index="shop", not_paths=["shop"])
    assert (tests["imports"], tests["edges"]) == ([], [])


def test_dependencies_of_an_index_are_modules(reader: Daemon) -> None:
    reply = reader.call("dependencies", index="shop")
    assert {node["path"]: node["files"] for node in reply["modules"]}["shop"] == 4
    edges = {(edge["source"], edge["target"]) for edge in reply["edges"]}
    assert {("web", "shop"), ("tests", "shop")} <= edges
    below = reader.call("dependencies", target="shop", index="shop")
    assert [node["path"] for node in below["importers"]] == ["tests", "web"]
    assert "shop/cart.py" in {node["path"] for node in below["modules"]}


def test_outlines_show_definitions_of_files_and_directories(reader: Daemon) -> None:
    reply = reader.call("outline", target="shop/cart.py", index="shop")
    [file] = reply["files"]
    assert [(item["name"], item["depth"]) for item in file["symbols"]] == [
        ("Cart", 0),
        ("Cart.__init__", 1),
        ("Cart.total", 1),
    ]
    flat = reader.call("outline", target="shop", index="shop", depth=1)
    names = {file["path"]: [item["name"] for item in file["symbols"]] for file in flat["files"]}
    assert names["shop/cart.py"] == ["Cart"]
    assert names["shop/prices.py"] == ["round_price", "unused"]
    small = reader.call("outline", index="shop", budget_tokens=30)
    assert small["omitted_files"] > 0


def test_languages_are_those_of_the_index(shared: Daemon, tmp_path: Path) -> None:
    """Content decides the language of a script and of a header, so names alone do not tell."""
    files = {
        "tools/deploy": "#!/usr/bin/env python3\nfrom tools import shared\n\n\ndef roll_out():\n    pass\n",
        "tools/main.py": "def roll_back():\n    pass\n",
        "lib/queue.h": "namespace lib {\nclass Queue {\n public:\n  void push(int item);\n};\n}\n",
        "lib/queue.c": "int pop_item(void) { return 1; }\n",
    }
    shared.index(write(tmp_path / "mixed", files), "mixed")

    def outlined(language: str) -> list[str]:
        reply = shared.call("outline", index="mixed", languages=[language])
        return [file["path"] for file in reply["files"]]

    assert outlined("python") == ["tools/deploy", "tools/main.py"]
    assert outlined("cpp") == ["lib/queue.h"]
    assert outlined("c") == ["lib/queue.c"]
    below = shared.call("dependencies", target="tools", index="mixed", languages=["python"])
    assert {node["path"] for node in below["modules"]} == {"tools/deploy", "tools/main.py"}


def test_maps_show_what_is_central(reader: Daemon) -> None:
    reply = reader.call("map", index="shop")
    names = {item["name"] for file in reply["files"] for item in file["symbols"]}
    assert {"round_price", "Cart", "place"} <= names
    assert "unused" not in names
    assert reply["total_files"] == len(FILES)
    assert reader.call("map", index="shop")["files"] == reply["files"]
    near = reader.call("map", index="shop", target="loop/a.py", budget_tokens=30)
    assert near["files"][0]["path"].startswith("loop/")
    drawn = reader.call("map", index="shop", query="round_price")
    assert drawn["files"]


def test_unsaved_text_counts_in_every_answer(shared: Daemon, shop: Path) -> None:
    socket = address.rpc_socket(shared.environment)
    stream = client.stream(socket, "overlay.open")
    session = next(stream)["session"]
    text = "from shop.prices import unused\n\n\ndef late():\n    return unused()\n"
    shared.call("overlay.put", session=session, path="web/urls.py", text=text, index="shop")
    unsaved = {"index": "shop", "session": session}
    assert affected(shared.call("impact", target="unused", **unsaved)) == {"late": 1}
    assert affected(shared.call("impact", target="unused", index="shop")) == {}
    [file] = shared.call("outline", target="web/urls.py", **unsaved)["files"]
    assert [item["name"] for item in file["symbols"]] == ["late"]
    prices = shared.call("dependencies", target="shop/prices.py", **unsaved)
    assert "web/urls.py" in [node["path"] for node in prices["importers"]]
    mapped = shared.call("map", **unsaved)
    assert "unused" in {item["name"] for file in mapped["files"] for item in file["symbols"]}
    stream.close()


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        ("impact", {"target": "nothing_like_it"}, "no definition is named"),
        ("impact", {"target": "shop/prices.py:9999"}, "9999"),
        ("impact", {"target": "round_price", "depth": 0}, "depth is 0"),
        ("impact", {"target": "round_price", "depth": 1_001}, "depth is 1001"),
        ("impact", {"target": "round_price", "limit": 0}, "limit is 0"),
        ("impact", {"target": "round_price", "cursor": "x"}, "is not a cursor"),
        ("changes", {"cursor": "-1"}, "is not a cursor"),
        ("dependencies", {"target": "not/there"}, "not/there"),
        ("dependencies", {"direction": "sideways"}, "direction"),
        ("dependencies", {"level": 0}, "level is 0"),
        ("outline", {"target": "../outside"}, "outside"),
        ("outline", {"budget_tokens": 0}, "budget"),
        ("map", {"target": "not/there.py"}, "not/there.py"),
        ("map", {"budget_tokens": 10**9}, "budget"),
    ],
)
def test_bad_input_is_one_clear_sentence(
    reader: Daemon, method: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(CallFailed, match=message):
        reader.call(method, index="shop", **parameters)


def test_the_command_line_prints_each_answer(shared: Daemon, shop: Path) -> None:
    impact = shared.ctl("impact", "round_price", "--depth", "2", cwd=shop).stdout
    assert "round_price (shop/prices.py:4): affects 3 definitions" in impact
    assert "tests/test_cart.py" in impact.partition("tests to run")[2]
    write(shop, {"shop/prices.py": FILES["shop/prices.py"].replace("return 1", "return 2")})
    assert "method" not in shared.ctl("changes", cwd=shop).stdout
    assert "shop/prices.py  modified" in shared.ctl("changes", "HEAD", "shop", cwd=shop).stdout
    assert "imported by" in shared.ctl("dependencies", "cart.py", cwd=shop / "shop").stdout
    mermaid = shared.ctl("dependencies", "--format", "mermaid", cwd=shop).stdout
    assert mermaid.startswith("flowchart LR\n")
    assert shared.ctl("dependencies", ".", "--format", "dot", cwd=shop / "shop").stdout.endswith(
        "}\n"
    )
    assert "class Cart" in shared.ctl("outline", "shop/cart.py", cwd=shop).stdout
    assert "round_price" in shared.ctl("map", "--budget", "200", cwd=shop).stdout
    values = json.loads(shared.ctl("map", "--json", cwd=shop).stdout)
    assert values["files"]
