"""The annotated queries and the repositories they are about."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.quality.metric import Target

DATA = Path(__file__).parent / "data"
CATEGORIES = ("architecture", "semantic", "symbol")
# What the benchmark's published systems index: the suffixes of code.
_CODE = "py js jsx ts tsx go rs java kt kts rb php c h cpp hpp cs swift scala sbt ex exs dart lua sql sh bash zig hs"
CODE_SUFFIXES = tuple(f".{suffix}" for suffix in _CODE.split(" "))


@dataclass(frozen=True, slots=True)
class Repository:
    """A pinned repository; only what is below `benchmark_root` is indexed."""

    name: str
    language: str
    url: str
    revision: str
    benchmark_root: str
    # the revision of the annotations was not to be had; all targets exist in this one
    substituted: bool


@dataclass(frozen=True, slots=True)
class Question:
    """A query and where its answers are."""

    text: str
    category: str
    targets: tuple[Target, ...]


def repositories(data: Path = DATA) -> tuple[Repository, ...]:
    """All, in order of name."""
    rows = json.loads((data / "repos.json").read_text("utf-8"))
    entries = (
        Repository(
            row["name"],
            row["language"],
            row["url"],
            row["revision"],
            row["benchmark_root"] or "",
            bool(row.get("substituted")),
        )
        for row in rows
    )
    return tuple(sorted(entries, key=lambda repository: repository.name))


def questions(name: str, data: Path = DATA) -> tuple[Question, ...]:
    """The annotated queries of a repository. Relevant and secondary targets count alike."""
    rows = json.loads((data / "annotations" / f"{name}.json").read_text("utf-8"))
    return tuple(
        Question(
            row["query"],
            row["category"],
            tuple(
                _target(row_target) for row_target in (*row["relevant"], *row.get("secondary", ()))
            ),
        )
        for row in rows
    )


def strict_labels(targets: tuple[Target, ...], root: str, paths: tuple[str, ...]) -> frozenset[str]:
    """The files a target means, for training: the exact path if there is one, else the longest that
    agrees.
    """
    return frozenset(path for target in targets for path in _strict(target.path, root, paths))


def _strict(target: str, root: str, paths: tuple[str, ...]) -> list[str]:
    exact = [path for path in paths if target in (path, f"{root}/{path}")]
    if exact:
        return exact
    ending = [path for path in paths if path.endswith("/" + target)]
    if ending:
        return ending
    longest = max((path for path in paths if target.endswith("/" + path)), key=len, default=None)
    return [] if longest is None else [longest]


def _target(raw: Any) -> Target:
    if isinstance(raw, str):
        return Target(raw)
    return Target(raw["path"], raw.get("start_line") or 0, raw.get("end_line") or 0)
