"""Ranking signals of the profile `code`. Each is one pure function over arrays of all files.

Constants without another source were chosen by cross-validation over 25 repositories and 499
annotated queries (see training/ranking); differences below 0.005 NDCG@10 are noise there.
"""

import re
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from cocosearchd.languages import blocks
from cocosearchd.languages.language_table import by_name
from cocosearchd.search.lexical.array_types import Floats, Ints, Mask, mark_changes
from cocosearchd.search.lexical.row_groups import Groups, make_groups

# summed best chunks of a file: a file with three matching chunks should beat a file with one
TOP_CHUNKS = 3
# Least deviation of cosines: the few files of a tiny index may be equal by chance
MIN_DEVIATION = 0.03
# Limit of the distance from the mean depth (levels) and from the mean size (deviations). Without
# it, one unusual file would rank before an exact name.
_MAX_DISTANCE = np.float32(4.0)
# Weight of using files: they have none of the other signals of definitions.
_USAGE_WEIGHT = 2.0
_NEARLY_ALL = 0.9  # share of code files; below it, the name of a language distinguishes files
_MIN_FORM = 3  # characters: a shorter form is no evidence that a path is about a word
_PREFIX_MIN_WORD = 6  # characters of a word above which its prefix is a form of it
# Usual abbreviations in file names.
ABBREVIATIONS = {
    "context": "ctx", "configuration": "config", "config": "cfg", "message": "msg", "request": "req",
    "response": "res", "manager": "mgr", "error": "err", "string": "str", "memory": "mem", "command": "cmd",
    "directory": "dir", "function": "fn", "environment": "env", "parameter": "param", "argument": "arg",
    "address": "addr", "number": "num", "package": "pkg", "database": "db", "expression": "expr", "iterator": "iter",
    "attribute": "attr", "character": "char", "initialization": "init", "initialize": "init", "initialise": "init",
    "utility": "util", "synchronization": "sync", "asynchronous": "async", "identifier": "id", "source": "src",
    "destination": "dst", "buffer": "buf", "length": "len", "temporary": "tmp", "connection": "conn",
    "certificate": "cert", "authentication": "auth", "authorization": "auth", "javascript": "js", "regular": "reg",
    "regex": "re", "websocket": "ws",
}  # fmt: skip
# A question asks for tests if one of its words begins like this.
_TEST_QUESTION = re.compile(r"test|specs?$|suite|fixture|bench|mock")
# Stems of files that only collect or re-export code of others: `index.ts`, `mod.rs`, `utils.py`.
REEXPORTERS = {
    "index", "__init__", "mod", "lib", "main", "init", "type", "types", "constant", "constants", "base", "common",
    "util", "utils", "helper", "helpers",
}  # fmt: skip


def idf(document_counts: int | Ints, totals: int | Ints) -> NDArray[np.float64]:
    """Compute the BM25 weights of terms in `document_counts` of `totals` documents; never negative.

    The formula is from Robertson and Zaragoza 2009.
    """
    weights: NDArray[np.float64] = np.log1p(
        (totals - document_counts + 0.5) / (document_counts + 0.5)
    )
    return weights


def bm25(
    weight: float | Floats,
    tf: Floats,
    lengths: Floats,
    average: float | Floats,
    k1: float,
    b: float,
) -> Floats:
    """Compute the BM25 score of a term in each document.

    `weight` is idf x the frequency of the term in the query.
    """
    averages = np.maximum(np.asarray(average, np.float32), np.float32(1e-9))
    norms = k1 * (1 - b + b * lengths / averages)
    share: Floats = (weight * tf * (k1 + 1) / (tf + norms)).astype(np.float32)
    return share


def best_chunk(scores: Floats, starts: Ints) -> Floats:
    """Return the best chunk score of each file.

    `starts` has the first chunk of each file. Every file has chunks.
    """
    return np.maximum.reduceat(scores, starts) if len(starts) else np.zeros(0, np.float32)


def best_three(scores: Floats, starts: Ints, chunk_files: Ints) -> Floats:
    """Sum the `TOP_CHUNKS` best chunk scores of each file."""
    remaining = scores.copy()
    total = np.zeros(len(starts), np.float32)
    for _ in range(TOP_CHUNKS):
        best = best_chunk(remaining, starts)
        total += best
        # Take the best away once per file: the first chunk that has it.
        (positions,) = ((remaining == best.take(chunk_files)) & (remaining > 0)).nonzero()
        is_first = mark_changes(chunk_files.take(positions))
        remaining[positions[is_first]] = 0
    return total


def scale_to_maximum(values: Floats, groups: Groups | None = None) -> Floats:
    """Divide values by the maximum of their group; values of a group with maximum zero stay zero."""
    groups = groups or make_groups([len(values)])
    tops = groups.largest(values)
    divisors: Floats = groups.spread(np.where(tops > 0, tops, np.float32(1)))
    return values / divisors


def mean_and_deviation(cosines: Floats, groups: Groups | None = None) -> tuple[Floats, Floats]:
    """Compute the mean and deviation of each group, without NaN values: (G,) each.

    The deviation is at least `MIN_DEVIATION`. Without values, the mean is 0.
    """
    groups = groups or make_groups([len(cosines)])
    is_number = ~np.isnan(cosines)
    counts = np.maximum(groups.counts(is_number), 1)
    # Double precision, so that the sums do not depend on the other groups.
    values = np.where(is_number, cosines, 0).astype(np.float64)
    means = groups.sums(values) / counts
    distances = np.where(is_number, values - groups.spread(means), 0)
    deviations = np.sqrt(groups.sums(distances * distances) / counts)
    return means.astype(np.float32), np.maximum(deviations, MIN_DEVIATION).astype(np.float32)


def z_scores(values: Floats, means: Floats, deviations: Floats) -> Floats:
    """Compute the distance of each value from the mean, in deviations; 0 for NaN.

    `means` and `deviations` have one entry per value, or one for all values: (1,).
    """
    distances = (values - means) / deviations
    # NumPy's `nan_to_num` takes several times as long
    return np.where(np.isnan(distances), np.float32(0), distances)


def standardise(values: Floats) -> Floats:
    """Compute z-scores over the files, limited to ±`_MAX_DISTANCE`; all zero for equal values."""
    if not len(values):
        return values
    deviation = float(values.std())
    if deviation <= 1e-9:
        return np.zeros_like(values)
    scores: Floats = np.clip(
        (values - values.mean()) / deviation, -_MAX_DISTANCE, _MAX_DISTANCE
    ).astype(np.float32)
    return scores


def relative_depths(depths: Floats) -> Floats:
    """Compute levels below the mean depth, limited to ±`_MAX_DISTANCE`.

    The limit ensures that a query for its exact name still finds a file far below all others.
    """
    return np.clip(depths - depths.mean(), -_MAX_DISTANCE, _MAX_DISTANCE) if len(depths) else depths


def definition_shares(
    full: Floats, last: Floats, used: Floats | None = None, groups: Groups | None = None
) -> Floats:
    """Share one point equally among the files of a group that define a name.

    `full` has priority: it marks the files that define the name as written in the query. If no file
    does, `last` counts: it marks files that define a part of the name, or an identifier of a
    sentence. A name with only one definition means that file, whatever the paths are. If no file
    defines anything, the files that use the name share the point: `used`. In this case no other
    signal supports the exact name, so the share weighs more.
    """
    groups = groups or make_groups([len(full)])
    shares = np.where(_spread_any(full, groups), full, last)
    weights = np.ones(1, np.float32)
    if used is not None:
        is_defined = _spread_any(shares, groups)
        shares = np.where(is_defined, shares, used)
        weights = np.where(is_defined, np.float32(1), np.float32(_USAGE_WEIGHT))
    positive = shares > 0
    counts = np.maximum(groups.counts(positive), 1).astype(np.float32)
    return (positive / groups.spread(counts)).astype(np.float32) * weights


def _spread_any(values: Floats, groups: Groups) -> Mask:
    """Mark all rows of groups with a value above zero: (N,), or (1,) for a single group."""
    return groups.spread(groups.largest(values) > 0)


def file_stem(path: str) -> str:
    """Return the lower-case name of a file without extension; a leading dot begins no extension."""
    name = path[path.rfind("/") + 1 :].lower()
    stem, _, _ = name.rpartition(".")
    return stem if stem.strip(".") else name


def joined_stem(stem: str) -> str:
    """Remove `-`, `_` and `.` from a stem: `route_group` becomes `routegroup`."""
    return stem.replace("_", "").replace("-", "").replace(".", "")


def name_forms(word: str, stem: str) -> tuple[str, ...]:
    """Return the forms that a lower-case word may have in a file name, longest first."""
    candidates = {stem if len(stem) >= _MIN_FORM else word, ABBREVIATIONS.get(word, "")}
    if len(stem) > 4:
        candidates.add(stem.removesuffix("i"))
    if len(word) >= _MIN_FORM:
        candidates.add(word)
    if len(word) > _PREFIX_MIN_WORD:
        candidates.add(word[: max(5, int(0.6 * len(word)))])
    return tuple(
        sorted((form for form in candidates if len(form) > 1), key=lambda form: (-len(form), form))
    )


def name_match(stem: str, identifier: str) -> float:
    """Return how well a stem matches an identifier: 1, 0.5 or 0.

    The value is 1 if they are equal or one is the plural of the other, and 0.5 if one is a prefix
    of the other.
    """
    name = identifier.lower().replace("_", "")
    if name and (stem in (name, name + "s") or stem.removesuffix("s") == name):
        return 1.0
    return (
        0.5 if len(stem) >= 4 and name and (stem.startswith(name) or name.startswith(stem)) else 0.0
    )


def asks_for_tests(words: Iterable[str]) -> bool:
    """Return True if the lower-case words of a question ask for tests."""
    return any(map(_TEST_QUESTION.match, words))


def common_language(files: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of the language of nearly all code files; () without one.

    `files` maps languages to their numbers of files.
    """
    code = {language: count for language, count in files.items() if not is_prose(language)}
    languages = by_name()
    return next(
        (
            (language, *languages[language].aliases)
            for language, count in code.items()
            if count >= _NEARLY_ALL * sum(code.values()) and language in languages
        ),
        (),
    )


def is_prose(language: str) -> bool:
    """Return True for a language of text or data, not of code."""
    language_row = blocks.language_info(language)
    return language_row is not None and language_row.prose


def directory_depths(paths: Iterable[str]) -> Floats:
    """Count the directories above each file."""
    return np.array([path.count("/") for path in paths], np.float32)
