"""Questions that people typed into a search engine, and the Python functions that answer them.

They come from CoSQA and WebQueryTest (Huang et al. 2021), which are published under the
Computational Use of Data Agreement: they may be computed with, so they are read from a checkout of
microsoft/CodeXGLUE and not kept here.

    git clone https://github.com/microsoft/CodeXGLUE DIRECTORY

Every function is a file of its own. Right is the one that an annotator said answers the question;
some of the others would do as well, so figures are too low, for every system alike.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline.chunker import chunk_file
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.parse import parse
from cocosearchd.model import Chunk

REVISION = "ac74a62802a0dd159b3258c78a2df8ad36cdf2b9"  # what the published figures were measured on
TASK = Path("Text-Code/NL-code-search-WebQuery")
QUESTIONS, OTHERS = TASK / "CoSQA/cosqa-dev.json", TASK / "data/test_webquery.json"
_DOCSTRING = re.compile(r"[rRuUbB]{0,2}(\"\"\"|''')(.|\n)*?\1")


def functions(checkout: Path, *, documented: bool) -> tuple[list[tuple[str, int]], list[str]]:
    """(question, number of the function that answers it), and all functions, with their docstrings
    or without.
    """
    web_questions = json.loads((checkout / QUESTIONS).read_text("utf-8"))
    other_texts = json.loads((checkout / OTHERS).read_text("utf-8"))
    numbers = dict[str, int]()
    questions = list[tuple[str, int]]()
    for question in (*web_questions, *other_texts):
        text = with_lines(question["code"])
        number = numbers.setdefault(text if documented else _DOCSTRING.sub("", text), len(numbers))
        if question.get("label") == 1:
            questions.append((question["doc"], number))
    return questions, list(numbers)


def with_lines(code: str) -> str:
    """Functions of the second file have lost their line ends: a blank and the indentation stand
    where they were.
    """
    return code if "\n" in code else re.sub(r" ((?: {4})+)(?! )", r"\n\1", code)


def files(texts: Sequence[str]) -> Iterator[tuple[str, str, tuple[Chunk, ...]]]:
    """(path, language, chunks) of each, as the daemon would cut it."""
    for number, text in enumerate(texts):
        path = path_of(number)
        yield (
            path,
            "python",
            chunk_file(parse(path, text.encode()), chunker_limits(IndexingSettings())),
        )


def path_of(number: int) -> str:
    """Says nothing of what the function does."""
    return f"{number}.py"
