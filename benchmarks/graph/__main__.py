"""Compares the code graph with SCIP indexes: `python -m benchmarks.graph DIRECTORY [PROJECT ...]`.

The directory has a checkout NAME and an index NAME.scip of each project; `make truth` makes the
indexes. Prints a table by project, one by reason, and with `--misses N` what differs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.graph.compare import Scores, compare
from benchmarks.graph.parsed_files import parse_texts, read_texts
from benchmarks.graph.projects import PROJECTS
from benchmarks.graph.truth import read_truth
from cocosearch_ipc.graph_vocabulary import CONFIDENCES
from cocosearchd.graph.scip.scip_reader import ScipDocument, read_index

LANGUAGES = frozenset({"python", "javascript", "typescript", "json"})


def score(directory: Path, project: str) -> Scores:
    """Return the scores of a project of a directory."""
    texts = read_texts(directory / project)
    with (directory / f"{project}.scip").open("rb") as file:
        documents = (part for part in read_index(file) if isinstance(part, ScipDocument))
        truth = read_truth(documents, texts)
    return compare(parse_texts(texts, LANGUAGES), truth)


def print_row(name: str, scores: Scores) -> None:
    """Print a row of the table by project."""
    figures = (
        scores.precision("certain"),
        scores.precision("certain", "likely"),
        scores.precision("possible"),
        scores.recall("certain", "likely"),
        scores.recall(*CONFIDENCES),
    )
    unjudged = sum(scores.unjudged.values())
    columns = " | ".join(f"{figure:.3f}" for figure in figures)
    print(f"| {name} | {scores.truths} | {columns} | {unjudged} |")


def print_reasons(scores: Scores) -> None:
    """Print a row for each confidence and reason."""
    print("\n| confidence | reason | right | wrong | unjudged |\n|---|---|---|---|---|")
    for key in sorted({*scores.right, *scores.wrong, *scores.unjudged}):
        counts = (scores.right[key], scores.wrong[key], scores.unjudged[key])
        print(f"| {key[0]} | {key[1]} | {counts[0]} | {counts[1]} | {counts[2]} |")


def main(arguments: Sequence[str]) -> None:
    """Score the projects of a directory and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graph")
    parser.add_argument("directory", type=Path)
    parser.add_argument("projects", nargs="*")
    parser.add_argument("--misses", type=int, default=0, help="print up to N misses of each")
    options = parser.parse_args(arguments)
    print(
        "| project | uses | certain | with likely | possible | recall | with possible | unjudged |"
    )
    print("|---|---|---|---|---|---|---|---|")
    total = Scores()
    misses: list[str] = []
    for language in dict.fromkeys(project.language for project in PROJECTS):
        language_total = Scores()
        for project in PROJECTS:
            is_chosen = project.name in (options.projects or [project.name])
            if project.language == language and is_chosen:
                scores = score(options.directory, project.name)
                print_row(project.name + (" (held out)" if project.is_held_out else ""), scores)
                language_total.add(scores)
                misses += ["\t".join(map(str, (project.name, *miss))) for miss in scores.misses]
        print_row(f"**{language}**", language_total)
        total.add(language_total)
    print_reasons(total)
    if options.misses:
        print("\n".join(misses[: options.misses]))


if __name__ == "__main__":
    main(sys.argv[1:])
