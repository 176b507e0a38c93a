"""File names of a segment, to be searched: derived at load, never stored.

They are joined to one text with an index of its trigrams.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cocosearchd.languages.patterns.path_roles import is_beside_the_code, is_test
from cocosearchd.search.lexical.array_types import Floats, Ints
from cocosearchd.search.lexical.ranking_signals import (
    REEXPORTERS,
    directory_depths,
    file_stem,
    is_prose,
    joined_stem,
    name_forms,
    name_match,
)
from cocosearchd.search.lexical.segments.segment import Segment

CACHED_WORDS = 1024  # words of questions with cached trigrams
_MIN_STEM_LENGTH = 3  # characters: a shorter stem is no evidence as the prefix of a word


@dataclass(frozen=True, slots=True)
class FileStems:
    """The names of F files without suffix, with S unique stems, and a trigram index of the stems."""

    paths: Sequence[str]  # (F,)
    stems: tuple[str, ...]  # (S,)
    stem_numbers: dict[str, int]
    stem_of_file: NDArray[np.int64]  # (F,)
    files_by_stem: NDArray[np.int64]  # (F,), sorted by stem
    stem_ends: NDArray[np.int64]  # (S,): the end of each stem's files in `files_by_stem`
    joined: str  # one stem a line; lines begin with "\n"
    stem_lengths: Floats  # (S,) characters, at least 1
    longest: int  # characters of the longest stem: longer prefixes of a word need no lookup
    line_starts: NDArray[np.int64]  # (S,): offset of each stem in `joined`
    grams: NDArray[np.uint64]  # trigrams of `joined` as numbers, sorted
    gram_offsets: NDArray[np.int32]  # their offsets, in the order of `grams`

    def files_of(self, stem: int) -> Ints:
        """Return the files with the stem of a number, ascending."""
        start = int(self.stem_ends[stem - 1]) if stem else 0
        return self.files_by_stem[start : self.stem_ends[stem]]


def make_file_stems(paths: Sequence[str]) -> FileStems:
    """Index the names of files."""
    names = [joined_stem(file_stem(path)) for path in paths]
    stems = tuple(dict.fromkeys(names))
    stem_numbers = dict(zip(stems, range(len(stems)), strict=True))
    lengths = np.array([len(stem) + 1 for stem in stems], np.int64)
    numbers = np.fromiter(map(stem_numbers.__getitem__, names), np.int64, len(names))
    joined = "".join(f"\n{stem}" for stem in stems) + "\n"
    grams = _grams(joined)
    order = np.argsort(grams, kind="stable")
    return FileStems(
        paths=paths,
        stems=stems,
        stem_numbers=stem_numbers,
        stem_of_file=numbers,
        files_by_stem=np.argsort(numbers, kind="stable"),
        stem_ends=np.cumsum(np.bincount(numbers, minlength=len(stems))),
        joined=joined,
        stem_lengths=np.maximum(lengths - 1, 1).astype(np.float32),
        longest=int(lengths.max(initial=1)) - 1,
        line_starts=np.cumsum(lengths) - lengths + 1,
        grams=grams[order],
        gram_offsets=order.astype(np.int32),
    )


@dataclass(frozen=True, slots=True)
class PathNames:
    """The names of F files. They are derived from the paths of a segment and never stored."""

    paths: tuple[str, ...]  # (F,)
    numbers: dict[str, int]  # path -> file
    languages: tuple[str, ...]  # (F,)
    language_counts: Counter[str]  # number of files of each language
    file_stems: FileStems
    depth: Floats  # (F,)
    test: Floats  # (F,) 0 or 1
    aside: Floats  # (F,) 0 or 1
    prose: Floats  # (F,) 0 or 1
    reexporter: Floats  # (F,) 0 or 1
    # (F,) 0 to 1: a hash of each path; it does not depend on the index
    path_hashes: NDArray[np.float64]


def read_path_names(segment: Segment) -> PathNames:
    """Read the names of the files of a segment."""
    paths = tuple(segment.path_list())
    languages = segment.language_list()
    return PathNames(
        paths=paths,
        numbers=dict(zip(paths, range(len(paths)), strict=True)),
        languages=tuple(languages),
        language_counts=Counter(languages),
        file_stems=make_file_stems(paths),
        depth=directory_depths(paths),
        test=np.fromiter(map(is_test, paths), np.float32, len(paths)),
        aside=np.fromiter(map(is_beside_the_code, paths), np.float32, len(paths)),
        prose=np.fromiter(map(is_prose, languages), np.float32, len(paths)),
        reexporter=np.fromiter(
            map(REEXPORTERS.__contains__, map(file_stem, paths)), np.float32, len(paths)
        ),
        path_hashes=np.array(
            [zlib.crc32(path.encode("utf-8", "surrogatepass")) for path in paths], np.float64
        )
        / 2**32,
    )


@dataclass(frozen=True, slots=True)
class WordForm:
    """A form of a word in a file name.

    `within` is a shorter form that this form begins with: this form can only match where the
    shorter form does.
    """

    text: str
    within: str | None
    grams: slice  # its trigrams among those of the question


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a question, its forms (shortest first), and its weight for explaining a name."""

    text: str
    forms: tuple[WordForm, ...]
    share: float


@dataclass(frozen=True, slots=True)
class NameQuery:
    """The words of a question to look up in file names, prepared once for all segments."""

    words: tuple[QueryWord, ...]
    grams: NDArray[np.uint64]


def make_name_query(
    words: Sequence[str], stems: Sequence[str], shares: Sequence[float]
) -> NameQuery:
    """Prepare the lookup of `words`. `stems` and `shares` (weights) are parallel to `words`."""
    query_words = list[QueryWord]()
    grams = [np.zeros(0, np.uint64)]
    size = 0
    for word, stem, share in zip(words, stems, shares, strict=True):
        texts = name_forms(word, stem)[::-1]
        word_forms = list[WordForm]()
        for number, text in enumerate(texts):
            within = next((shorter for shorter in texts[:number] if text.startswith(shorter)), None)
            if within is None:
                grams.append(_grams(text))
            last = size + (len(grams[-1]) if within is None else 0)
            word_forms.append(WordForm(text, within, slice(size, last)))
            size = last
        query_words.append(QueryWord(word, tuple(word_forms), share))
    return NameQuery(tuple(query_words), np.concatenate(grams))


def stem_coverage(names: FileStems, query: NameQuery) -> Floats:
    """Compute the share of each file name that words of the query explain, 0 to 1, (F,).

    For example, "route group" explains all of `routegroup`.
    """
    explained = np.zeros(len(names.stems), np.float32)
    extra: dict[int, float] = {}
    starts = names.grams.searchsorted(query.grams)
    ends = names.grams.searchsorted(query.grams, side="right")
    present = (ends > starts).tolist()
    for word in query.words:
        credit = (
            _longest_forms(names, word, starts, ends)
            if any(all(present[form.grams]) for form in word.forms if form.within is None)
            else {}
        )
        if credit:
            numbers = np.fromiter(credit, np.int64, len(credit))
            explained[numbers] += np.float32(word.share) * np.fromiter(
                credit.values(), np.float32, len(credit)
            )
        for file, matched in _find_prefix_stems(names, word, credit):
            extra[file] = extra.get(file, 0.0) + word.share * matched
    share = (explained / names.stem_lengths).take(names.stem_of_file)
    for file, length in extra.items():
        share[file] += length / names.stem_lengths[names.stem_of_file[file]]
    covered: Floats = np.minimum(share, np.float32(1))
    return covered


def best_name_match(names: FileStems, identifiers: Sequence[str]) -> Floats:
    """Return the best `name_match` of each file's stem with an identifier, (F,).

    See `ranking_signals.name_match`.
    """
    values = np.zeros(len(names.stems), np.float32)
    for identifier in identifiers:
        for number in _find_candidate_stems(names, identifier.lower().replace("_", "")):
            values[number] = max(values[number], name_match(names.stems[number], identifier))
    return values[names.stem_of_file]


def _longest_forms(names: FileStems, word: QueryWord, starts: Ints, ends: Ints) -> dict[int, int]:
    """Map each stem that contains a form to the length of the longest such form."""
    offsets = list[int]()
    lengths = list[int]()
    scanned: dict[str, list[int]] = {}
    for form in word.forms:
        if form.within is None:
            matches = scanned[form.text] = _find_by_grams(
                names, form.text, starts[form.grams], ends[form.grams]
            )
        else:
            matches = [
                offset
                for offset in scanned[form.within]
                if names.joined.startswith(form.text, offset)
            ]
        offsets += matches
        lengths += [len(form.text)] * len(matches)
    if not offsets:
        return {}
    numbers = names.line_starts.searchsorted(offsets, side="right") - 1
    # forms come shortest first, so that the longest wins
    return dict(zip(numbers.tolist(), lengths, strict=True))


def _find_prefix_stems(
    names: FileStems, word: QueryWord, credit: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Find the files with a stem that is a prefix of the word; yield the file and the length.

    Files with a longer form of the word in the full path are left out.
    """
    evidence = [form.text for form in word.forms if len(form.text) >= _MIN_STEM_LENGTH]
    for length in range(_MIN_STEM_LENGTH, min(len(word.text), names.longest) + 1):
        number = names.stem_numbers.get(word.text[:length])
        if number is None or number in credit:
            continue
        for file in names.files_of(number).tolist():
            path = names.paths[file].lower()
            if not any(form in path for form in evidence):
                yield file, length


def _find_candidate_stems(names: FileStems, name: str) -> set[int]:
    """Find the stems that may match a name.

    These are prefixes of the name, and stems that begin with the name.
    """
    if not name:
        return set()
    beginnings = (name[:length] for length in range(1, min(len(name), names.longest) + 1))
    candidates = {
        names.stem_numbers[prefix] for prefix in beginnings if prefix in names.stem_numbers
    }
    offsets = find_in_names(names, "\n" + name)
    candidates.update(
        int(n)
        for n in np.searchsorted(names.line_starts, np.array(offsets) + 1, side="right") - 1
        if offsets
    )
    return candidates


def find_in_names(names: FileStems, text: str) -> list[int]:
    """Find the offsets of a text in `joined`, ascending."""
    grams = _grams_of_word(text)
    return _find_by_grams(
        names,
        text,
        names.grams.searchsorted(grams),
        names.grams.searchsorted(grams, side="right"),
    )


def _find_by_grams(names: FileStems, text: str, starts: Ints, ends: Ints) -> list[int]:
    """Find a text by its rarest trigram; `starts` and `ends` bound the entries of its trigrams."""
    if not len(starts):
        return list(_scan(names.joined, text))
    rarest = int((ends - starts).argmin())
    offsets = names.gram_offsets[starts[rarest] : ends[rarest]] - rarest
    return [
        offset
        for offset in offsets.tolist()
        if offset >= 0 and names.joined.startswith(text, offset)
    ]


def _scan(names: str, text: str) -> Iterator[int]:
    offset = names.find(text)
    while offset >= 0:
        yield offset
        offset = names.find(text, offset + 1)


@lru_cache(maxsize=CACHED_WORDS)
def _grams_of_word(text: str) -> NDArray[np.uint64]:
    """Return `_grams` of a text.

    The result is cached, since a word of a question is looked up in many segments.
    """
    return _grams(text)


def _grams(text: str) -> NDArray[np.uint64]:
    """Encode each trigram as a number with 21 bits per character, which fits any character.

    A text of less than three characters has no trigrams.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    grams: NDArray[np.uint64] = (
        codes[:-2] | codes[1:-1] << np.uint64(21) | codes[2:] << np.uint64(42)
    )
    return grams
