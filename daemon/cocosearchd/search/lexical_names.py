"""What paths say: the names of a segment's files, joined, and where in them any three characters stand."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cocosearchd.search.features import depths, forms, is_hub, is_prose, is_test, name_match, plain_stem
from cocosearchd.search.lexical_segment import Segment

Floats = NDArray[np.float32]
_STEM_EVIDENCE = 3  # characters: shorter stems prove nothing as the beginning of a word
_NAME_EVIDENCE = 4
_GRAM = 3


@dataclass(frozen=True, slots=True)
class PathNames:
    """The names of F files with S unique stems. Derived from a segment's paths; never stored."""

    paths: tuple[str, ...]  # (F,)
    numbers: dict[str, int]  # path -> file
    languages: tuple[str, ...]  # (F,)
    lowered: tuple[str, ...]  # (F,)
    stems: tuple[str, ...]  # (S,)
    stem_numbers: dict[str, int]
    stem_files: tuple[tuple[int, ...], ...]  # (S,)
    stem_of_file: NDArray[np.int64]  # (F,)
    joined: str  # each stem on a line of its own, lines begin with "\n"
    stem_lengths: Floats  # (S,) characters, at least 1
    line_starts: NDArray[np.int64]  # (S,): where each stem begins in `joined`
    grams: NDArray[np.uint64]  # each three characters in a row of `joined` as a number, sorted
    gram_places: NDArray[np.int32]  # where they stand, in the order of `grams`
    depth: Floats  # (F,)
    test: Floats  # (F,) 0 or 1
    prose: Floats  # (F,) 0 or 1
    hub: Floats  # (F,) 0 or 1
    draw: NDArray[np.float64]  # (F,) 0 to 1: a lot for each path, the same in every index


def path_names(segment: Segment) -> PathNames:
    """Read the paths of a segment."""
    paths, languages = segment.path_list(), segment.language_list()
    of_file = [plain_stem(path) for path in paths]
    stem_numbers: dict[str, int] = {}
    files: list[list[int]] = []
    for file, stem in enumerate(of_file):
        number = stem_numbers.setdefault(stem, len(files))
        if number == len(files):
            files.append([])
        files[number].append(file)
    stems = tuple(stem_numbers)
    lengths = np.array([len(stem) + 1 for stem in stems], np.int64)
    joined = "".join(f"\n{stem}" for stem in stems) + "\n"
    grams = _grams(joined)
    order = np.argsort(grams, kind="stable")
    return PathNames(
        paths=tuple(paths),
        numbers={path: number for number, path in enumerate(paths)},
        languages=tuple(languages),
        lowered=tuple(path.lower() for path in paths),
        stems=stems,
        stem_numbers=stem_numbers,
        stem_files=tuple(map(tuple, files)),
        stem_of_file=np.array([stem_numbers[stem] for stem in of_file], np.int64),
        joined=joined,
        stem_lengths=np.maximum(lengths - 1, 1).astype(np.float32),
        line_starts=np.cumsum(lengths) - lengths + 1,
        grams=grams[order],
        gram_places=order.astype(np.int32),
        depth=depths(paths),
        test=np.array([is_test(path) for path in paths], np.float32),
        prose=np.array([is_prose(language) for language in languages], np.float32),
        hub=np.array([is_hub(path) for path in paths], np.float32),
        draw=np.array([zlib.crc32(path.encode("utf-8", "surrogatepass")) for path in paths], np.float64) / 2**32,
    )


def stem_coverage(names: PathNames, words: Sequence[str], stems: Sequence[str], shares: Sequence[float]) -> Floats:
    """Per file: the share of its name that words of the query explain, 0 to 1.

    `stems` are those of `words`; of what a word explains, the share in `shares` counts.

    "route group" explains all of `routegroup`.
    """
    explained = np.zeros(len(names.stems), np.float32)
    extra: dict[int, float] = {}
    for word, stem, weight in zip(words, stems, shares, strict=True):
        shapes = forms(word, stem)
        credit = _credits(names, shapes)
        for number, found in credit.items():
            explained[number] += weight * found
        for file, found in _beginnings(names, word, shapes, credit):
            extra[file] = extra.get(file, 0.0) + weight * found
    share = (explained / names.stem_lengths)[names.stem_of_file]
    for file, length in extra.items():
        share[file] += length / names.stem_lengths[names.stem_of_file[file]]
    covered: Floats = np.minimum(share, np.float32(1)).astype(np.float32)
    return covered


def best_name_match(names: PathNames, identifiers: Sequence[str]) -> Floats:
    """Per file: the best `features.name_match` of its stem with an identifier."""
    values = np.zeros(len(names.stems), np.float32)
    for identifier in identifiers:
        for number in _candidates(names, identifier.lower().replace("_", "")):
            values[number] = max(values[number], name_match(names.stems[number], identifier))
    return values[names.stem_of_file]


def _credits(names: PathNames, shapes: Sequence[str]) -> dict[int, int]:
    """Of the stems that contain a form: the length of the longest."""
    found: dict[int, int] = {}
    scanned: dict[str, list[int]] = {}
    for form in reversed(shapes):  # shortest first, so that the longest stays
        # Most forms begin like a shorter one, and can only be where that is.
        known = next((places for start, places in scanned.items() if form.startswith(start)), None)
        if known is None:
            places = scanned[form] = list(places_of(names, form))
        else:
            places = [place for place in known if names.joined.startswith(form, place)]
        if places:
            numbers = np.searchsorted(names.line_starts, places, side="right") - 1
            found.update(dict.fromkeys(numbers.tolist(), len(form)))
    return found


def _beginnings(
    names: PathNames, word: str, shapes: Sequence[str], credit: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Files whose stem is the beginning of the word, where no longer form is in the whole path."""
    evidence = [form for form in shapes if len(form) >= _STEM_EVIDENCE]
    for length in range(_STEM_EVIDENCE, len(word) + 1):
        number = names.stem_numbers.get(word[:length])
        if number is None or number in credit:
            continue
        for file in names.stem_files[number]:
            if not any(form in names.lowered[file] for form in evidence):
                yield file, length


def _candidates(names: PathNames, name: str) -> set[int]:
    """Stems that may match a name: those it begins with, and those that begin with it."""
    if not name:
        return set()
    found = {names.stem_numbers[name[:n]] for n in range(1, len(name) + 1) if name[:n] in names.stem_numbers}
    places = list(places_of(names, "\n" + name))
    found.update(int(n) for n in np.searchsorted(names.line_starts, np.array(places) + 1, side="right") - 1 if places)
    return found


def places_of(names: PathNames, part: str) -> Iterator[int]:
    """Where a text stands in `joined`, ascending: where its rarest three characters do, and the rest around them."""
    if len(part) < _GRAM:
        at = names.joined.find(part)
        while at >= 0:
            yield at
            at = names.joined.find(part, at + 1)
        return
    wanted = _grams(part)
    starts, ends = np.searchsorted(names.grams, wanted), np.searchsorted(names.grams, wanted, side="right")
    rarest = int((ends - starts).argmin())
    for place in names.gram_places[starts[rarest] : ends[rarest]].tolist():
        if place >= rarest and names.joined.startswith(part, place - rarest):
            yield place - rarest


def _grams(text: str) -> NDArray[np.uint64]:
    """Each `_GRAM` characters in a row as a number: 21 bits hold any character."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    found: NDArray[np.uint64] = codes[:-2] | codes[1:-1] << np.uint64(21) | codes[2:] << np.uint64(42)
    return found
