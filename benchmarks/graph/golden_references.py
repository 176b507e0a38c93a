"""Precision and recall of references against golden answers: `golden/<project>.json`

    python -m benchmarks.graph.golden_references PROJECT_DIRECTORY...

Each directory is a checkout of the project of its name, at the revision of the golden file. A
place is a file and a line. A use counts as an answer if its confidence is certain or likely.
Overloads, and a declaration with its definitions, are one symbol. Files that the golden answers
do not cover (`unread`) are left out on both sides.
"""

import argparse
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.graph.parsed_files import ParsedFiles
from cocosearch_ipc.graph_vocabulary import Confidence
from cocosearchd.graph.code_files import CodeFile, DefinitionKey
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.languages.parse import parse

GOLDEN = Path(__file__).parent / "golden"
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file."""

    path: str
    line: int

    @classmethod
    def parse(cls, text: str) -> "Place":
        """Read `path:line`."""
        path, _, line = text.rpartition(":")
        return cls(path, int(line))


@dataclass(slots=True)
class Score:
    """Counts of places: expected, and answered with a confidence, right or wrong."""

    expected: int = 0
    right: dict[Confidence, int] = field(default_factory=dict)
    wrong: dict[Confidence, int] = field(default_factory=dict)

    def add(self, expected: set[Place], answers: dict[Place, Confidence]) -> None:
        """Count the answers of one symbol."""
        self.expected += len(expected)
        for answer, confidence in answers.items():
            counts = self.right if answer in expected else self.wrong
            counts[confidence] = counts.get(confidence, 0) + 1

    def precision(self, *confidences: Confidence) -> float:
        """Return the share of right answers among those with some confidences."""
        right = sum(self.right.get(item, 0) for item in confidences)
        wrong = sum(self.wrong.get(item, 0) for item in confidences)
        return right / (right + wrong) if right + wrong else 1.0

    def recall(self, *confidences: Confidence) -> float:
        """Return the share of the expected places among the answers with some confidences."""
        right = sum(self.right.get(item, 0) for item in confidences)
        return right / self.expected if self.expected else 1.0


def load_project(directory: Path) -> ParsedFiles:
    """Parse the files that Git tracks in a directory."""
    command = ["git", "-C", str(directory), "ls-files", "-z"]
    listing = subprocess.run(command, check=True, capture_output=True).stdout
    paths = [path for path in listing.decode().split("\0") if path]
    return ParsedFiles(_parse_files(directory, paths), paths)


def _parse_files(directory: Path, paths: Iterable[str]) -> Iterator[CodeFile]:
    for path in paths:
        file = directory / path
        if file.is_file() and not file.is_symlink() and file.stat().st_size <= MAX_BYTES:
            parsed = parse(path, file.read_bytes())
            if parsed.language:
                yield CodeFile(path, parsed.language, parsed.symbols, parsed.facts)


def find_definition(files: ParsedFiles, symbol: dict[str, Any]) -> DefinitionKey | None:
    """Return the definition that a golden symbol means, None if it is not among the symbols."""
    file = files.load([symbol["path"]]).get(symbol["path"])
    line = symbol["line"]
    if file is None:
        return None
    positions = [
        (item.end_line - item.start_line, position)
        for position, item in enumerate(file.symbols)
        if item.name == symbol["name"] and item.start_line <= line <= item.end_line
    ]
    return DefinitionKey(file.path, min(positions)[1]) if positions else None


def find_answers(
    resolver: Resolver, definition: DefinitionKey, unread: tuple[str, ...]
) -> dict[Place, Confidence]:
    """Return the places of the uses of a definition, each with its confidence."""
    answers: dict[Place, Confidence] = {}
    for match in resolver.uses_of(definition):
        if not match.file.path.startswith(unread):
            used_at = Place(match.file.path, match.use.line)
            answers.setdefault(used_at, match.resolution.confidence)
    return answers


def measure(directory: Path, show: str) -> dict[str, Score]:
    """Score the symbols of a project, those that are held back apart."""
    golden = json.loads((GOLDEN / f"{directory.name}.json").read_text())
    unread = tuple(golden["unread"])
    files = load_project(directory)
    resolver = Resolver(files)
    scores = {"development": Score(), "held back": Score()}
    for symbol in golden["symbols"]:
        definition = find_definition(files, symbol)
        if definition is None and show:
            print(f"no symbol: {symbol['path']}:{symbol['line']} {symbol['name']}")
        expected = {Place.parse(text) for text in symbol["places"]}
        expected = {item for item in expected if not item.path.startswith(unread)}
        answers = {} if definition is None else find_answers(resolver, definition, unread)
        scores["held back" if symbol["held"] else "development"].add(expected, answers)
        if show and not symbol["held"]:
            _print_differences(symbol, expected, answers, show)
    return scores


def _print_differences(
    symbol: dict[str, Any], expected: set[Place], answers: dict[Place, Confidence], show: str
) -> None:
    title = f"{symbol['name']} ({symbol['path']}:{symbol['line']})"
    for answer, confidence in sorted(
        answers.items(), key=lambda item: (item[0].path, item[0].line)
    ):
        if answer not in expected and confidence != "possible" and show in ("all", "wrong"):
            print(f"wrong    {title}: {answer.path}:{answer.line} {confidence}")
    for missing in sorted(expected, key=lambda item: (item.path, item.line)):
        if answers.get(missing, "possible") == "possible" and show in ("all", "missing"):
            print(f"missing  {title}: {missing.path}:{missing.line} {answers.get(missing, '')}")


def main() -> None:
    """Print a row for each project and part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--show", choices=("", "all", "wrong", "missing"), default="")
    arguments = parser.parse_args()
    print("project      part         places  P certain  P likely  R likely  R possible")
    for directory in arguments.directories:
        for part, score in measure(directory, arguments.show).items():
            print(
                f"{directory.name:12} {part:12} {score.expected:6}  "
                f"{score.precision('certain'):9.3f}  {score.precision('certain', 'likely'):8.3f}  "
                f"{score.recall('certain', 'likely'):8.3f}  "
                f"{score.recall('certain', 'likely', 'possible'):10.3f}"
            )


if __name__ == "__main__":
    main()
