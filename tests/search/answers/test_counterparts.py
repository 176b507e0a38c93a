"""Counterparts of files: the expected ones, and no others."""

import pytest

from cocosearchd.search.answers.counterparts import (
    MAX_COUNTERPARTS,
    can_have_counterparts,
    find_counterparts,
)


@pytest.mark.parametrize(
    ("path", "files"),
    [
        ("src/parser.cpp", ["src/parser.h"]),
        ("parser.h", ["parser.c"]),
        ("include/shop/basket.hpp", ["src/basket.cpp"]),
        ("include/shop/basket.hpp", ["src/shop/basket.cc"]),
        ("src/basket.cpp", ["include/basket.h"]),
        ("shop/src/basket.cpp", ["shop/include/shop/basket.hpp"]),
        ("View/Page.m", ["View/Page.h"]),
        ("lib/queue.mli", ["lib/queue.ml"]),
        ("shop/basket.pyi", ["shop/basket.py"]),
    ],
)
def test_a_header_has_its_source_and_a_source_its_header(path: str, files: list[str]) -> None:
    around = {*files, path, "src/parser.py", "src/other.h", "docs/basket.md", "basket_test.cpp"}
    assert can_have_counterparts(path, with_tests=False)
    assert list(find_counterparts(path, around, with_tests=False)) == files


@pytest.mark.parametrize(
    ("interface", "implementation"),
    [
        ("Shop/IBasket.cs", "Shop/Basket.cs"),
        ("Shop/IBasket.cs", "Shop/DefaultBasket.cs"),
        ("src/BasketInterface.php", "src/Basket.php"),
        ("src/shop/Basket.java", "src/shop/BasketImpl.java"),
        ("src/shop/Basket.java", "src/shop/impl/DefaultBasket.java"),
        ("shop/Basket.kt", "shop/DefaultBasket.kt"),
    ],
)
def test_an_interface_has_its_implementation_and_the_other_way_round(
    interface: str, implementation: str
) -> None:
    files = {interface, implementation, "Shop/Item.cs", "Shop/tem.cs", "src/shop/Item.java"}
    assert can_have_counterparts(interface, with_tests=False)
    assert find_counterparts(interface, files, with_tests=False) == (implementation,)
    assert find_counterparts(implementation, files, with_tests=False) == (interface,)
    assert find_counterparts("Shop/Item.cs", files, with_tests=False) == ()


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("shop/basket.py", "shop/test_basket.py"),
        ("shop/basket.py", "tests/test_basket.py"),
        ("src/shop/basket.py", "tests/test_basket.py"),
        ("src/shop/basket.py", "tests/shop/test_basket.py"),
        ("src/shop/basket.py", "src/shop/tests/test_basket.py"),
        ("shop/filters/mail.py", "tests/test_filters_mail.py"),
        ("shop/filters/mail.py", "tests/test_filter_mail.py"),
        ("pkg/http/server.go", "pkg/http/server_test.go"),
        ("src/list.ts", "src/list.test.ts"),
        ("src/list.tsx", "src/__tests__/list.spec.tsx"),
        ("src/main/java/shop/Basket.java", "src/test/java/shop/BasketTest.java"),
        ("lib/shop/basket.rb", "spec/shop/basket_spec.rb"),
    ],
)
def test_the_test_of_a_file_belongs_to_it_where_tests_are_asked_for(path: str, test: str) -> None:
    files = {path, test, "tests/test_other.py", "tests/conftest.py"}
    assert find_counterparts(path, files, with_tests=True) == (test,)
    assert find_counterparts(path, files, with_tests=False) == ()


def test_a_test_has_no_test() -> None:
    files = {"tests/test_basket.py", "tests/test_test_basket.py"}
    assert find_counterparts("tests/test_basket.py", files, with_tests=True) == ()


def test_files_of_most_languages_are_not_looked_up() -> None:
    assert not can_have_counterparts("shop/basket.py", with_tests=False)
    assert not can_have_counterparts("README", with_tests=True)
    assert find_counterparts("README", {"README", "README.h"}, with_tests=True) == ()


@pytest.mark.parametrize("count", [1, 20, 2000])
def test_counterparts_and_their_names_are_bounded(count: int) -> None:
    folders = "/".join(["src"] * count)
    names: list[str] = []

    class Files:
        """Has every file, and keeps the names that were looked up."""

        def __contains__(self, name: object) -> bool:
            names.append(str(name))
            return True

    counterparts = find_counterparts(f"{folders}/a.cpp", Files(), with_tests=True)
    assert len(counterparts) == MAX_COUNTERPARTS
    assert len(names) < 3000
