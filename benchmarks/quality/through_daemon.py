"""Names and web questions, as `names_and_sentences` asks them, through a running daemon and its public interface.

    python -m benchmarks.quality.through_daemon --checkouts DIRECTORY [--each 20] [--folds DIRECTORY]
        [--web DIRECTORY] [--no-collapse]

Printed as by `names_and_sentences`: MRR@10 by place and by file, and the share of questions whose right place is
among the first ten. A result is its best place, followed by the other places of its file. One that stands for
the right one, which is nearly equal, counts as wrong; with `--no-collapse` both are shown. The
sentences of `names_and_sentences` have no daemon: comments are taken out of the chunks of their files.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine
from benchmarks.quality import web
from benchmarks.quality.__main__ import index, runs
from benchmarks.quality.corpus import CODE_SUFFIXES, Repository, repositories
from benchmarks.quality.names_and_sentences import TOP, by_file, chosen_of, names, reciprocal
from cocosearch_ipc.address import rpc_socket
from cocosearch_ipc.client import call
from tests.daemon import make_daemon
from training.ranking.sentences import Sample
from training.ranking.signals import File, Place, read

WEB = {"web": True, "web, no docstrings": False}  # are the functions documented?
Figures = tuple[float, float, float]  # reciprocal rank by place and by file, right place in ten


def main() -> int:
    """Ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkouts", type=Path)
    parser.add_argument("--each", type=int, default=20, help="names of each repository at most")
    parser.add_argument("--folds", type=Path)
    parser.add_argument("--web", type=Path, help="a checkout of microsoft/CodeXGLUE")
    parser.add_argument("--no-collapse", action="store_true")
    arguments = parser.parse_args()
    sys.stdout.write(f"{machine()}\n")
    collapse = not arguments.no_collapse
    if arguments.checkouts:
        figures = [
            figure
            for weights, chosen in runs(repositories(), arguments.folds)
            for figure in ask_names(
                arguments.checkouts, chosen, weights, arguments.each, collapse=collapse
            )
        ]
        print_figures("names", figures)
    if arguments.web:
        for name, documented in WEB.items():
            figures = list(ask_web(arguments.web, documented=documented, collapse=collapse))
            print_figures(name, figures)
    return 0


def print_figures(name: str, figures: Sequence[Figures]) -> None:
    """Print a line."""
    by_place, by_file_, in_ten = np.mean(figures, axis=0)
    sys.stdout.write(
        f"{name} (n={len(figures)}), MRR@10 by place / by file {by_place:.3f} / {by_file_:.3f}, "
        f"right place @10 {in_ten:.3f}\n"
    )


@contextmanager
def running_daemon(weights: Path | None) -> Iterator[str]:
    """The socket of a daemon of its own that indexes files of code."""
    daemon = make_daemon(
        COCOSEARCH_INDEXING_INCLUDE=",".join(f"*{suffix}" for suffix in CODE_SUFFIXES)
    )
    if weights is not None:
        daemon.variables["COCOSEARCH_SEARCH_WEIGHTS_FILE"] = str(weights)
    try:
        daemon.start()
        yield rpc_socket(daemon.environment)
        daemon.stop()
    finally:
        daemon.sweep()
        shutil.rmtree(daemon.home, ignore_errors=True)


def ask_names(
    checkouts: Path,
    chosen: Sequence[Repository],
    weights: Path | None,
    count: int,
    *,
    collapse: bool,
) -> Iterator[Figures]:
    """Ask for names that are defined once, repository by repository."""
    with running_daemon(weights) as socket:
        for repository in chosen:
            root = (checkouts / repository.name / repository.benchmark_root).resolve()
            files = [file for file in read(root) if file[2] and file[0].endswith(CODE_SUFFIXES)]
            samples = chosen_of(names(files), random.Random(repository.name), count)
            index(socket, repository.name, root)
            yield from ask(socket, repository.name, files, samples, collapse=collapse)


def ask_web(checkout: Path, *, documented: bool, collapse: bool) -> Iterator[Figures]:
    """Ask questions typed into a web search; right is any place of the function's file."""
    questions, texts = web.functions(checkout, documented=documented)
    with running_daemon(None) as socket, tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            (Path(folder) / web.path_of(number)).write_text(text, "utf-8")
        index(socket, "web", Path(folder))
        samples = [Sample(text, (web.path_of(number), 0)) for text, number in questions]
        yield from ask(socket, "web", list(web.files(texts)), samples, collapse=collapse)


def ask(
    socket: str, name: str, files: Sequence[File], samples: Sequence[Sample], *, collapse: bool
) -> Iterator[Figures]:
    """Ask each question of one index."""
    starts = {
        (path, chunk.start_line): (path, chunk.start_byte)
        for path, _, chunks in files
        for chunk in chunks
    }
    for sample in samples:
        request = {"query": sample.text, "index": name, "limit": TOP, "collapse": collapse}
        order = list(shown_places(call(socket, "search", request), starts))
        in_ten = float(sample.place in order[:TOP])
        yield reciprocal(order[:TOP], sample.place), by_file(order, sample.place), in_ten


def shown_places(
    reply: Mapping[str, Any], starts: Mapping[tuple[str, int], Place]
) -> Iterator[Place]:
    """Yield the places of an answer in the order in which they are shown.

    `starts`: path and first line -> path and first byte.
    """
    for hit in reply["results"]:
        for entry in (hit, *hit["also"]):
            yield starts[hit["path"], entry["start_line"]]


if __name__ == "__main__":
    sys.exit(main())
