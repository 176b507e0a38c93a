"""Compares resolutions with the truth of a project: precision by confidence, recall, misses"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.graph.parsed_files import ParsedFiles
from benchmarks.graph.truth import DefinedName, SourcePosition, Truth
from cocosearch_ipc.graph_vocabulary import Confidence
from cocosearchd.graph.code_files import WHOLE_FILE, CodeFile, Resolution
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.languages.code_facts import Use


class Miss(NamedTuple):
    """A use whose resolution differs from the truth."""

    position: SourcePosition
    text: str  # receiver and name
    reason: str  # of our resolution; "not a use" if the extraction has none there
    expected: str
    actual: str


@dataclass
class Scores:
    """Counts of one project. `right` and `wrong` have a count for each (confidence, reason)."""

    right: Counter[tuple[Confidence, str]] = field(default_factory=Counter)
    wrong: Counter[tuple[Confidence, str]] = field(default_factory=Counter)
    # uses that we resolve, of which the truth knows nothing
    unjudged: Counter[tuple[Confidence, str]] = field(default_factory=Counter)
    truths: int = 0
    recalled: Counter[Confidence] = field(default_factory=Counter)
    misses: list[Miss] = field(default_factory=list)

    def precision(self, *confidences: Confidence) -> float:
        """Return the share of judged resolutions of these confidences that are right."""
        right = sum(count for key, count in self.right.items() if key[0] in confidences)
        wrong = sum(count for key, count in self.wrong.items() if key[0] in confidences)
        return right / (right + wrong) if right + wrong else 1.0

    def recall(self, *confidences: Confidence) -> float:
        """Return the share of the truth that we resolve with these confidences."""
        return sum(self.recalled[item] for item in confidences) / max(1, self.truths)

    def add(self, scores: "Scores") -> None:
        """Add the counts of another project."""
        self.right += scores.right
        self.wrong += scores.wrong
        self.unjudged += scores.unjudged
        self.truths += scores.truths
        self.recalled += scores.recalled


def compare(files: ParsedFiles, truth: Truth) -> Scores:
    """Resolve all uses of a project and compare each with the truth."""
    scores = Scores()
    resolver = Resolver(files)
    open_places = {position for position, used in truth.uses.items() if used.is_counted}
    scores.truths = len(open_places)
    by_path = _uses_by_place(files)
    for path in sorted(by_path):
        file = files.load([path])[path]
        for position, use in by_path[path].items():
            resolution = resolver.resolve(file, use)
            open_places.discard(position)
            _judge(scores, files, truth, position, use, resolution)
    for position in sorted(open_places):
        expected = " ".join(truth.uses[position].symbols)
        scores.misses.append(Miss(position, "", "not a use", expected, ""))
    return scores


def _uses_by_place(files: ParsedFiles) -> Mapping[str, Mapping[SourcePosition, Use]]:
    uses: dict[str, dict[SourcePosition, Use]] = defaultdict(dict)
    for path in files.paths():
        file = files.load([path]).get(path)
        for use in file.facts.uses if file is not None else ():
            uses[path][SourcePosition(path, use.line, use.column)] = use
    return uses


def _judge(
    scores: Scores,
    files: ParsedFiles,
    truth: Truth,
    position: SourcePosition,
    use: Use,
    resolution: Resolution,
) -> None:
    used = truth.uses.get(position)
    key = (resolution.confidence, resolution.reason)
    if used is None:
        if resolution.definitions:
            scores.unjudged[key] += 1
        return
    places = {item for symbol in used.symbols for item in truth.definitions.get(symbol, ())}
    matches = [is_defined_at(files, resolution, number, places) for number in _numbers(resolution)]
    is_listed = any(matches)
    is_right = is_listed if resolution.confidence == "possible" else matches[:1] == [True]
    if resolution.definitions:
        (scores.right if is_right else scores.wrong)[key] += 1
    if used.is_counted and is_listed:
        scores.recalled[resolution.confidence] += 1
    if (resolution.definitions or used.is_counted) and not is_right:
        text = f"{use.receiver}.{use.name}" if use.receiver else use.name
        actual = " ".join(_describe(files, resolution))
        expected = " ".join(used.symbols)
        scores.misses.append(
            Miss(position, f"{use.kind} {text}", resolution.reason, expected, actual)
        )


def _numbers(resolution: Resolution) -> range:
    return range(len(resolution.definitions))


def is_defined_at(
    files: ParsedFiles, resolution: Resolution, number: int, places: set[DefinedName]
) -> bool:
    """Return True if a definition of a resolution is at one of some places.

    The position of a definition is that of its name: it is in the lines of the symbol, and in those of
    no other symbol with its name inside. A file as a whole is defined in its first line.
    """
    key = resolution.definitions[number]
    names = {(position.line, position.name) for position in places if position.path == key.path}
    if key.position == WHOLE_FILE:
        return any(line == 1 for line, _ in names)
    file = files.load([key.path])[key.path]
    own_name = file.symbols[key.position].name
    lines = [line for line, name in names if own_name in (name, "default")]
    return any(_symbol_named_at(file, key.position, line) for line in lines)


def _symbol_named_at(file: CodeFile, position: int, line: int) -> bool:
    symbol = file.symbols[position]
    if not symbol.start_line <= line <= symbol.end_line:
        return False
    inner = (item for item in file.symbols[position + 1 :] if item.start_byte < symbol.end_byte)
    alike = [item for item in inner if item.name == symbol.name]
    return not any(item.start_line <= line <= item.end_line for item in alike)


def _describe(files: ParsedFiles, resolution: Resolution) -> Iterator[str]:
    for key in resolution.definitions[:3]:
        file = files.load([key.path]).get(key.path)
        name = file.symbols[key.position].qualified_name if file and key.position >= 0 else ""
        yield f"{key.path}:{name}"
