"""Groups scored candidates into results: the best place of a file, and its other places. Pure.

A place is a chunk that answers. Results keep the order of their files. Other places of a file are
shown if they are among the best places of the whole answer.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cocosearchd.languages import identifiers
from cocosearchd.languages.stems import Stemmer
from cocosearchd.languages.symbol_table import NO_SYMBOLS, PackedSymbols
from cocosearchd.model import Hit, Place, Symbol
from cocosearchd.search.alike import (
    SimilarGroup,
    Text,
    WantedVariant,
    group_copies,
    group_similar,
)
from cocosearchd.search.lexical.analysis.question_language import question_languages
from cocosearchd.search.lexical.analysis.terms import STOP_WORDS
from cocosearchd.search.plan import Plan
from cocosearchd.search.scored_candidates import ScoredCandidate
from cocosearchd.store.chunks.rows import Candidate

# Other places of one result, one line each: with the best place, a result has at most ten places.
MAX_OTHER_PLACES = 9
# Number of best places of an answer, as a share of its limit: other places are shown if they are
# among these. Measured with benchmarks.quality.names_and_sentences: between 0.5 and 1, the share of
# right places among the first ten differs by only 0.03.
BEST_SHARE = 1.0
MAX_LINES = 500  # lines of a place that are searched for the line to open; a chunk has fewer
MAX_LINE_CHARACTERS = 400  # searched characters of a line
# Questions whose words are remembered: one question to many indexes asks for them once an index
REMEMBERED_QUESTIONS = 8


@dataclass(frozen=True, slots=True)
class ScoredResult:
    """A result: the best place of a file, its other places, and the paths of alike files.

    `counterparts` are files that belong to the file, as a header belongs to its source.
    `frame_lines` are the lines of the file that frames of the question name, innermost first.
    """

    best: ScoredCandidate
    more_places: tuple[ScoredCandidate, ...] = ()
    similar_paths: tuple[str, ...] = ()
    counterparts: tuple[str, ...] = ()
    frame_lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChosenFile:
    """A file that becomes a result: its best place, and the paths of alike files."""

    best: ScoredCandidate
    similar_paths: tuple[str, ...] = ()


def select_results(plan: Plan, scored: Sequence[ScoredCandidate]) -> tuple[ScoredResult, ...]:
    """Select at most `plan.limit` results from the relevant candidates.

    A file has one result with several places. One file represents a group of alike files. With
    `all_chunks`, each chunk is a result, the most relevant first. In a list of symbols, each symbol
    is a result.
    """
    if plan.listing:
        return tuple(map(ScoredResult, _select_relevant(plan, scored)[: plan.limit]))
    if plan.all_chunks:
        ordered = sorted(
            _select_relevant(plan, scored), key=lambda entry: (-entry.relevance, -entry.place_score)
        )
        return tuple(map(ScoredResult, ordered[: plan.limit]))
    files = choose_files(plan, scored)
    return make_results(plan, scored, files, files)


def _select_relevant(plan: Plan, scored: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    if not (plan.min_relevance or plan.min_evidence):
        return list(scored)
    return [
        entry
        for entry in scored
        if is_relevant(plan, entry.relevance, every_word=entry.every_word, cosine=entry.cosine)
    ]


def is_relevant(plan: Plan, relevance: float, *, every_word: bool, cosine: float | None) -> bool:
    """Return True if a chunk passes the limits of a plan on relevance and evidence.

    Evidence is 1 for a chunk with every word of the query, otherwise its cosine, at least 0.
    """
    evidence = 1.0 if every_word else max(0.0, cosine or 0.0)
    return relevance >= plan.min_relevance and evidence >= plan.min_evidence


def choose_files(plan: Plan, scored: Sequence[ScoredCandidate]) -> tuple[ChosenFile, ...]:
    """Choose the files of at most `plan.limit` results, one per group of alike files."""
    best_by_path = dict[str, ScoredCandidate]()
    for entry in _select_relevant(plan, scored):
        best_by_path.setdefault(entry.candidate.path, entry)
    best = list(best_by_path.values())
    if not plan.collapse:
        return tuple(map(ChosenFile, best[: plan.limit]))
    return tuple(
        ChosenFile(group.representative, tuple(entry.candidate.path for entry in group.alternates))
        for group in group_similar(best, _text_of, wanted_variant(plan.text, query_words(plan)))[
            : plan.limit
        ]
    )


@lru_cache(maxsize=REMEMBERED_QUESTIONS)
def wanted_variant(question: str, words: frozenset[str]) -> WantedVariant:
    """Return the variant of alike files that a question with these content words asks for."""
    return WantedVariant(words, question_languages(question))


def make_results(
    plan: Plan,
    scored: Sequence[ScoredCandidate],
    files: Sequence[ChosenFile],
    shown_files: Sequence[ChosenFile],
) -> tuple[ScoredResult, ...]:
    """Make results for `shown_files`, which are some of the chosen `files`.

    With `plan.collapse`, one place represents nearly equal places of a file. Other places of a file
    are shown if they are among the best places of all chosen files. Measured with sentences as
    questions: the right function is among the first ten places for 60 % of the questions, instead
    of 40 % (benchmarks/README.md).
    """
    places_by_file = {file.best.candidate.path: list[ScoredCandidate]() for file in files}
    for entry in _select_relevant(plan, scored):
        if entry.candidate.path in places_by_file:
            places_by_file[entry.candidate.path].append(entry)
    threshold = _threshold(places_by_file.values(), plan.limit)
    results = [
        _make_result(places_by_file[file.best.candidate.path], threshold, collapse=plan.collapse)
        for file in shown_files
    ]
    return tuple(
        replace(result, similar_paths=file.similar_paths) if file.similar_paths else result
        for result, file in zip(results, shown_files, strict=True)
    )


def _text_of(entry: ScoredCandidate) -> Text:
    candidate = entry.candidate
    return Text(candidate.path, candidate.language, candidate.symbol_name, candidate.content)


def _threshold(files: Iterable[Sequence[ScoredCandidate]], limit: int) -> float:
    scores = [entry.place_score for places in files for entry in places]
    return best_places_threshold(scores, limit)


def best_places_threshold(scores: Sequence[float] | NDArray[np.float32], limit: int) -> float:
    """Return the least score of a place that is among the best of an answer with `limit` results."""
    if not len(scores):
        return 0.0
    count = min(max(1, round(limit * BEST_SHARE)), len(scores))
    return float(np.partition(scores, -count)[-count])


def _make_result(
    places: Sequence[ScoredCandidate], threshold: float, *, collapse: bool
) -> ScoredResult:
    best, *rest = places
    more_places = sorted(
        (entry for entry in rest if entry.place_score >= threshold),
        key=lambda entry: (-entry.place_score, entry.candidate.key),
    )
    if collapse and more_places:
        best, *more_places = map(_make_representative, group_copies((best, *more_places), _text_of))
    return ScoredResult(best, tuple(more_places[:MAX_OTHER_PLACES]))


def _make_representative(group: SimilarGroup[ScoredCandidate]) -> ScoredCandidate:
    """Return the place that represents a group, with the first lines of the other places."""
    lines = tuple(sorted(entry.candidate.start_line for entry in group.alternates))
    return group.representative._replace(similar_lines=lines) if lines else group.representative


@dataclass(frozen=True, slots=True)
class HeadingRules:
    """Rules that choose the line to open in a place, and the definition that names the place.

    `words` are the roots of the question's words. If the question filters symbols, `passes` applies
    the filter to the kind and the qualified name of a symbol.
    """

    words: frozenset[str] = frozenset()
    passes: Callable[[str, str], bool] | None = None


def to_hit(
    index: str,
    result: ScoredResult,
    rules: HeadingRules = HeadingRules(),
    symbols: PackedSymbols = NO_SYMBOLS,
) -> Hit:
    """Convert a result to a hit without context. `symbols` are the symbols of its file."""
    scored = result.best
    candidate = scored.candidate
    heading = _make_heading(candidate, rules, symbols, result.frame_lines)
    return Hit(
        index=index,
        path=candidate.path,
        start_byte=candidate.start_byte,
        end_byte=candidate.end_byte,
        start_line=candidate.start_line,
        end_line=candidate.end_line,
        language=candidate.language,
        score=scored.score,
        match_type=scored.match_type,
        block_type=candidate.block_type,
        hierarchy=candidate.hierarchy,
        symbol_type=heading.symbol_type,
        symbol_name=heading.symbol_name,
        symbol_signature=heading.symbol_signature,
        content=candidate.content,
        signals=(
            ("relevance", scored.relevance),
            ("every_word", float(scored.every_word)),
            ("vector_rank", float(scored.vector_rank)),
            ("keyword_rank", float(scored.keyword_rank)),
            *(() if scored.cosine is None else (("cosine", scored.cosine),)),
            *scored.signals,
        ),
        symbol_parent=candidate.symbol_parent,
        relevance=scored.relevance,
        line=heading.line,
        other_places=tuple(
            _to_place(entry, rules, symbols, result.frame_lines) for entry in result.more_places
        ),
        similar_paths=result.similar_paths,
        similar_lines=scored.similar_lines,
        counterparts=result.counterparts,
        frame_lines=result.frame_lines,
        compared_places=scored.compared_places,
    )


def _to_place(
    entry: ScoredCandidate,
    rules: HeadingRules,
    symbols: PackedSymbols,
    frame_lines: Sequence[int],
) -> Place:
    candidate = entry.candidate
    heading = _make_heading(candidate, rules, symbols, frame_lines)
    return Place(
        start_line=candidate.start_line,
        end_line=candidate.end_line,
        start_byte=candidate.start_byte,
        end_byte=candidate.end_byte,
        symbol_type=heading.symbol_type,
        symbol_name=heading.symbol_name,
        symbol_signature=heading.symbol_signature,
        relevance=entry.relevance,
        line=heading.line,
        text=heading.text,
        similar_lines=entry.similar_lines,
    )


class _Heading(NamedTuple):
    """The line to open in a place (from 1), its text, and the definition that names the place."""

    line: int
    text: str
    symbol_type: str | None
    symbol_name: str | None
    symbol_signature: str | None


def _make_heading(
    candidate: Candidate,
    rules: HeadingRules,
    symbols: PackedSymbols,
    frame_lines: Sequence[int],
) -> _Heading:
    """Choose the line to open in a chunk, and the definition that names the place.

    The line of a frame is the line to open, that of the innermost one first.

    A chunk may contain several small definitions, and one of them names the chunk. If the line to
    open has words of the question and is in another definition, the other definition names the
    place. If the question filters symbols, the definition must pass the filter.
    """
    lines = range(candidate.start_line, candidate.end_line + 1)
    frame_line = next((line for line in frame_lines if line in lines), None)
    line = frame_line or _line_to_open(candidate, rules.words, symbols)
    if rules.passes is not None:
        symbol = _passing_symbol(candidate, line, rules.passes, symbols)
    elif frame_line:
        symbol = next(iter(symbols.around(line)), None) if _packs_definitions(candidate) else None
    else:
        symbol = _symbol_of_line(candidate, line, rules.words, symbols)
    if symbol is None:
        names = (candidate.symbol_type, candidate.symbol_name, candidate.symbol_signature)
        return _Heading(line, _line_text(candidate, line), *names)
    if not symbol.start_line <= line <= symbol.end_line:
        line = symbol.start_line
    text = _line_text(candidate, line)
    return _Heading(line, text, symbol.kind, symbol.qualified_name, symbol.signature)


def _line_to_open(candidate: Candidate, words: frozenset[str], symbols: PackedSymbols) -> int:
    """Return the line of a chunk with the most words of the question.

    Without any word, it is the first line of the definition that names the chunk. Without that, it
    is the first line with text.
    """
    number = best_line(candidate.content, words)
    if number is not None:
        return candidate.start_line + number
    if candidate.symbol_name and candidate.definitions:
        for symbol in _symbols_in(candidate, symbols):
            if symbol.qualified_name == candidate.symbol_name:
                return symbol.start_line
    lines = candidate.content.split("\n", MAX_LINES)
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    return candidate.start_line + first


def _symbol_of_line(
    candidate: Candidate, line: int, words: frozenset[str], symbols: PackedSymbols
) -> Symbol | None:
    """Return the definition around a line, if the line has words of the question.

    Return None if the definition that names the chunk is a better name for the place.
    """
    if not _packs_definitions(candidate) or not _has_word(_line_text(candidate, line), words):
        return None
    around = symbols.around(line)
    return around[0] if around and _names_place(around, candidate.symbol_name, words) else None


def _line_text(candidate: Candidate, line: int) -> str:
    offset = line - candidate.start_line
    return candidate.content.split("\n", offset + 1)[offset].strip()[:MAX_LINE_CHARACTERS]


def _passing_symbol(
    candidate: Candidate,
    line: int,
    passes: Callable[[str, str], bool],
    symbols: PackedSymbols,
) -> Symbol | None:
    """Return a definition of a chunk that passes the filter.

    The innermost passing definition around the line has priority. The next is the definition that
    names the chunk: if it passes, the result is None. The last is the first passing definition that
    begins in the chunk; None without one.
    """
    passing = [
        symbol
        for symbol in _symbols_in(candidate, symbols)
        if passes(symbol.kind, symbol.qualified_name)
    ]
    around = [symbol for symbol in passing if symbol.start_line <= line <= symbol.end_line]
    if around:
        return around[-1]
    if passes(candidate.symbol_type or "", candidate.symbol_name or ""):
        return None
    return passing[0] if passing else None


def _symbols_in(candidate: Candidate, symbols: PackedSymbols) -> list[Symbol]:
    """Return the definitions that begin in a chunk, in order."""
    lines = range(candidate.start_line, candidate.end_line + 1)
    return [
        symbol
        for symbol in symbols.beginning_in(lines)
        if candidate.start_byte <= symbol.start_byte < candidate.end_byte
    ]


def _packs_definitions(candidate: Candidate) -> bool:
    """Return True if a chunk has other definitions than the one that names it."""
    own_name = (candidate.symbol_name or "").rpartition(".")[2]
    return any(name != own_name for name in candidate.definitions)


def _names_place(around: Sequence[Symbol], chunk_symbol: str | None, words: frozenset[str]) -> bool:
    """Return True if the innermost definition is a better name for a place than that of its chunk.

    A one-line definition within the chunk's definition (a field of a class, for example) is a
    better name only if the question has a word of its name.
    """
    innermost = around[0]
    if innermost.start_line < innermost.end_line:
        return True
    if all(symbol.qualified_name != chunk_symbol for symbol in around[1:]):
        return True
    return _has_word(innermost.name, words)


def _has_word(text: str, words: frozenset[str]) -> bool:
    """Return True if a text contains one of the words, also within a longer word, like `best_line`."""
    lowered = text.lower()
    return any(word in lowered for word in words)


def query_words(plan: Plan) -> frozenset[str]:
    """Return the content words of a query and its phrases, in lower case."""
    return content_words(" ".join((plan.text, *plan.where.phrases)))


@lru_cache(maxsize=REMEMBERED_QUESTIONS)
def word_roots(words: frozenset[str]) -> frozenset[str]:
    """Return the root of each word, which all its forms contain: `redirect` for "redirects".

    The root is the stem without a final "i": for example, the stem of "queries" is "queri". A root
    of less than three letters would match anywhere, so then the word itself is used.
    """
    stem = Stemmer().stem
    roots = {word: stem(word).removesuffix("i") for word in words}
    return frozenset(root if len(root) > 2 else word for word, root in roots.items())


@lru_cache(maxsize=REMEMBERED_QUESTIONS)
def content_words(text: str) -> frozenset[str]:
    """Return the words of a text without stop words; a text of stop words alone keeps them."""
    words = frozenset(identifiers.split_text(text).split())
    return words - STOP_WORDS or words


def best_line(content: str, words: frozenset[str]) -> int | None:
    """Return the number (from 0) of the first line with the most words; None without any word."""
    lowered = _searched_text(content)
    # Parts of longer words also count: splitting every line of every place would cost a
    # millisecond.
    present_words = [word for word in words if word in lowered]
    if not present_words:
        return None
    lines = lowered.split("\n")
    counts = [0] * len(lines)
    for word in present_words:
        for number, line in enumerate(lines):
            if word in line:
                counts[number] += 1
    return counts.index(max(counts))


def _searched_text(content: str) -> str:
    """Return the first lines of a text in lower case, each without what is too long to search."""
    lines = content.split("\n", MAX_LINES)[:MAX_LINES]
    if max(map(len, lines)) > MAX_LINE_CHARACTERS:
        lines = [line[:MAX_LINE_CHARACTERS] for line in lines]
    return "\n".join(lines).lower()
