"""Removed definitions, over parsed sources: their remaining uses, and their new places."""

from collections.abc import Mapping, Sequence

import pytest

from benchmarks.graph.parsed_files import names_used
from cocosearchd.graph.code_files import WHOLE_FILE
from cocosearchd.graph.earlier_files import EarlierFile, EarlierFiles
from cocosearchd.graph.questions import removed_definitions
from cocosearchd.graph.questions.impact import ImpactBounds, find_impact
from cocosearchd.graph.questions.removed_definitions import (
    RemovalSearch,
    RemovedDefinition,
    changed_signatures,
)
from cocosearchd.graph.resolution.resolver import Resolver
from tests.graph.sources import parse_source, parse_sources

SHOP = "def price():\n    return 1\n\n\ndef tax():\n    return price()\n"
Sources = Mapping[str, str]


def earlier_file(path: str, text: str) -> EarlierFile:
    file = parse_source(path, text)
    return EarlierFile(file, frozenset(names_used(file.facts)))


def search(earlier: Sources, present: Sources, added: Sequence[str] = ()) -> RemovalSearch:
    files = parse_sources(present)
    versions = {path: earlier_file(path, text) for path, text in earlier.items()}
    return RemovalSearch(files, Resolver(files), Resolver, versions, [*earlier, *added])


def removed(
    path: str, earlier: Sources, present: Sources, added: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Return the definitions that are gone, with the places that still use them."""
    return {
        item.name: [f"{use.file.path}:{use.use.line}" for use in item.uses]
        for item in search(earlier, present, added).find(path)
    }


@pytest.mark.parametrize(
    ("text", "places"),
    [
        pytest.param(
            "from shop import price\n\n\ndef total():\n    return price()\n",
            ["user.py:1", "user.py:5"],
            id="an import and a call",
        ),
        pytest.param("import shop\n\nshop.price()\n", ["user.py:3"], id="a member of a module"),
        pytest.param("def price():\n    pass\n\n\nprice()\n", [], id="a name of its own"),
        pytest.param("from other import price\n\nprice()\n", [], id="a name of another module"),
        pytest.param(
            "def total(price):\n    return price()\n", [], id="a parameter of the same name"
        ),
    ],
)
def test_uses_of_a_removed_function_are_left(text: str, places: list[str]) -> None:
    present = {
        "shop.py": "def tax():\n    return 1\n",
        "user.py": text,
        "other.py": "price = len\n",
    }
    assert removed("shop.py", {"shop.py": SHOP}, present) == {"price": places}


def test_uses_in_the_changed_file_itself_are_left() -> None:
    present = {"shop.py": "def tax():\n    a = 1\n    return price()\n"}
    assert removed("shop.py", {"shop.py": SHOP}, present) == {"price": ["shop.py:3"]}


def test_a_file_that_is_gone_leaves_its_imports() -> None:
    present = {
        "pkg/__init__.py": "",
        "user.py": "from pkg import shop\n\nshop.tax()\n",
        "again.py": "from pkg.shop import price as cost\n\ncost()\n",
    }
    assert removed("pkg/shop.py", {"pkg/shop.py": SHOP}, present) == {
        "pkg/shop.py": ["user.py:1", "user.py:3"],
        "price": ["again.py:1", "again.py:3"],
        "tax": ["user.py:3"],
    }


def test_a_re_export_that_is_left_breaks_those_behind_it() -> None:
    present = {
        "pkg/__init__.py": "from .shop import price\n",
        "pkg/shop.py": "",
        "user.py": "from pkg import price\n\nprice()\n",
    }
    assert removed("pkg/shop.py", {"pkg/shop.py": SHOP}, present)["price"] == [
        "pkg/__init__.py:1",
        "user.py:1",
        "user.py:3",
    ]


def test_a_moved_definition_is_named_with_its_place() -> None:
    present = {
        "shop.py": "def tax():\n    pass\n",
        "costs.py": "def price():\n    return 2\n",
        "old.py": "from shop import price\n",
        "new.py": "from costs import price\n\nprice()\n",
    }
    [item] = search({"shop.py": SHOP}, present, ["costs.py"]).find("shop.py")
    assert item.moved_to == ("costs.py", 0)
    assert [use.file.path for use in item.uses] == ["old.py"]
    [unmoved] = search({"shop.py": SHOP}, present).find("shop.py")
    assert unmoved.moved_to is None, "costs.py has not changed: it had the function before"


def renamed(earlier: str, present: str) -> dict[str, str | None]:
    """Return the definitions that are gone, with the names that they have now."""
    names = {"shop.py": present}
    symbols = parse_source("shop.py", present).symbols
    return {
        item.name: symbols[item.moved_to.position].qualified_name if item.moved_to else None
        for item in search({"shop.py": earlier}, names).find("shop.py")
    }


def test_a_definition_with_another_name_alone_is_renamed() -> None:
    assert renamed(SHOP, SHOP.replace("price", "cost")) == {"price": "cost"}
    assert renamed("def d(a): ...\n", "def e(a): ...\n") == {"d": "e"}
    assert renamed("def d(a): ...\n", "def e(a, b): ...\n") == {"d": None}, "another signature"
    assert renamed("def d(a): ...\n", "class d2: ...\n") == {"d": None}, "another kind"


def test_no_guess_among_several_new_definitions() -> None:
    assert renamed("def a(): ...\n", "def b(): ...\ndef c(): ...\n") == {"a": None}
    earlier = "def a(): ...\ndef b(): ...\n"
    assert renamed(earlier, "def c(): ...\ndef d(): ...\n") == {"a": None, "b": None}
    assert renamed(earlier, "def a(): ...\ndef c(): ...\n") == {"b": "c"}


def test_members_of_a_renamed_class_go_with_it() -> None:
    earlier = "class Cart:\n    def total(self): ...\n    def tax(self): ...\n"
    assert renamed(earlier, earlier.replace("Cart", "Basket").replace("tax(", "vat(")) == {
        "Cart": "Basket",
        "Cart.total": "Basket.total",
        "Cart.tax": "Basket.vat",
    }
    assert renamed(earlier, earlier.replace("Cart", "Basket").replace("total(", "sum(")) == {
        "Cart": "Basket",
        "Cart.total": "Basket.sum",
        "Cart.tax": "Basket.tax",
    }


def test_members_count_and_what_is_inside_of_functions_does_not() -> None:
    earlier = """
        class Cart:
            def total(self):
                def inner():
                    return 1
                return inner()
        """
    names = {"Cart": list[str](), "Cart.total": ["user.py:3"]}
    user = {"user.py": "from cart import Cart\n\nCart().total()\n", "cart.py": "def other(): ...\n"}
    assert removed("cart.py", {"cart.py": earlier}, user) == {
        "Cart": ["user.py:1", "user.py:3"],
        **{name: places for name, places in names.items() if name != "Cart"},
    }


def test_signatures_are_compared_by_name() -> None:
    earlier = parse_source("a.py", "def run(a):\n    pass\n\n\ndef same(x):\n    pass\n")
    present = parse_source(
        "a.py", "def same(x):\n    y = 1\n\n\ndef run(a, b):\n    pass\n\ndef new(): ...\n"
    )
    [signature] = changed_signatures(earlier, present)
    assert present.symbols[signature.position].name == "run"
    assert signature.earlier_signature == "def run(a)"


def test_limits_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    uses = "from shop import price\n" + "price()\n" * 5
    monkeypatch.setattr(removed_definitions, "MAX_USES", 3)
    bounded = search({"shop.py": SHOP}, {"shop.py": "", "user.py": uses})
    price, _ = bounded.find("shop.py")
    assert (len(price.uses), bounded.is_complete) == (3, False)
    monkeypatch.setattr(removed_definitions, "MAX_REMOVED", 1)
    fewer = search({"shop.py": SHOP}, {"shop.py": ""})
    assert [item.name for item in fewer.find("shop.py")] == ["price"]
    assert not fewer.is_complete


def test_users_of_what_is_gone_are_affected_and_so_are_their_users() -> None:
    present = {
        "shop.py": "def tax():\n    pass\n",
        "user.py": "from shop import price\n\n\ndef total():\n    return price()\n",
        "test_user.py": "from user import total\n\n\ndef test_total():\n    total()\n",
    }
    files = parse_sources(present)
    gone = search({"shop.py": SHOP}, present).find("shop.py")
    bounds = ImpactBounds(3, "possible", lambda: False)
    impact = find_impact(files, Resolver(files), (), bounds, gone)
    rows = [
        (item.key.path, item.symbol and item.symbol.name, item.distance, item.is_broken)
        for item in impact.affected
    ]
    assert rows == [
        ("user.py", None, 1, True),
        ("user.py", "total", 1, True),
        ("test_user.py", "test_total", 2, False),
    ]
    assert {item.via_name for item in impact.affected} == {"price", "total"}


def test_an_earlier_version_stands_in_place_of_a_file() -> None:
    files = parse_sources({"pkg/a.py": "def new(): ...\n", "pkg/b.py": "import pkg.a\n"})
    earlier = EarlierFiles(files, earlier_file("pkg/a.py", "def old():\n    used()\n"))
    assert [symbol.name for symbol in earlier.load(["pkg/a.py"])["pkg/a.py"].symbols] == ["old"]
    assert earlier.files_defining("old") == earlier.files_using("used") == ["pkg/a.py"]
    assert earlier.files_defining("new") == []
    assert earlier.paths() == files.paths()
    gone = EarlierFiles(files, earlier_file("pkg/gone.py", ""))
    assert gone.has_path("pkg/gone.py")
    assert gone.paths_in("pkg") == gone.paths() == ["pkg/a.py", "pkg/b.py", "pkg/gone.py"]
    assert gone.paths_ending("gone.py") == ["pkg/gone.py"]
    assert gone.load(["pkg/b.py"]).keys() == {"pkg/b.py"}
    file: RemovedDefinition = search({"pkg/gone.py": ""}, {"pkg/b.py": ""}).find("pkg/gone.py")[0]
    assert (file.key.position, file.name) == (WHOLE_FILE, "pkg/gone.py")
