"""The profile `code` beside words alone and vectors alone: names and sentences as questions.

    python -m benchmarks.quality.names_and_sentences --checkouts DIRECTORY [--each 40] [--folds DIRECTORY]
        [--web DIRECTORY]

Two sets are made from the benchmark's own checkouts, in process, repository by repository:
- *names*: a name that is defined once in a repository; right is the chunk that defines it;
- *sentences*: the first sentence of a comment, asked of an index from which all comments were removed; right is the
  chunk it was in. Such sentences share few words with the code.
With `--web`, a third and a fourth: questions typed into a web search, with and without docstrings
in the index. See `benchmarks.quality.web`. The weights have seen neither them nor such code.

MRR@10 by chunk and by file. The shipped weights were fitted on the annotated queries of the same
repositories and on some names in them. With `--folds`, as `training.ranking.fit --folds` writes
them, each repository is asked with weights from the others.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import machine
from benchmarks.quality import web
from benchmarks.quality.corpus import CODE_SUFFIXES, repositories
from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.search.code.code_profile import (
    RankedChunk,
    Weights,
    load_weights,
    rank_chunks,
    score_matrix,
)
from cocosearchd.search.lexical.analysis.documents import FileText, make_document
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    SignalMatrix,
    compute_signal_matrix,
    make_snapshot,
)
from cocosearchd.search.lexical.segments.segment import SegmentView, build_segment
from cocosearchd.search.places import MAX_OTHER_PLACES
from training.ranking.sentences import Sample, without_comments
from training.ranking.signals import File, Place, chunk_texts, defined_once, read

WEB = {"web": True, "web, no docstrings": False}  # are the functions documented?
TOP = 10
BUDGETS = (1000, 2000, 4000)  # tokens
ENTRY_TOKENS = 12  # of a location with its symbol
SYSTEMS = ("code", "words alone", "vectors alone")


def main() -> None:
    """Make the sets, ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkouts", type=Path, help="made by python -m benchmarks.quality.clone")
    parser.add_argument(
        "--each", type=int, default=40, help="questions of each kind and repository at most"
    )
    parser.add_argument(
        "--folds", type=Path, help="weights that have not seen the repository they are asked about"
    )
    parser.add_argument("--web", type=Path, help="a checkout of microsoft/CodeXGLUE")
    arguments = parser.parse_args()
    embedder = asyncio.run(open_embedder(EmbedderSettings()))
    scores = dict[str, list[NDArray[np.float64]]]()
    if arguments.checkouts:
        scores |= of_repositories(arguments.checkouts, arguments.folds, arguments.each, embedder)
    if arguments.web:
        scores |= {
            kind: of_web(arguments.web, embedder, documented=documented)
            for kind, documented in WEB.items()
        }
    print(machine())
    for kind, rows in scores.items():
        means = np.mean(rows, axis=0)
        print(f"{kind} (n={len(rows)}), MRR@10 by chunk / by file")
        for system, (by_chunk, by_file, in_ten, *in_budgets, lines) in zip(
            SYSTEMS, means, strict=True
        ):
            within = ", ".join(
                f"{budget} {share:.3f}" for budget, share in zip(BUDGETS, in_budgets, strict=True)
            )
            print(
                f"  {system:<14} {by_chunk:.3f} / {by_file:.3f}, right place @10 {in_ten:.3f}, "
                f"within tokens: {within}; {lines:.0f} lines until then"
            )


def of_repositories(
    checkouts: Path, folds: Path | None, count: int, embedder: Embedder
) -> dict[str, list[NDArray[np.float64]]]:
    """The figures of every name and sentence, as `asked` gives them."""
    scores: dict[str, list[NDArray[np.float64]]] = {"names": [], "sentences": []}
    for repository in repositories():
        weights = weights_for(repository.name, folds)
        files = [
            file
            for file in read(checkouts / repository.name / repository.benchmark_root)
            if file[2] and file[0].endswith(CODE_SUFFIXES)
        ]
        random_ = random.Random(repository.name)
        chosen = {"names": chosen_of(names(files), random_, count)}
        sentences, silent = without_comments(files)
        chosen["sentences"] = chosen_of(sentences, random_, count)
        for kind, corpus in (("names", files), ("sentences", silent)):
            state, terms = indexed(corpus, embedder)
            texts = texts_by_place(corpus)
            scores[kind] += [
                asked(state, terms, embedder, sample, weights, texts) for sample in chosen[kind]
            ]
    return scores


def of_web(checkout: Path, embedder: Embedder, *, documented: bool) -> list[NDArray[np.float64]]:
    """The figures of every question typed into a web search."""
    questions, texts = web.functions(checkout, documented=documented)
    files = [file for file in web.files(texts) if file[2]]
    state, terms = indexed(files, embedder)
    samples = (Sample(text, (web.path_of(number), 0)) for text, number in questions)
    by_place = texts_by_place(files)
    return [asked(state, terms, embedder, sample, load_weights(), by_place) for sample in samples]


def texts_by_place(files: Sequence[File]) -> dict[Place, str]:
    """Return the texts of all chunks by path and first byte."""
    return {(path, chunk.start_byte): chunk.text for path, _, chunks in files for chunk in chunks}


def weights_for(repository: str, folder: Path | None) -> Weights:
    """The shipped weights, or those of the fold in `folder` that holds the repository out."""
    if folder is None:
        return load_weights()
    files = sorted(folder.glob("fold-*.json"))
    return load_weights(
        str(next(file for file in files if repository in json.loads(file.read_text())["held_out"]))
    )


def names(files: Sequence[File]) -> list[Sample]:
    """Names that are defined in one place."""
    return [Sample(name, location) for name, location in defined_once(files)]


def chosen_of(samples: list[Sample], random_: random.Random, count: int) -> list[Sample]:
    """A reproducible choice."""
    return random_.sample(samples, min(count, len(samples)))


def indexed(files: Sequence[File], embedder: Embedder) -> tuple[IndexSnapshot, TermCache]:
    """Build the index that the daemon would have in memory."""
    terms, documents = TermCache(), []
    for path, language, chunks in files:
        vectors = asyncio.run(
            embedder.embed_documents([f"{chunk.header}\n{chunk.text}" for chunk in chunks])
        )
        documents.append(
            make_document(
                FileText(path, 1, language, tuple(chunk_texts(path, chunks)), vectors), terms
            )
        )
    return make_snapshot(
        (SegmentView(build_segment(documents, embedder.fingerprint.dimension)),), 1
    ), terms


def asked(
    state: IndexSnapshot,
    terms: TermCache,
    embedder: Embedder,
    sample: Sample,
    weights: Weights,
    texts: Mapping[Place, str],
) -> NDArray[np.float64]:
    """(systems, 7): reciprocal rank by chunk and by file, 1 where the chunk is in the first ten and
    within each budget of tokens, and the lines of code that are shown until the chunk.

    `code` shows several places of a file; they count in the order in which they are shown.
    """
    query = terms.make_query_terms(sample.text, common=state.common_language)
    matrix = compute_signal_matrix(
        state, query, terms, asyncio.run(embedder.embed_query(sample.text))
    )
    assert matrix.chunks.cosines is not None
    orders = [
        shown_places(matrix, query.is_name, weights),
        best_per_file(matrix, matrix.chunks.scores),
        best_per_file(matrix, np.nan_to_num(matrix.chunks.cosines, nan=-1.0)),
    ]
    return np.array(
        [
            (
                reciprocal(order[:TOP], sample.place),
                by_file(order, sample.place),
                float(sample.place in order[:TOP]),
                *costs(order, sample.place, texts),
            )
            for order in orders
        ]
    )


def costs(order: Sequence[Place], right: Place, texts: Mapping[Place, str]) -> list[float]:
    """1 for each of BUDGETS that the answer reaches the right place within; lines until then.

    The first place of a file is shown as code, the others as one entry of a line.
    """
    tokens, lines, shown_paths = 0, 0, set[str]()
    for path, start in order:
        if path in shown_paths:
            tokens += ENTRY_TOKENS
        else:
            shown_paths.add(path)
            text = texts[path, start]
            tokens += estimate_tokens(text) + ENTRY_TOKENS
            lines += text.count("\n") + 1
        if (path, start) == right:
            return [*(float(tokens <= budget) for budget in BUDGETS), float(lines)]
    return [*(0.0 for _ in BUDGETS), float(lines)]


def shown_places(matrix: SignalMatrix, is_name: bool, weights: Weights) -> list[Place]:
    """Return the places of an answer with ten results, in the order in which they are shown."""
    by_file = dict[str, list[RankedChunk]]()
    for chunk in rank_chunks(score_matrix(matrix, is_name, weights), TOP):
        by_file.setdefault(chunk.path, []).append(chunk)
    return [
        (chunk.path, chunk.start_byte)
        for chunks in by_file.values()
        for chunk in chunks[: 1 + MAX_OTHER_PLACES]
    ]


def best_per_file(matrix: SignalMatrix, scores: NDArray[np.float32]) -> list[Place]:
    """A leg by itself, one chunk of each file."""
    seen_files, order = set[int](), list[Place]()
    for chunk in np.argsort(-scores, kind="stable").tolist():
        file = int(matrix.chunks.files[chunk])
        if file not in seen_files:
            seen_files.add(file)
            order.append((matrix.paths[file], int(matrix.chunks.keys[chunk, 0])))
        if len(order) == 10:
            break
    return order


def reciprocal(order: Sequence[Place], right: Place) -> float:
    """1 / rank of the right chunk, 0 if it is not there."""
    return next((1 / rank for rank, location in enumerate(order, 1) if location == right), 0.0)


def by_file(order: Sequence[Place], right: Place) -> float:
    """1 / rank of the right file among the files, 0 if it is not there."""
    paths = dict.fromkeys(path for path, _ in order)
    return next((1 / rank for rank, path in enumerate(paths, 1) if path == right[0]), 0.0)


if __name__ == "__main__":
    main()
