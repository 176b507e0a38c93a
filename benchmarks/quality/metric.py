"""NDCG@10 and MRR@10 as the benchmark in `data/` defines them. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

TOP = 10


@dataclass(frozen=True, slots=True)
class Target:
    """The location of an answer. Lines count from 1 and are inclusive; 0: anywhere in the file."""

    path: str
    start_line: int = 0
    end_line: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """A result of a system, at one rank."""

    path: str
    start_line: int
    end_line: int


def found_by(target: Target, result: Result) -> bool:
    """Paths agree when one is a trailing part of the other; lines must overlap when the target has
    any.
    """
    same = (
        result.path == target.path
        or result.path.endswith("/" + target.path)
        or target.path.endswith("/" + result.path)
    )
    if not same or not target.start_line:
        return same
    return result.start_line <= target.end_line and result.end_line >= target.start_line


def ranks(targets: Sequence[Target], results: Sequence[Result]) -> tuple[int, ...]:
    """The distinct ranks, from 1, at which targets are found first among the first ten results."""
    ranks_by_question = {
        next((rank for rank, result in enumerate(results[:TOP], 1) if found_by(target, result)), 0)
        for target in targets
    }
    return tuple(sorted(ranks_by_question - {0}))


def ndcg(targets: Sequence[Target], results: Sequence[Result]) -> float:
    """Binary gain over the distinct ranks; the ideal has min(10, targets) hits from rank 1 on."""
    if not targets:
        return 0.0
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(TOP, len(targets)) + 1))
    return sum(1 / math.log2(rank + 1) for rank in ranks(targets, results)) / ideal
