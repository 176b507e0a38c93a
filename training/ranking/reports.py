"""Fits the weights for long questions, such as bug reports, from the histories of repositories.

    python -m training.ranking.reports --repositories DIR [--clone] [--write]

DIR has the git repositories of `report_repositories.json` as OWNER+NAME/repo: permissive licences,
and none of them in a benchmark; with `--clone`, missing ones are cloned from GitHub first. A pair
is determined by the newest commit that the list names. Repositories with a file for each rule, such
as linters, are left out: their messages name the rule, and so the file.

A pair is the message of a commit and the files of code that it changed, which are to be found in
the tree of its parent. Messages are long, say what was wrong and name code, as reports do; but they
have no stack traces, no output of programs, and few blocks of code. The weights of such mentions
cannot be learned from them and stay as `PRIOR` says.

The score of a file is a linear function of its signals. It starts as the score of short questions;
listwise softmax with the squared distance from the prior moves it. Newton's method finds the one
minimum, so the same data give the same weights.
"""

import argparse
import asyncio
import json
import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cocosearchd.config.settings import EmbedderSettings, IndexingSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.indexing.pipeline.chunker import chunk_file
from cocosearchd.indexing.pipeline.skip_rules import content_skip_reason
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.detect import HEAD_BYTES, detect, is_supported
from cocosearchd.languages.parse import parse
from cocosearchd.languages.patterns.path_roles import is_test
from cocosearchd.search.code.code_profile import compute_signals, load_weights
from cocosearchd.search.lexical.analysis.documents import Documents, FileText, make_document
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    compute_signal_matrix,
    make_snapshot,
)
from cocosearchd.search.lexical.segments.segment import SegmentView, build_segment
from cocosearchd.search.reports.report import read_report
from cocosearchd.search.reports.report_signals import make_scorer
from cocosearchd.search.reports.report_terms import report_query_terms
from training.ranking.fit import WEIGHTS
from training.ranking.signals import MAX_FILE_BYTES, chunk_texts

Floats = NDArray[np.float64]
LIST = Path(__file__).with_name("report_repositories.json")
PAIRS = 25  # of each repository
MESSAGE = range(350, 20_000)  # characters
MAX_FILES = 5  # that a commit changes
CANDIDATES = 200  # files of a question: the best by the score of short questions, and the mentioned
L2, STEPS = 0.03, 50
BASE = "base"  # the score of short questions
# Weights of mentions that reports have and commit messages lack: set by hand. 1 is about the
# difference between the first and the fifth file. A report shows a use, a message the change, so
# links count more in reports: 0.5 fits 121 commits of five of these repositories.
UNSEEN = {
    "path_output": 0.7,
    "stem_output": 0.5,
    "defines_output": 0.2,
    "frame": 0.7,
    "message": 1.0,
    "linked": 0.75,
    "path_code": 0.4,
    "stem_code": 0.2,
    "defines_code": 0.3,
}
PRIOR = UNSEEN | {BASE: 1.0, "path_prose": 0.5, "path_inline": 0.4, "path_title": 0.5}
_CODE = (".py", ".js", ".ts", ".tsx", ".jsx", ".go", ".rs", ".rb", ".java", ".c", ".h", ".cpp")
_ASIDE = re.compile(r"(?:^|/)(?:docs?|examples?)/")
_TRAILER = re.compile(
    r"^(?:signed-off-by|co-authored-by|reviewed-by|change-id|closes?|fix(?:es|ed)?|refs?|resolves?"
    r"|related|cc)\b[: ].{0,60}$|^\* .{0,60}$|^---+$",
    re.IGNORECASE | re.MULTILINE,
)
_CHORE = re.compile(r"\b(?:bump|release|changelog|version|typo|format|lint|merge)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Pair:
    """A message, the tree in which it is a question, and the files that answer it."""

    commit: str
    parent: str
    message: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """Signals of the candidate files of a pair, (files, names), and which of them answer it."""

    signals: Floats
    answers: NDArray[np.bool_]


def read_pairs(repository: Path, newest: str) -> list[Pair]:
    """Choose pairs from the history of a commit: the same ones each time, oldest first."""
    log = run_git(
        repository,
        "log",
        "--no-merges",
        "--name-status",
        "--no-renames",
        "--format=%x01%H %P%x02%B%x03",
        newest,
    )
    pairs = [pair for entry in log.split("\x01")[1:] if (pair := _read_pair(entry)) is not None]
    pairs.reverse()
    chosen = random.Random(repository.parent.name).sample(range(len(pairs)), min(PAIRS, len(pairs)))
    return [pairs[number] for number in sorted(chosen)]


def _read_pair(entry: str) -> Pair | None:
    """Return the pair of an entry of the log; None if the commit is no answer to a question."""
    head, _, changes = entry.partition("\x03")
    names, _, body = head.partition("\x02")
    commit, *parents = names.split()
    message = _TRAILER.sub("", body).strip()
    rows = [line.split("\t", 1) for line in changes.splitlines() if "\t" in line]
    code = [(kind, path) for kind, path in rows if path.endswith(_CODE) and not _is_aside(path)]
    modified = tuple(path for kind, path in code if kind == "M")
    is_question = (
        len(parents) == 1
        and len(message) in MESSAGE
        and not _CHORE.search(message.partition("\n")[0])
        and 1 <= len(modified) <= MAX_FILES
        and len(code) <= len(modified) + 1
    )
    return Pair(commit, parents[0], message, modified) if is_question else None


def _is_aside(path: str) -> bool:
    return is_test(path) or bool(_ASIDE.search(path))


class TreeReader:
    """Reads trees of one repository as snapshots of the lexical index; equal files once.

    A context manager: one process of git serves all files.
    """

    def __init__(self, repository: Path, embedder: Embedder) -> None:
        self._repository = repository
        command = ["git", f"--git-dir={repository}", "cat-file", "--batch"]
        self._files = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._embedder = embedder
        self._terms = TermCache()
        self._documents: dict[tuple[str, str], Documents | None] = {}

    def __enter__(self) -> "TreeReader":
        return self

    def __exit__(self, *error: object) -> None:
        self._files.communicate()

    @property
    def terms(self) -> TermCache:
        """The terms of all trees."""
        return self._terms

    def read(self, commit: str) -> IndexSnapshot:
        """Return what the daemon would have in memory of the tree of a commit."""
        listing = run_git(self._repository, "ls-tree", "-r", "-z", "--full-tree", commit)
        documents = dict[tuple[str, str], Documents | None]()
        for row in filter(None, listing.split("\0")):
            details, _, path = row.partition("\t")
            mode, kind, blob = details.split()
            if kind == "blob" and mode != "120000" and is_supported(path):
                key = blob, path
                documents[key] = (
                    self._documents[key] if key in self._documents else self._document(*key)
                )
        self._documents = documents
        rows = [document for document in documents.values() if document is not None]
        dimension = self._embedder.fingerprint.dimension
        return make_snapshot((SegmentView(build_segment(rows, dimension)),), 1)

    def _document(self, blob: str, path: str) -> Documents | None:
        data = self.read_blob(blob)
        language = detect(path, data[:HEAD_BYTES]) if data is not None else ""
        if data is None or not language or content_skip_reason(data, MAX_FILE_BYTES):
            return None
        chunks = chunk_file(parse(path, data), chunker_limits(IndexingSettings()))
        if not chunks:
            return None
        texts = [f"{chunk.header}\n{chunk.text}" for chunk in chunks]
        vectors = asyncio.run(self._embedder.embed_documents(texts))
        text = FileText(path, 1, language, tuple(chunk_texts(path, chunks)), vectors)
        return make_document(text, self._terms)

    def read_blob(self, blob: str) -> bytes | None:
        """Return the bytes of a file by its id, or by `commit:path`; None if there is none."""
        requests, replies = self._files.stdin, self._files.stdout
        assert requests is not None, "it was opened with pipes"
        assert replies is not None, "it was opened with pipes"
        requests.write(f"{blob}\n".encode())
        requests.flush()
        reply = replies.readline().split()
        if len(reply) != 3:
            return None
        size = int(reply[2])
        return replies.read(size + 1)[:size]


def make_example(
    pair: Pair, snapshot: IndexSnapshot, reader: TreeReader, embedder: Embedder, project: str
) -> tuple[tuple[str, ...], Example]:
    """Return the names of the signals, and the example of a pair."""
    report = read_report(pair.message)
    terms, common = reader.terms, snapshot.common_language
    matrix = compute_signal_matrix(
        snapshot,
        report_query_terms(report, terms, project, common),
        terms,
        asyncio.run(embedder.embed_query(report.summary)),
        limit=CANDIDATES,
        report_signals=make_scorer(report, terms, project, common),
    )
    weights = load_weights()
    base = sum(compute_signals(matrix)[name] * weight for name, weight in weights.plain.items())
    signals = {BASE: np.asarray(base)} | compute_signals(matrix)
    answers = np.array([path in pair.paths for path in matrix.paths], np.bool_)
    return tuple(signals), Example(np.stack(list(signals.values()), 1).astype(np.float64), answers)


def fit(examples: Sequence[Example], names: Sequence[str]) -> dict[str, float]:
    """Return weights of signals by name, `BASE` among them."""
    prior = np.array([PRIOR.get(name, 0.0) for name in names])
    free = np.array([name not in UNSEEN for name in names])
    learned = [example for example in examples if example.answers.any()]
    weights = prior.copy()
    for _ in range(STEPS):
        gradient, curvature = _derivatives(learned, weights, prior)
        step = np.zeros(len(names))
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    return dict(zip(names, weights.tolist(), strict=True))


def spread_base(fitted: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
    """Return weights of signals, with the base score spread over its own signals."""
    return {
        name: round(weight + fitted[BASE] * base.get(name, 0.0), 4)
        for name, weight in fitted.items()
        if name != BASE
    }


def _derivatives(
    examples: Sequence[Example], weights: Floats, prior: Floats
) -> tuple[Floats, Floats]:
    gradient = L2 * (weights - prior)
    curvature = L2 * np.eye(len(weights))
    for example in examples:
        scores = example.signals @ weights
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        mean = shares @ example.signals
        target = example.answers / example.answers.sum()
        gradient += (mean - target @ example.signals) / len(examples)
        weighted = example.signals * shares[:, None]
        curvature += (example.signals.T @ weighted - np.outer(mean, mean)) / len(examples)
    return gradient, curvature


def all_examples(folder: Path, embedder: Embedder) -> Iterator[tuple[tuple[str, ...], Example]]:
    """Yield the examples of all repositories."""
    for row in json.loads(LIST.read_text("utf-8")):
        repository = folder / row["name"].replace("/", "+") / "repo"
        project = row["name"].rpartition("/")[2]
        pairs = read_pairs(repository, row["newest"])
        with TreeReader(repository, embedder) as reader:
            for pair in pairs:
                yield make_example(pair, reader.read(pair.parent), reader, embedder, project)
        print(row["name"], len(pairs), flush=True)


def make_sets(fitted: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the sets of weights of long questions: with vectors, and without."""
    short = load_weights()
    without = {
        name: weight for name, weight in fitted.items() if not name.startswith(("chunk", "file"))
    }
    return {
        "report": spread_base(fitted, short.plain),
        "report_without_vectors": spread_base(without, short.plain_without_vectors),
    }


def clone_missing(folder: Path, site: str = "https://github.com/") -> None:
    """Clone the repositories of the list that `folder` lacks, without work trees."""
    for row in json.loads(LIST.read_text("utf-8")):
        repository = folder / row["name"].replace("/", "+") / "repo"
        if not repository.exists():
            repository.parent.mkdir(parents=True, exist_ok=True)
            partial = repository.with_name("partial")
            shutil.rmtree(partial, ignore_errors=True)
            command = ["git", "clone", "--quiet", "--bare", f"{site}{row['name']}", str(partial)]
            subprocess.run(command, check=True)
            partial.rename(repository)


def write_shipped(sets: Mapping[str, Mapping[str, float]], count: int) -> None:
    """Put the weights into the shipped file."""
    body = json.loads(WEIGHTS.read_text("utf-8"))
    body["weights"] |= sets
    body["provenance"]["report_made_by"] = "python -m training.ranking.reports"
    body["provenance"]["report_data"] = f"{count} commits of {LIST.name}"
    body["provenance"]["report_l2"] = L2
    body["provenance"]["report_not_learned"] = dict(UNSEEN)
    WEIGHTS.write_text(json.dumps(body, indent=1) + "\n", "utf-8")


def run_git(repository: Path, *arguments: str) -> str:
    """Return the output of git over a repository of this machine."""
    command = ["git", f"--git-dir={repository}", *arguments]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    return output.decode("utf-8", "replace")


def main() -> None:
    """Fit, print the weights, and write them if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repositories", type=Path, required=True)
    parser.add_argument("--clone", action="store_true", help="clone missing repositories")
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS.name}")
    arguments = parser.parse_args()
    if arguments.clone:
        clone_missing(arguments.repositories)
    embedder = asyncio.run(open_embedder(EmbedderSettings()))
    rows = list(all_examples(arguments.repositories, embedder))
    names = rows[0][0]
    sets = make_sets(fit([example for _, example in rows], names))
    print(json.dumps(sets, indent=1))
    if arguments.write:
        write_shipped(sets, len(rows))


if __name__ == "__main__":
    main()
