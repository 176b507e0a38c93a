"""The indexes that have files with a name."""

from cocosearchd.search.lexical.scoring.part_names import PartNames

NAMES = PartNames(
    [
        ["src/shop/Basket.py", "src/shop/__init__.py"],
        ["basket.py", "shop/__init__.py"],
        [],
        ["lib/my-shop.tar.gz", ".gitignore"],
    ]
)


def test_a_stem_is_in_lower_case_and_a_leading_dot_belongs_to_it() -> None:
    assert list(NAMES.with_stem("basket")) == [0, 1]
    assert list(NAMES.with_stem("Basket")) == []
    assert list(NAMES.with_stem("my-shop.tar")) == [3]
    assert list(NAMES.with_stem(".gitignore")) == [3]


def test_a_module_is_a_file_in_a_directory_or_a_package() -> None:
    assert list(NAMES.with_module("shop", "basket")) == [0]
    assert list(NAMES.with_module("src", "shop")) == [0]
    assert list(NAMES.with_module("lib", "shop")) == []
