"""Outlines of files and directories."""

from cocosearchd.graph.structure.outline import nested_symbols, outline_files
from tests.graph.memory_files import code_file, symbol

FILE = code_file(
    "a.py",
    [
        symbol("A", (1, 9), kind="class"),
        symbol("m", (2, 5), "A"),
        symbol("inner", (3, 4), "A.m"),
        symbol("n", (6, 8), "A"),
        symbol("f", (11, 12)),
    ],
)


def test_definitions_are_nested_by_their_places() -> None:
    nested = nested_symbols(FILE)
    assert [(item.symbol.name, item.depth) for item in nested] == [
        ("A", 0),
        ("m", 1),
        ("inner", 2),
        ("n", 1),
        ("f", 0),
    ]


def test_outer_definitions_of_all_files_come_before_inner_ones() -> None:
    files = {path: code_file(path, FILE.symbols) for path in ("a.py", "b.py")}
    outline = outline_files(list(files), files, max_depth=9, budget=60)
    names = [[item.symbol.name for item in file.symbols] for file in outline.files]
    assert names == [["A", "m", "f"], ["A", "f"]]
    assert [file.omitted for file in outline.files] == [2, 3]
    everything = outline_files(list(files), files, max_depth=9, budget=10_000)
    assert [file.omitted for file in everything.files] == [0, 0]
    assert [len(file.symbols) for file in outline_files(list(files), files, 1, 10_000).files] == [
        2,
        2,
    ]


def test_paths_that_do_not_fit_are_counted() -> None:
    paths = [f"directory/file{number}.py" for number in range(100)]
    outline = outline_files(paths, {}, max_depth=1, budget=100)
    assert 1 < len(outline.files) < 20
    assert len(outline.files) + outline.omitted_files == 100
    assert len(outline_files(paths, {}, 1, budget=1).files) == 1


def test_50_000_nested_definitions_need_no_recursion() -> None:
    deep = code_file("a.py", [symbol("f", (i, 200_000 - i)) for i in range(50_000)])
    assert nested_symbols(deep)[-1].depth == 49_999
