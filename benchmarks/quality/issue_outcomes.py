"""Cases of bug reports and their outcomes: in a file, and as a table. Pure, except for files."""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

DEPTHS = (1, 5, 10, 50)
BUDGETS = (2000, 4000, 8000)  # tokens
LONG = 2000  # characters


@dataclass(frozen=True, slots=True)
class Case:
    """An issue, and the files that its fix changed."""

    name: str
    group: str
    repository: str
    base: str
    query: str
    gold: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """An answer within a budget of tokens: the number of its files, whether all of the fix are in it.

    `lines` is the share of the changed lines that it shows; None where they are unknown.
    """

    files: int
    has_all: bool
    lines: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The rank of each file of a case from 1, None where it is not found; the daemon's time.

    `bundles` are the answers within `BUDGETS`.
    """

    case: Case
    ranks: tuple[int | None, ...]
    milliseconds: float
    bundles: tuple[Bundle, ...]

    def has_all(self, depth: int) -> bool:
        """Return True if all files of the fix are among the first `depth`."""
        return all(rank is not None and rank <= depth for rank in self.ranks)


def read_cases(path: Path) -> list[Case]:
    """Read the cases of a file."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
    return [_read_case(row) for row in rows]


def _read_case(row: dict[str, Any]) -> Case:
    return Case(
        row["id"], row["set"], row["snapshot"], row["base"], row["query"], tuple(row["gold"])
    )


class OutcomeFile:
    """Outcomes as lines of JSON. A run that was cut off goes on behind its last whole line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, cases: Sequence[Case]) -> list[Outcome]:
        """Return the outcomes of `cases` that the file has. A last line without an end is removed."""
        if not self.path.exists():
            return []
        text = self.path.read_text("utf-8")
        full_lines = text[: text.rfind("\n") + 1]
        if full_lines != text:
            self.path.write_text(full_lines, "utf-8")
        case_by_name = {case.name: case for case in cases}
        rows = map(json.loads, full_lines.splitlines())
        return [
            _read_outcome(row, case_by_name[row["id"]]) for row in rows if row["id"] in case_by_name
        ]

    def append(self, outcome: Outcome) -> None:
        """Add a line at the end of the file."""
        row = {"id": outcome.case.name, "ranks": outcome.ranks, "ms": outcome.milliseconds}
        row["bundles"] = [asdict(bundle) for bundle in outcome.bundles]
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")


def _read_outcome(row: dict[str, Any], case: Case) -> Outcome:
    bundles = tuple(Bundle(**fields) for fields in row["bundles"])
    return Outcome(case, tuple(row["ranks"]), row["ms"], bundles)


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Print a row for each set, length and repository, and a line for each budget."""
    sys.stdout.write(f"| cases | n | {' | '.join(f'@{depth}' for depth in DEPTHS)} |\n")
    for group, members in _groups(outcomes).items():
        shares = " | ".join(
            f"{np.mean([outcome.has_all(depth) for outcome in members]):.3f}" for depth in DEPTHS
        )
        sys.stdout.write(f"| {group} | {len(members)} | {shares} |\n")
    for number, budget in enumerate(BUDGETS):
        bundles = [outcome.bundles[number] for outcome in outcomes]
        sys.stdout.write(f"within {budget:,} tokens: {_describe_bundles(bundles)}\n")
    times = [outcome.milliseconds for outcome in outcomes]
    sys.stdout.write(f"server time p50 {np.median(times):.0f} ms, max {max(times):.0f} ms\n")


def _groups(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes by set, length and repository, in this order; a case is in all of its groups."""
    groups = {"all": list(outcomes)}
    for name_group in (_set, _length, _repository):
        members = defaultdict[str, list[Outcome]](list)
        for outcome in outcomes:
            members[name_group(outcome.case)].append(outcome)
        groups |= dict(sorted(members.items()))
    return groups


def _set(case: Case) -> str:
    return case.group


def _length(case: Case) -> str:
    return f"{'over' if len(case.query) > LONG else 'up to'} {LONG:,} characters"


def _repository(case: Case) -> str:
    return case.repository


def _describe_bundles(bundles: Sequence[Bundle]) -> str:
    has_all = [bundle.has_all for bundle in bundles]
    lines = [bundle.lines for bundle in bundles if bundle.lines is not None]
    files = np.mean([bundle.files for bundle in bundles])
    mean_lines = np.mean(lines) if lines else np.nan
    return (
        f"all files {np.mean(has_all):.3f} (n={len(has_all)}), changed lines {mean_lines:.3f} "
        f"(n={len(lines)}), {files:.1f} files"
    )


def take_turns(cases: Sequence[Case], turns: int) -> Iterator[list[Case]]:
    """Yield `turns` parts of dated cases, each spread over all of their time.

    A run over the parts of all repositories in turn is a fair sample whenever it is cut off.
    """
    for turn in range(turns):
        yield list(cases[turn::turns])
