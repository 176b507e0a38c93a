"""The questions typed into a web search, as they are read from a checkout of their own project."""

import json
from pathlib import Path

from benchmarks.quality.web import OTHERS, QUESTIONS, files, functions, path_of, with_lines

ASKED = [
    {
        "doc": "python add two",
        "code": 'def add(a, b):\n    """Sum."""\n    return a + b',
        "label": 1,
    },
    {
        "doc": "python add three",
        "code": 'def add(a, b):\n    """Sum."""\n    return a + b',
        "label": 0,
    },
    {"doc": "python first", "code": "def first(items):\n    return items[0]", "label": 1},
]
FLAT = 'def last(items):     """Of a list."""     if items:         return items[-1]'


def checkout(home: Path) -> Path:
    for file, content in ((QUESTIONS, ASKED), (OTHERS, [{"doc": "last", "code": FLAT}])):
        (home / file).parent.mkdir(parents=True)
        (home / file).write_text(json.dumps(content), "utf-8")
    return home


def test_right_is_what_was_labelled_and_the_rest_is_there_to_be_found_wrongly(
    tmp_path: Path,
) -> None:
    questions, texts = functions(checkout(tmp_path), documented=True)
    assert questions == [("python add two", 0), ("python first", 1)]
    assert len(texts) == 3


def test_docstrings_can_be_left_out(tmp_path: Path) -> None:
    _, texts = functions(checkout(tmp_path), documented=False)
    assert not any('"""' in text for text in texts)


def test_lost_line_ends_are_put_back() -> None:
    assert with_lines(FLAT).splitlines() == [
        "def last(items):",
        '    """Of a list."""',
        "    if items:",
        "        return items[-1]",
    ]


def test_each_function_is_a_file_whose_name_says_nothing(tmp_path: Path) -> None:
    _, texts = functions(checkout(tmp_path), documented=True)
    listed = list(files(texts))
    assert [path for path, _, _ in listed] == [path_of(number) for number in range(3)]
    assert all(language == "python" and chunks for _, language, chunks in listed)
