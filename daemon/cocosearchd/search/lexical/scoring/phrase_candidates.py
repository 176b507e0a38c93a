"""Selects the chunks that can contain quoted phrases, by the words of the phrases. Pure.

The lexical index does not store the order of words, so the texts of these chunks must be read.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cocosearchd.forms.unicode_forms import spellings
from cocosearchd.languages.identifiers import split_parts
from cocosearchd.search.lexical.analysis.terms import WORD, TermCache, term_hash
from cocosearchd.search.lexical.array_types import Mask
from cocosearchd.search.lexical.segments.live_documents import LiveDocuments
from cocosearchd.search.lexical.segments.segment import SegmentView

Forms = tuple[int, ...]  # hashes of terms: a word is indexed under one of them
Key = tuple[str, int, int]  # path, first byte, end

# Words between the same separators as in `term_table`: ASCII characters that are part of no word.
_WORD = re.compile(r"[^\x00-/:-@\[-^`{-\x7f]+")


@dataclass(frozen=True, slots=True)
class PhraseWords:
    """The words of phrases.

    `inner` words begin and end within a phrase. `outer` words are at its edges; in the text, they
    may be parts of longer words.
    """

    inner: tuple[Forms, ...]
    outer: tuple[Forms, ...]


@dataclass(frozen=True, slots=True)
class PhraseCandidates:
    """Masks of live chunks in allowed files that can contain the phrases, by view, (C,).

    Only chunks marked in `chunks` can contain all phrases. `whole_word_chunks` marks those in which
    the words at the edges are also complete words.
    """

    chunks: tuple[Mask, ...]
    whole_word_chunks: tuple[Mask, ...]


def extract_phrase_words(phrases: Iterable[str], terms: TermCache) -> PhraseWords:
    """Extract the words to look up, in any letter case. Words with non-ASCII letters are left out."""
    inner = dict[Forms, None]()
    outer = dict[Forms, None]()
    for phrase in phrases:
        common = _common_words([_split_spelling(spelling, terms) for spelling in spellings(phrase)])
        inner |= dict.fromkeys(forms for forms, within in common.items() if within)
        outer |= dict.fromkeys(forms for forms in common if forms not in inner)
    return PhraseWords(tuple(inner), tuple(outer))


def _common_words(words_by_spelling: Sequence[dict[Forms, bool]]) -> dict[Forms, bool]:
    """Return the words that all spellings have; True if a word is within each of them."""
    return {
        forms: all(words[forms] for words in words_by_spelling)
        for forms in words_by_spelling[0]
        if all(forms in words for words in words_by_spelling)
    }


def _split_spelling(phrase: str, terms: TermCache) -> dict[Forms, bool]:
    """Split one spelling into words; True if a word begins and ends within the spelling."""
    words = dict[Forms, bool]()
    for match in _WORD.finditer(phrase):
        within = match.start() > 0 and match.end() < len(phrase)
        for word in WORD.findall(match[0]) if match[0].isascii() else ():
            if forms := _word_forms(word.lower(), terms):
                words[forms] = within or words.get(forms, False)
    return words


def find_phrase_candidates(
    views: Sequence[SegmentView],
    live: LiveDocuments,
    words: PhraseWords,
    allowed: Mask | None,
    chunks: Sequence[Mask] | None = None,
) -> PhraseCandidates:
    """Find the chunks that can contain phrases of these words.

    `allowed`, (F,), marks the live files that may be shown. `chunks`, by view, (C,), marks the
    chunks that may be shown. None stands for all.
    """
    files_by_segment = None if allowed is None else live.by_segment(np.flatnonzero(allowed))
    candidates = list[Mask]()
    whole_word_candidates = list[Mask]()
    for number, view in enumerate(views):
        files = view.live_files if files_by_segment is None else files_by_segment[number]
        selected = _chunks_of_files(view, files)
        if chunks is not None:
            selected &= chunks[number]
        candidates.append(_keep_chunks_with_words(view, words.inner, selected))
        whole_word_candidates.append(
            _keep_chunks_with_words(view, words.outer, candidates[-1].copy())
        )
    return PhraseCandidates(tuple(candidates), tuple(whole_word_candidates))


def count_chunks(chunks: Sequence[Mask]) -> int:
    """Count the marked chunks."""
    return sum(int(np.count_nonzero(mask)) for mask in chunks)


def list_chunk_keys(
    views: Sequence[SegmentView], live: LiveDocuments, chunks: Sequence[Mask]
) -> list[Key]:
    """Return the keys of marked live chunks."""
    keys = list[Key]()
    for view, segment_files, start, mask in zip(
        views, live.segment_files, live.starts, chunks, strict=True
    ):
        rows = np.flatnonzero(mask)
        owners = np.searchsorted(segment_files, view.segment.chunk_files[rows]) + start
        for owner, (first, end) in zip(
            owners.tolist(), view.segment.keys[rows].tolist(), strict=True
        ):
            keys.append((live.paths[owner], first, end))
    return keys


def _word_forms(word: str, terms: TermCache) -> Forms:
    """Return the hashes of the terms under which a lower-case word may be indexed.

    A plain word is indexed by its stem. An identifier of several parts is indexed unstemmed.
    """
    name = word.strip("_")
    parts = split_parts(word)
    if len(parts) == 1:
        return tuple(dict.fromkeys((term_hash(name), term_hash(terms.stem(parts[0])))))
    return (term_hash(name),) if parts else ()


def _chunks_of_files(view: SegmentView, files: slice | NDArray[Any]) -> Mask:
    """Mark the chunks of files, (C,)."""
    selected = np.zeros(view.segment.file_count, np.bool_)
    selected[files] = True
    return selected.take(view.segment.chunk_files)


def _keep_chunks_with_words(view: SegmentView, words: Sequence[Forms], chunks: Mask) -> Mask:
    """Clear the chunks that lack one of the words. Changes `chunks` in place and returns it."""
    for forms in words:
        marked = np.zeros(len(chunks), np.bool_)
        for rows in view.segment.chunk_rows(np.array(sorted(forms), np.uint64)):
            marked[view.segment.posting_chunks[rows]] = True
        chunks &= marked
    return chunks
