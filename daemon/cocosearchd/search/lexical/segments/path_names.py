"""What paths say: the names of a segment's files, joined, and where in them any three characters
stand.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.lexical.features import (
    HUBS,
    directory_depths,
    file_stem,
    is_prose,
    is_test,
    joined_stem,
    name_forms,
    name_match,
)
from cocosearchd.search.lexical.segments.segment import Segment

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
_MIN_STEM_LENGTH = 3  # characters: shorter stems prove nothing as the beginning of a word


@dataclass(frozen=True, slots=True)
class PathNames:
    """The names of F files with S unique stems. Derived from a segment's paths; never stored."""

    paths: tuple[str, ...]  # (F,)
    numbers: dict[str, int]  # path -> file
    languages: tuple[str, ...]  # (F,)
    language_counts: Counter[str]  # in how many files each language is
    stems: tuple[str, ...]  # (S,)
    stem_numbers: dict[str, int]
    stem_of_file: NDArray[np.int64]  # (F,)
    files_by_stem: NDArray[np.int64]  # (F,), in the order of stems
    stem_ends: NDArray[np.int64]  # (S,): where in these the files of each stem end
    joined: str  # each stem on a line of its own, lines begin with "\n"
    stem_lengths: Floats  # (S,) characters, at least 1
    longest: int  # characters of a stem: no more of a long word of a question need be looked up
    line_starts: NDArray[np.int64]  # (S,): where each stem begins in `joined`
    grams: NDArray[np.uint64]  # each three characters in a row of `joined` as a number, sorted
    gram_offsets: NDArray[np.int32]  # where they stand, in the order of `grams`
    depth: Floats  # (F,)
    test: Floats  # (F,) 0 or 1
    prose: Floats  # (F,) 0 or 1
    hub: Floats  # (F,) 0 or 1
    path_hashes: NDArray[np.float64]  # (F,) 0 to 1: a lot for each path, the same in every index


def read_path_names(segment: Segment) -> PathNames:
    """Read the paths of a segment."""
    paths, languages = segment.path_list(), segment.language_list()
    bare = list(map(file_stem, paths))
    of_file = list(map(joined_stem, bare))
    stems = tuple(dict.fromkeys(of_file))
    stem_numbers = dict(zip(stems, range(len(stems)), strict=True))
    lengths = np.array([len(stem) + 1 for stem in stems], np.int64)
    numbers = np.fromiter(map(stem_numbers.__getitem__, of_file), np.int64, len(of_file))
    joined = "".join(f"\n{stem}" for stem in stems) + "\n"
    grams = _grams(joined)
    order = np.argsort(grams, kind="stable")
    return PathNames(
        paths=tuple(paths),
        numbers=dict(zip(paths, range(len(paths)), strict=True)),
        languages=tuple(languages),
        language_counts=Counter(languages),
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
        depth=directory_depths(paths),
        test=np.fromiter(map(is_test, paths), np.float32, len(paths)),
        prose=np.fromiter(map(is_prose, languages), np.float32, len(paths)),
        hub=np.fromiter(map(HUBS.__contains__, bare), np.float32, len(paths)),
        path_hashes=np.array(
            [zlib.crc32(path.encode("utf-8", "surrogatepass")) for path in paths], np.float64
        )
        / 2**32,
    )


@dataclass(frozen=True, slots=True)
class WordForm:
    """How a word may stand in a file's name. One that begins with another form can only be where
    that is.
    """

    text: str
    within: str | None
    grams: slice  # of those of the whole question


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a question, its forms, the shortest first, and what of what it explains counts."""

    text: str
    forms: tuple[WordForm, ...]
    share: float


@dataclass(frozen=True, slots=True)
class NameQuery:
    """What a question asks of names: made once, asked of every segment."""

    words: tuple[QueryWord, ...]
    grams: NDArray[np.uint64]


def make_name_query(
    words: Sequence[str], stems: Sequence[str], shares: Sequence[float]
) -> NameQuery:
    """`stems` are those of `words`; of what a word explains, the share in `shares` counts."""
    found, grams, size = list[QueryWord](), [np.zeros(0, np.uint64)], 0
    for word, stem, share in zip(words, stems, shares, strict=True):
        texts = name_forms(word, stem)[::-1]
        shapes = list[WordForm]()
        for number, text in enumerate(texts):
            within = next((other for other in texts[:number] if text.startswith(other)), None)
            if within is None:
                grams.append(_grams(text))
            last = size + (len(grams[-1]) if within is None else 0)
            shapes.append(WordForm(text, within, slice(size, last)))
            size = last
        found.append(QueryWord(word, tuple(shapes), share))
    return NameQuery(tuple(found), np.concatenate(grams))


def stem_coverage(names: PathNames, asked: NameQuery) -> Floats:
    """Per file: the share of its name that words of the query explain, 0 to 1.

    "route group" explains all of `routegroup`.
    """
    explained = np.zeros(len(names.stems), np.float32)
    extra: dict[int, float] = {}
    starts, ends = (
        np.searchsorted(names.grams, asked.grams),
        np.searchsorted(names.grams, asked.grams, side="right"),
    )
    for word in asked.words:
        credit = _longest_forms(names, word, starts, ends)
        if credit:
            numbers = np.fromiter(credit, np.int64, len(credit))
            explained[numbers] += np.float32(word.share) * np.fromiter(
                credit.values(), np.float32, len(credit)
            )
        for file, found in _find_prefix_stems(names, word, credit):
            extra[file] = extra.get(file, 0.0) + word.share * found
    share = (explained / names.stem_lengths)[names.stem_of_file]
    for file, length in extra.items():
        share[file] += length / names.stem_lengths[names.stem_of_file[file]]
    covered: Floats = np.minimum(share, np.float32(1)).astype(np.float32)
    return covered


def best_name_match(names: PathNames, identifiers: Sequence[str]) -> Floats:
    """Per file: the best `features.name_match` of its stem with an identifier."""
    values = np.zeros(len(names.stems), np.float32)
    for identifier in identifiers:
        for number in _find_candidate_stems(names, identifier.lower().replace("_", "")):
            values[number] = max(values[number], name_match(names.stems[number], identifier))
    return values[names.stem_of_file]


def _longest_forms(names: PathNames, word: QueryWord, starts: Ints, ends: Ints) -> dict[int, int]:
    """Of the stems that contain a form: the length of the longest."""
    found: dict[int, int] = {}
    scanned: dict[str, list[int]] = {}
    for form in word.forms:  # shortest first, so that the longest stays
        if form.within is None:
            places = scanned[form.text] = _find_by_grams(
                names, form.text, starts[form.grams], ends[form.grams]
            )
        else:
            places = [
                place for place in scanned[form.within] if names.joined.startswith(form.text, place)
            ]
        if places:
            numbers = np.searchsorted(names.line_starts, places, side="right") - 1
            found.update(dict.fromkeys(numbers.tolist(), len(form.text)))
    return found


def _find_prefix_stems(
    names: PathNames, word: QueryWord, credit: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Files whose stem is the beginning of the word, where no longer form is in the whole path."""
    evidence = [form.text for form in word.forms if len(form.text) >= _MIN_STEM_LENGTH]
    for length in range(_MIN_STEM_LENGTH, min(len(word.text), names.longest) + 1):
        number = names.stem_numbers.get(word.text[:length])
        if number is None or number in credit:
            continue
        start = int(names.stem_ends[number - 1]) if number else 0
        for file in names.files_by_stem[start : names.stem_ends[number]].tolist():
            path = names.paths[file].lower()
            if not any(form in path for form in evidence):
                yield file, length


def _find_candidate_stems(names: PathNames, name: str) -> set[int]:
    """Stems that may match a name: those it begins with, and those that begin with it."""
    if not name:
        return set()
    beginnings = (name[:length] for length in range(1, min(len(name), names.longest) + 1))
    found = {names.stem_numbers[each] for each in beginnings if each in names.stem_numbers}
    places = find_in_names(names, "\n" + name)
    found.update(
        int(n)
        for n in np.searchsorted(names.line_starts, np.array(places) + 1, side="right") - 1
        if places
    )
    return found


def find_in_names(names: PathNames, part: str) -> list[int]:
    """Where a text stands in `joined`, ascending."""
    wanted = _grams(part)
    return _find_by_grams(
        names,
        part,
        np.searchsorted(names.grams, wanted),
        np.searchsorted(names.grams, wanted, side="right"),
    )


def _find_by_grams(names: PathNames, part: str, starts: Ints, ends: Ints) -> list[int]:
    """Where the rarest three characters of a text stand, and the rest around them; `starts`,
    `ends`: of all of them.
    """
    if not len(starts):
        return list(_scan(names.joined, part))
    rarest = int((ends - starts).argmin())
    around = names.gram_offsets[starts[rarest] : ends[rarest]] - rarest
    return [
        place for place in around.tolist() if place >= 0 and names.joined.startswith(part, place)
    ]


def _scan(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _grams(text: str) -> NDArray[np.uint64]:
    """Each three characters in a row as a number, 21 bits each, which hold any; of less than three
    there is none.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    found: NDArray[np.uint64] = (
        codes[:-2] | codes[1:-1] << np.uint64(21) | codes[2:] << np.uint64(42)
    )
    return found
