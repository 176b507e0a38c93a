"""Alike results that become one, through a running daemon: what that saves and what it hides.

    python -m benchmarks.quality.collapse DIRECTORY --same REGEX [--copy REGEX] [--ask GLOB]

The corpus has files that are alike: translations, or copies of other libraries. REGEX is what their
paths have besides the path that they share: `^docs/[^/]+/docs/` for translations, `^pip/_vendor/`
for pip beside its originals. So what is alike is known by another rule than that of the daemon.
`--copy` matches the paths of those that others should stand for; without it, `--same` does.

Questions are drawn from the files that match GLOB: headings of documents, names that are defined
once, and sentences of comments. Each is asked with and without the collapse.
"""

import argparse
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine
from benchmarks.quality.__main__ import index
from cocosearch_ipc.address import rpc_socket
from cocosearch_ipc.client import call
from tests.daemon import make_daemon
from training.ranking.sentences import without_comments
from training.ranking.signals import File, defined_once, read

SHOWN = 10
INDEX = "corpus"
_HEADING = re.compile(r"^#{1,4} +(\w[^#{}`\[\]|<>]{8,80}?)(?: *\{.*\})?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Answer:
    """The paths of the results of a question, and of the files that each stands for."""

    paths: tuple[str, ...]
    similar_paths: tuple[tuple[str, ...], ...]


def main() -> None:
    """Index the corpus, ask, and print a row with and one without the collapse."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--same", required=True, type=re.compile, metavar="REGEX")
    parser.add_argument("--copy", type=re.compile, metavar="REGEX")
    parser.add_argument("--ask", default="*", metavar="GLOB")
    parser.add_argument("--count", type=int, default=100, help="questions of each kind at most")
    arguments = parser.parse_args()
    files = [file for file in read(arguments.directory) if fnmatchcase(file[0], arguments.ask)]
    questions = list(questions_from(files, arguments.count))
    daemon = make_daemon()
    try:
        daemon.start()
        socket = rpc_socket(daemon.environment)
        index(socket, INDEX, arguments.directory.resolve())
        answers = {
            collapse: [ask(socket, text, collapse=collapse) for text in questions]
            for collapse in (False, True)
        }
        daemon.stop()
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)
    print(machine())
    print(f"{len(questions)} questions")
    for collapse, rows in answers.items():
        figures = report(rows, arguments.same, arguments.copy or arguments.same)
        print(f"{'with' if collapse else 'without'} collapse: {figures}")


def questions_from(files: Sequence[File], count: int) -> Iterator[str]:
    """Yield a reproducible choice of headings, names and sentences."""
    texts = ("\n".join(chunk.text for chunk in chunks) for _, _, chunks in files)
    headings = sorted({match[1] for text in texts for match in _HEADING.finditer(text)})
    code = [file for file in files if file[1] not in {"markdown", "text", "rst"}]
    names = sorted(name for name, _ in defined_once(code) if len(name.split()) == 1)
    sentences = [sample.text for sample in without_comments(code)[0]]
    for kind in (headings, names, sentences):
        yield from random.Random("collapse").sample(kind, min(count, len(kind)))


def ask(socket: str, text: str, *, collapse: bool) -> Answer:
    """Ask one question."""
    request: dict[str, Any] = {"query": text, "index": INDEX, "limit": SHOWN, "use_cache": False}
    results = call(socket, "search", request | {"collapse": collapse})["results"]
    return Answer(
        tuple(hit["path"] for hit in results), tuple(tuple(hit["similar_paths"]) for hit in results)
    )


def report(answers: Sequence[Answer], same: re.Pattern[str], copy: re.Pattern[str]) -> str:
    """Return the means: results, those that repeat an earlier one, files that are hidden wrongly."""

    def shared(path: str) -> str:
        return same.sub("", path)

    repeated = [len(row.paths) - len({shared(path) for path in row.paths}) for row in answers]
    collapsed = [
        shared(path) == shared(similar_path)
        for row in answers
        for path, similar_paths in zip(row.paths, row.similar_paths, strict=True)
        for similar_path in similar_paths
    ]
    copies = [bool(copy.search(path)) for row in answers for path in row.paths]
    return (
        f"{np.mean([len(row.paths) for row in answers]):.2f} results, of which "
        f"{np.mean(repeated):.2f} repeat an earlier one ({np.mean(np.array(repeated) > 0):.1%} of "
        f"answers), {np.mean(copies):.1%} are copies; "
        f"{len(collapsed)} files stood for, {len(collapsed) - sum(collapsed)} of another path"
    )


if __name__ == "__main__":
    main()
