"""Sentences of comments as questions about code without comments, in files whose names say nothing.

They stand for what people type who do not know the project: few words in common with the code, no
name of a file. Each is asked a second time without the word by which it finds its answer best, as
by somebody who has another word for it.
"""

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.quality.corpus import CODE_SUFFIXES, Question, repositories
from benchmarks.quality.metric import Target
from cocosearchd.config.settings import IndexingSettings
from cocosearchd.embedding.base import Embedder
from cocosearchd.indexing.pipeline.chunker import chunk_file
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.parse import parse
from cocosearchd.languages.patterns.comments import find_comment_spans
from cocosearchd.search.code.code_profile import compute_signals
from cocosearchd.search.lexical.analysis.terms import STOP_WORDS, TermCache
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot, compute_signal_matrix
from training.ranking.signals import File, Place, Row, indexed, read

SENTENCE = "sentence"  # the category of questions that nobody asked: sentences of comments
# of each repository: questions, and definitions among which the answer is looked for
SENTENCES, OTHERS = 8, 300
_LEAST = 80  # characters of a definition that can answer
_LEAST_WORDS = 3  # of a question
_MARKS = re.compile(r"^[\s/*#!<>\"'-]+|[*/\"']+$", re.MULTILINE)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z ,'()-]+")
_BOILERPLATE = re.compile(
    r"licen[sc]e|copyright|todo|fixme|noqa|eslint|deprecated|generated|https?:", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A question and its one answer."""

    text: str
    place: Place


def sentence_rows(checkouts: Path, embedder: Embedder) -> Iterator[Row]:
    """A row per sentence, repository by repository. Each definition is a file of its own with a
    number for a name.
    """
    for repository in repositories():
        root = checkouts / repository.name / repository.benchmark_root
        yield from _of_repository(
            repository.name, [f for f in read(root) if f[0].endswith(CODE_SUFFIXES)], embedder
        )


def _of_repository(repository: str, files: Sequence[File], embedder: Embedder) -> Iterator[Row]:
    samples, silent = without_comments(files)
    pool = {
        (path, chunk.start_byte): (path, chunk.text)
        for path, _, chunks in silent
        for chunk in chunks
        if chunk.definitions and len(chunk.text.strip()) > _LEAST
    }
    random_ = random.Random(repository)
    chosen = random_.sample(samples, min(SENTENCES, len(samples)))
    others = random_.sample(sorted(pool), min(OTHERS, len(pool)))
    places = dict.fromkeys([*(sample.place for sample in chosen), *others])
    names = {
        place: f"{number}.{place[0].rpartition('.')[2]}" for number, place in enumerate(places)
    }
    languages = {path: language for path, language, _ in files}
    parsed = (
        (
            place,
            chunk_file(
                parse(names[place], pool[place][1].encode()), chunker_limits(IndexingSettings())
            ),
        )
        for place in places
    )
    terms = TermCache()
    state = indexed([(names[p], languages[p[0]], chunks) for p, chunks in parsed], terms, embedder)
    for sample in (
        *chosen,
        *(
            weaker
            for original in chosen
            for weaker in weakened(original, names[original.place], state, terms)
        ),
    ):
        query = terms.make_query_terms(sample.text, common=state.common_language)
        matrix = compute_signal_matrix(
            state, query, terms, asyncio.run(embedder.embed_query(sample.text))
        )
        name, paths = names[sample.place], tuple(matrix.paths)
        question = Question(sample.text, SENTENCE, (Target(name),))
        answers = np.array([path == name for path in paths], np.bool_)
        yield Row(repository, question, query.is_name, paths, compute_signals(matrix), answers)


def weakened(sample: Sample, path: str, state: IndexSnapshot, terms: TermCache) -> Iterator[Sample]:
    """The sentence without the word that speaks most for the answer in the file `path`; none if no
    word does.
    """
    words, gains = sample.text.split(), list[float]()
    for word in words:
        matrix = compute_signal_matrix(
            state, terms.make_query_terms(word, common=state.common_language), terms
        )
        is_in_file = matrix.chunks.files == (
            matrix.paths.index(path) if path in matrix.paths else -1
        )
        gains.append(
            0.0
            if word.lower() in STOP_WORDS
            else float(matrix.chunks.scores[is_in_file].max(initial=0))
        )
    best = int(np.argmax(gains))
    if gains[best] > 0 and len(words) > _LEAST_WORDS:
        yield Sample(" ".join(words[:best] + words[best + 1 :]), sample.place)


def without_comments(files: Sequence[File]) -> tuple[list[Sample], list[File]]:
    """A sentence per chunk that has a fit comment, and the files without any comment."""
    samples, silent = list[Sample](), list[File]()
    for path, language, chunks in files:
        stripped = []
        for chunk in chunks:
            spans = find_comment_spans(chunk.text, language)
            sentence = next(
                (s for start, end in spans if (s := first_sentence(chunk.text[start:end]))), ""
            )
            text = chunk.text
            for start, end in reversed(spans):
                text = text[:start] + text[end:]
            if sentence and chunk.definitions and len(text.strip()) > _LEAST:
                samples.append(Sample(sentence, (path, chunk.start_byte)))
            stripped.append(replace(chunk, text=text))
        silent.append((path, language, tuple(stripped)))
    return samples, silent


def first_sentence(comment: str) -> str:
    """Return the first sentence if it has 5 to 30 plain words, else "".

    A leading name of the function is no plain word.
    """
    text = " ".join(_MARKS.sub(" ", comment).split())
    sentence = re.split(r"(?<=[a-z])\.(?:\s|$)|:\s", text)[0].strip()
    fit = (
        _PLAIN.fullmatch(sentence)
        and 5 <= len(sentence.split()) <= 30
        and not _BOILERPLATE.search(sentence)
    )
    return sentence if fit else ""
