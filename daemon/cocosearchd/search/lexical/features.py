"""The ranking signals of the profile `code`, one pure function each, over arrays of all files of an
index.

Constants without another source were chosen by cross-validation over 25 repositories and 499
annotated queries (see training/ranking); differences below 0.005 NDCG@10 are noise there.
"""

import re
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from cocosearchd.languages.language_table import by_name

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

# of a file, summed: a file that speaks of the query in three places beats one that does in one
TOP_CHUNKS = 3
MIN_DEVIATION = 0.03  # of cosines: the few files of a tiny index may agree by chance
# Levels from the usual depth, and deviations from the usual size. Beyond that they say no more:
# else one file that is unlike all others would come before an exact name.
_MAX_DISTANCE = np.float32(4.0)
# of what `definition_shares` gives to a file that defines a name: that one has signals of definitions beside it
_USAGE_WEIGHT = 2.0
_NEARLY_ALL = 0.9  # of the files of code: elsewhere the name of a language tells files apart
_MIN_FORM = 3  # characters: a form shorter than this is no evidence that a path speaks of a word
_PREFIX_MIN_WORD = 6  # characters of a word, above which its beginning stands for it
# What people abbreviate in file names.
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
_TEST_FILE = re.compile(
    r"^(?:test_.*|.*_(?:test|spec)\.\w+|.*\.(?:test|spec)\.[jt]sx?|.*tests?\.(?:java|php|kt|swift|cs|scala)"
    r"|.*spec\.(?:kt|swift|scala)|.*suite\.scala|test_helpers?.*)$"
)
# one of them is in each of these names
_TEST_WORDS = ("test", "spec", "suite", "fixture", "bench", "mock")
_TEST_DIRECTORY = {
    "test", "tests", "__tests__", "spec", "specs", "testing", "testdata", "fixture", "fixtures", "bench", "benchmark",
    "benchmarks", "mock", "mocks",
}  # fmt: skip
# Stems of files that gather or name what others do: `index.ts`, `mod.rs`, `utils.py`.
HUBS = {
    "index", "__init__", "mod", "lib", "main", "init", "type", "types", "constant", "constants", "base", "common",
    "util", "utils", "helper", "helpers",
}  # fmt: skip
PROSE = {
    "markdown", "rst", "text", "html", "xml", "json", "yaml", "toml", "css", "svg", "csv", "ini", "mdx",
    "github-actions", "gitlab-ci", "compose", "kubernetes", "helm",
}  # fmt: skip


def idf(found: int, total: int) -> float:
    """BM25's weight of a term that `found` of `total` documents have (Robertson and Zaragoza 2009,
    never negative).
    """
    return float(np.log1p((total - found + 0.5) / (found + 0.5)))


def bm25(
    weight: float | Floats, tf: Floats, lengths: Floats, average: float, k1: float, b: float
) -> Floats:
    """A term's share of the score of each document it is in. `weight`: idf x how often the query
    has it.
    """
    norms = k1 * (1 - b + b * lengths / max(average, 1e-9))
    share: Floats = (weight * tf * (k1 + 1) / (tf + norms)).astype(np.float32)
    return share


def best_chunk(scores: Floats, starts: Ints) -> Floats:
    """The best chunk score of each file. `starts`: first chunk of each file; no file is without
    chunks.
    """
    return np.maximum.reduceat(scores, starts) if len(starts) else np.zeros(0, np.float32)


def best_three(scores: Floats, starts: Ints, chunk_files: Ints) -> Floats:
    """The sum of the `TOP_CHUNKS` best chunk scores of each file."""
    left, total = scores.copy(), np.zeros(len(starts), np.float32)
    for _ in range(TOP_CHUNKS):
        best = best_chunk(left, starts)
        total += best
        # Take the best away once per file: the first chunk that has it.
        at = np.flatnonzero((left == best[chunk_files]) & (left > 0))
        left[at[np.diff(chunk_files[at], prepend=-1) > 0]] = 0
    return total


def scale_to_maximum(values: Floats) -> Floats:
    """Divided by the maximum; all zero where that is zero."""
    top = values.max(initial=0)
    return values / top if top > 0 else np.zeros_like(values)


def mean_and_deviation(cosines: Floats) -> tuple[float, float]:
    """Mean and deviation of what is known (not NaN); the deviation is at least
    `MIN_DEVIATION`.
    """
    known = cosines[~np.isnan(cosines)]
    return (
        (float(known.mean()), max(float(known.std()), MIN_DEVIATION))
        if len(known)
        else (0.0, MIN_DEVIATION)
    )


def z_scores(values: Floats, mean: float, deviation: float) -> Floats:
    """How far each value lies from a mean, in deviations; 0 where it is not known (NaN)."""
    found: Floats = np.nan_to_num(
        (values - np.float32(mean)) / np.float32(deviation), nan=0.0
    ).astype(np.float32)
    return found


def standardise(values: Floats) -> Floats:
    """z-scores over the files, at most `_MAX_DISTANCE` from zero; all zero where they do not differ."""
    if not len(values):
        return values
    deviation = float(values.std())
    if deviation <= 1e-9:
        return np.zeros_like(values)
    found: Floats = np.clip(
        (values - values.mean()) / deviation, -_MAX_DISTANCE, _MAX_DISTANCE
    ).astype(np.float32)
    return found


def relative_depths(depths: Floats) -> Floats:
    """Levels below the usual; a file that lies far below all others must still be found by its
    exact name.
    """
    return np.clip(depths - depths.mean(), -_MAX_DISTANCE, _MAX_DISTANCE) if len(depths) else depths


def definition_shares(whole: Floats, last: Floats, used: Floats | None = None) -> Floats:
    """Shared equally by the files that define a name; each value says what a file defines, 0
    nothing.

    `whole` counts: the name as it was asked. Where no file defines that, `last` does: any part of
    it, or any identifier of a sentence. A name that is defined in one place only means that place,
    whatever paths say. Where no file defines any, the files that have it share: `used`. There
    nothing else speaks for the very name, so it counts more.
    """
    if used is not None and not (whole.any() or last.any()):
        return _share_equally(used) * np.float32(_USAGE_WEIGHT)
    return _share_equally(whole if whole.any() else last)


def _share_equally(values: Floats) -> Floats:
    speaks = values > 0
    return (speaks / np.float32(max(int(speaks.sum()), 1))).astype(np.float32)


def file_stem(path: str) -> str:
    """A file's name without extension, in lower case; a dot in front begins none."""
    name = path[path.rfind("/") + 1 :].lower()
    stem, _, _ = name.rpartition(".")
    return stem if stem.strip(".") else name


def joined_stem(stem: str) -> str:
    """Without `-`, `_` and `.`: `route_group` gives routegroup."""
    return stem.replace("_", "").replace("-", "").replace(".", "")


def name_forms(word: str, stem: str) -> tuple[str, ...]:
    """How a lower-case word may stand in a file's name, longest first."""
    found = {stem if len(stem) >= _MIN_FORM else word, ABBREVIATIONS.get(word, "")}
    if len(stem) > 4:
        found.add(stem.removesuffix("i"))
    if len(word) >= _MIN_FORM:
        found.add(word)
    if len(word) > _PREFIX_MIN_WORD:
        found.add(word[: max(5, int(0.6 * len(word)))])
    return tuple(
        sorted((form for form in found if len(form) > 1), key=lambda form: (-len(form), form))
    )


def name_match(stem: str, identifier: str) -> float:
    """How a file's name stands to an identifier: 1 the same (a plural counts), 0.5 one begins the
    other, else 0.
    """
    name = identifier.lower().replace("_", "")
    if name and (stem in (name, name + "s") or stem.removesuffix("s") == name):
        return 1.0
    return (
        0.5 if len(stem) >= 4 and name and (stem.startswith(name) or name.startswith(stem)) else 0.0
    )


def is_test(path: str) -> bool:
    """Is this a test, a fixture or a benchmark, by its name or a directory's."""
    lowered = path.lower()
    if not any(map(lowered.__contains__, _TEST_WORDS)):
        return False
    *directories, name = lowered.split("/")
    return bool(_TEST_FILE.match(name)) or not _TEST_DIRECTORY.isdisjoint(directories)


def common_language(files: Mapping[str, int]) -> tuple[str, ...]:
    """The names of the language that nearly all files of code are in. `files`: how many are in each
    language.
    """
    code = {language: count for language, count in files.items() if not is_prose(language)}
    known = by_name()
    return next(
        (
            (language, *known[language].aliases)
            for language, count in code.items()
            if count >= _NEARLY_ALL * sum(code.values()) and language in known
        ),
        (),
    )


def is_prose(language: str) -> bool:
    """Is this text or data about code, not code."""
    return language in PROSE


def directory_depths(paths: Iterable[str]) -> Floats:
    """How many directories deep each file is."""
    return np.array([path.count("/") for path in paths], np.float32)
