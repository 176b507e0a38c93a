"""What the lexical index knows of quoted phrases: the chunks that can hold them, by the words that
must be there. Pure.

It knows words, not their order, so each of these chunks is still to be read.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import spellings
from cocosearchd.search.lexical.analysis.terms import WORD, TermCache, split_identifier, term_hash
from cocosearchd.search.lexical.segments.live_documents import LiveDocuments
from cocosearchd.search.lexical.segments.segment import SegmentView

Mask = NDArray[np.bool_]
Forms = tuple[int, ...]  # hashes of terms: a word is there under one of them
Key = tuple[str, int, int]  # path, first byte, end

# As `lexical_table` separates words: ASCII characters that are part of none.
_WORD = re.compile(r"[^\x00-/:-@\[-^`{-\x7f]+")


@dataclass(frozen=True, slots=True)
class PhraseWords:
    """The words of phrases. `inner` begin and end inside of one; `outer` are at its edges and may
    go on in the text.
    """

    inner: tuple[Forms, ...]
    outer: tuple[Forms, ...]


@dataclass(frozen=True, slots=True)
class PhraseCandidates:
    """What of an index can hold some phrases: living chunks in files that may be shown, by part
    (C,).

    No other chunk than `sure` holds them all. `whole` are those of them in which the words at the
    edges are words, too.
    """

    chunks: tuple[Mask, ...]
    whole_word_chunks: tuple[Mask, ...]


def extract_phrase_words(phrases: Iterable[str], terms: TermCache) -> PhraseWords:
    """What is to be looked for, in any case. Words of other letters than ASCII are left out."""
    inner, outer = dict[Forms, None](), dict[Forms, None]()
    for phrase in phrases:
        found = [_split_spelling(spelling, terms) for spelling in spellings(phrase)]
        common = [forms for forms in found[0] if all(forms in others for others in found)]
        inner |= dict.fromkeys(forms for forms in common if all(others[forms] for others in found))
        outer |= dict.fromkeys(forms for forms in common if forms not in inner)
    return PhraseWords(tuple(inner), tuple(outer))


def _split_spelling(phrase: str, terms: TermCache) -> dict[Forms, bool]:
    """The words of one spelling, and whether each begins and ends inside of it somewhere."""
    words = dict[Forms, bool]()
    for found in _WORD.finditer(phrase):
        within = found.start() > 0 and found.end() < len(phrase)
        for word in WORD.findall(found[0]) if found[0].isascii() else ():
            if forms := _word_forms(word.lower(), terms):
                words[forms] = within or words.get(forms, False)
    return words


def find_phrase_candidates(
    state: Sequence[SegmentView],
    living: LiveDocuments,
    words: PhraseWords,
    allowed: Mask | None,
    chunks: Sequence[Mask] | None = None,
) -> PhraseCandidates:
    """The chunks that can hold phrases of these words.

    `allowed` (F,): which living files may be shown; `chunks`, by part (C,): which chunks may be;
    None: all.
    """
    by_part = None if allowed is None else living.by_segment(np.flatnonzero(allowed))
    sure, whole = list[Mask](), list[Mask]()
    for number, part in enumerate(state):
        some = _live_chunks(part) if by_part is None else _chunks_of_files(part, by_part[number])
        if chunks is not None:
            some &= chunks[number]
        sure.append(_keep_chunks_with_words(part, words.inner, some))
        whole.append(_keep_chunks_with_words(part, words.outer, sure[-1].copy()))
    return PhraseCandidates(tuple(sure), tuple(whole))


def count_chunks(chunks: Sequence[Mask]) -> int:
    """How many there are."""
    return sum(int(np.count_nonzero(mask)) for mask in chunks)


def list_chunk_keys(
    state: Sequence[SegmentView], living: LiveDocuments, chunks: Sequence[Mask]
) -> list[Key]:
    """The keys of living chunks."""
    found = list[Key]()
    for part, local, start, mask in zip(
        state, living.segment_files, living.starts, chunks, strict=True
    ):
        rows = np.flatnonzero(mask)
        owners = np.searchsorted(local, part.segment.chunk_files[rows]) + start
        for owner, (first, end) in zip(
            owners.tolist(), part.segment.keys[rows].tolist(), strict=True
        ):
            found.append((living.paths[owner], first, end))
    return found


def _word_forms(word: str, terms: TermCache) -> Forms:
    """Under what a lower-case word is kept, however it is written: as one word it is stemmed, as
    several it is not.
    """
    found = split_identifier(word)
    if len(found) == 1:
        return tuple(dict.fromkeys((term_hash(word), term_hash(terms.stem(found[0])))))
    return (term_hash(word),) if found else ()


def _live_chunks(part: SegmentView) -> Mask:
    """(C,): the living chunks."""
    return (
        np.ones(part.segment.chunk_count, np.bool_)
        if part.alive_chunks is None
        else part.alive_chunks.copy()
    )


def _chunks_of_files(part: SegmentView, files: NDArray[np.int64]) -> Mask:
    """(C,): the chunks of some files."""
    chosen = np.zeros(part.segment.file_count, np.bool_)
    chosen[files] = True
    return chosen.take(part.segment.chunk_files)


def _keep_chunks_with_words(part: SegmentView, words: Sequence[Forms], chunks: Mask) -> Mask:
    """Which of some chunks have all words."""
    for forms in words:
        having = np.zeros(len(chunks), np.bool_)
        for rows in part.segment.chunk_rows(np.array(sorted(forms), np.uint64)):
            having[part.segment.posting_chunks[rows]] = True
        chunks &= having
    return chunks
