"""Finds results that are alike: translations, vendored copies, versions and platform twins. Pure.

One result represents a group of alike results. Copies are recognised by their text. Translations,
versions and platform twins are recognised by paths that differ in one part: a locale, a version or
a platform.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Generic, NamedTuple, TypeVar

from cocosearchd.languages.language_table import by_name

T = TypeVar("T")
# Least Jaccard similarity of shingles (Broder 1997): of two copies, and of two versions of a file.
COPY_SIMILARITY = 0.7
VERSION_SIMILARITY = 0.3
SHINGLE_WORDS = 3
# Two places of a file are compared only if the shorter text has at least this share of the longer
# one.
SHORTER_SHARE = 0.5
MAX_COMPARED_GROUPS = 40  # groups that each result is compared with: more than a page of results
MAX_CHARACTERS = 8000  # compared characters of a text: a chunk has fewer
# Path parts: repositories repeat their directories; a part has at most 255 bytes
CACHED_PARTS = 4096
_WORD = re.compile(r"\w+")
_PART = re.compile(r"[/.]")
# ISO 639-1, with a region or script: en, pt-BR, zh-hant, zh_CN
_LOCALE = re.compile(r"[a-z]{2}(?:[-_](?:[a-zA-Z]{2}|[a-zA-Z]{4}))?")
_VERSION = re.compile(r"v?\d[\d._-]*|v\d\w*|legacy|deprecated|compat|old|next|latest|stable")
_OUTDATED = re.compile(r"legacy|deprecated|compat|old")
_LANGUAGE_CODES = re.compile(
    "ar|az|bg|bn|ca|cs|da|de|el|en|es|et|fa|fi|fr|he|hi|hr|hu|id|it|ja|ko|lt|lv|ms|nb|nl|no|pl|pt|ro|ru"
    "|sk|sl|sr|sv|th|tr|uk|ur|uz|vi|yo|zh"
)
_PLATFORM = re.compile(
    "unix|posix|linux|win|win32|win64|windows|darwin|macos|osx|mac|bsd|freebsd|openbsd|netbsd|solaris"
    "|sunos|aix|android|ios|wasm|wasi|x86|x64|amd64|arm|arm64|aarch64|riscv64"
)
# Directories for the files of other projects: below such a directory, files keep their paths.
_VENDOR = "_?vendor|_?vendored|third_party|thirdparty|_?externals?|node_modules"
_VENDOR_DIRECTORY = re.compile(_VENDOR)
# Directories of copies: a file outside of them represents the group.
_COPY_DIRECTORY = re.compile(
    f"{_VENDOR}|dist|build|generated|gen|fixtures?|testdata|tests?|examples?"
)
MIN_VENDORED_PARTS = 3  # path parts below a vendor directory: a library, a file and its type


class Text(NamedTuple):
    """The parts of a result that are compared."""

    path: str
    language: str
    symbol_name: str | None
    content: str
    is_own: bool = True  # of the project that asks; False: of another index


@dataclass(frozen=True, slots=True)
class WantedVariant:
    """The variant of alike results that a question asks for.

    It asks for the locale, the version or the platform that is among its `words`, in lower case, and
    for the translation into one of its `languages` (ISO 639-1).
    """

    words: frozenset[str] = frozenset()
    languages: frozenset[str] = frozenset()


class SimilarGroup(NamedTuple, Generic[T]):
    """A group of alike results: the one that represents them, and the others in their order."""

    representative: T
    alternates: tuple[T, ...] = ()


def group_similar(
    results: Sequence[T], text_of: Callable[[T], Text], variant: WantedVariant
) -> list[SimilarGroup[T]]:
    """Group alike results; groups are ordered by their first result.

    The result that is the `variant` represents its group; of equal ones, that of the own project.
    Each result is compared with the first `MAX_COMPARED_GROUPS` groups, so the cost is linear.
    """
    heads = _AlikeHeads[T](_Compared.is_alike)
    return [_make_group(group, variant) for group in _group(results, text_of, heads)]


def group_copies(results: Sequence[T], text_of: Callable[[T], Text]) -> list[SimilarGroup[T]]:
    """Group nearly equal texts of one file. The first result of a group represents it.

    Groups are ordered by their first result. The cost is linear, like that of `group_similar`.
    """
    heads = _Heads[T](_Compared.is_copy)
    return [
        SimilarGroup(first.result, tuple(compared.result for compared in rest))
        for first, *rest in _group(results, text_of, heads)
    ]


def _group(
    results: Sequence[T], text_of: Callable[[T], Text], heads: "_Heads[T]"
) -> "list[list[_Compared[T]]]":
    """Add each result to the first group with a matching head; without one, start a group."""
    groups: list[list[_Compared[T]]] = []
    for number, result in enumerate(results):
        compared = _Compared(result, text_of(result), number)
        group_number = heads.find(compared)
        if group_number is not None:
            groups[group_number].append(compared)
            continue
        if len(groups) < MAX_COMPARED_GROUPS:
            heads.add(compared)
        groups.append([compared])
    return groups


class _Heads(Generic[T]):
    """The first result of each group. Later results are compared with it by `is_same`."""

    def __init__(self, is_same: "Callable[[_Compared[T], _Compared[T]], bool]") -> None:
        self._is_same = is_same
        self._heads: list[_Compared[T]] = []

    def add(self, head: "_Compared[T]") -> None:
        """Add the head of the next group."""
        self._heads.append(head)

    def find(self, compared: "_Compared[T]") -> int | None:
        """Return the number of the first group with a matching head; None without one."""
        return self._find_among(range(len(self._heads)), compared)

    def _find_among(self, numbers: Iterable[int], compared: "_Compared[T]") -> int | None:
        for number in numbers:
            if self._is_same(compared, self._heads[number]):
                return number
        return None


class _AlikeHeads(_Heads[T]):
    """Heads indexed by the keys that alike results share, so that few pairs are compared."""

    def __init__(self, is_same: "Callable[[_Compared[T], _Compared[T]], bool]") -> None:
        super().__init__(is_same)
        self._variants: list[int] = []
        self._by_key: dict[tuple[str, str], list[int]] = {}

    def add(self, head: "_Compared[T]") -> None:
        number = len(self._heads)
        super().add(head)
        if head.has_variant:
            self._variants.append(number)
        for key in head.keys:
            self._by_key.setdefault(key, []).append(number)

    def find(self, compared: "_Compared[T]") -> int | None:
        if compared.has_variant:  # a variant of a path may be alike to any other path
            return super().find(compared)
        numbers = set(self._variants)
        for key in compared.keys:
            numbers.update(self._by_key.get(key, ()))
        return self._find_among(sorted(numbers), compared)


def _make_group(group: "list[_Compared[T]]", variant: WantedVariant) -> SimilarGroup[T]:
    if len(group) == 1:
        return SimilarGroup(group[0].result)
    first, *rest = sorted(
        group, key=lambda compared: (*_preference(compared, variant), compared.number)
    )
    alternates = sorted(rest, key=lambda compared: compared.number)
    return SimilarGroup(first.result, tuple(compared.result for compared in alternates))


def _preference(compared: "_Compared[T]", variant: WantedVariant) -> tuple[bool, ...]:
    """Return the sort key that chooses the representative of a group; False is better."""
    parts = compared.parts
    locales = [part for part in parts if _is_locale(part)]
    is_english = any(part.startswith("en") for part in locales)
    return (
        not any(part in variant.words for part in parts if _is_variant(part)),
        not any(locale[:2] in variant.languages for locale in locales),
        any(_COPY_DIRECTORY.fullmatch(part) for part in parts),
        any(_OUTDATED.fullmatch(part) for part in parts),
        bool(locales) and not is_english,
        not is_english,
        not compared.text.is_own,
    )


class _Compared(Generic[T]):
    """A result with the values that comparisons use; the costly ones are computed at their first use."""

    def __init__(self, result: T, text: Text, number: int) -> None:
        self.result = result
        self.text = text
        self.number = number
        # the last part of the path, as written, with its type
        self.file_name = text.path.rpartition("/")[2]
        # the parts of the path, in lower case
        self.parts = _PART.split(text.path.lower())
        # True if a part of the path names a locale, a version or a platform
        self.has_variant = any(map(_is_variant, self.parts))

    @cached_property
    def vendored_parts(self) -> list[str]:
        """The parts of the path below its last vendor directory."""
        return _parts_below_vendor(self.parts)

    @cached_property
    def keys(self) -> list[tuple[str, str]]:
        """Properties of the result. Alike results share at least one, unless a path is a variant."""
        keys = [("file", self.file_name), ("content", self.text.content)]
        if self.text.symbol_name is not None:
            keys.append(("symbol", self.text.symbol_name))
        return keys

    @cached_property
    def words(self) -> list[str]:
        """The compared words of the text, in order."""
        return _WORD.findall(self.text.content[:MAX_CHARACTERS])

    @cached_property
    def distinct_words(self) -> frozenset[str]:
        """The compared words of the text."""
        return frozenset(self.words)

    @property
    def most_shingles(self) -> int:
        """The number of shingles if no two are equal."""
        return max(1, len(self.words) - SHINGLE_WORDS + 1)

    @cached_property
    def shingles(self) -> frozenset[tuple[str, ...]]:
        """All runs of `SHINGLE_WORDS` consecutive words; a shorter text is one shingle."""
        words = self.words
        if len(words) < SHINGLE_WORDS:
            return frozenset([tuple(words)])
        return frozenset(zip(*(words[start:] for start in range(SHINGLE_WORDS)), strict=False))

    def is_alike(self, second: "_Compared[T]") -> bool:
        """Return True if one result can represent the other."""
        if self.text.language != second.text.language:
            return False
        if self.text.content == second.text.content:
            return True
        if self._has_same_name(second) and self._is_similar(second, COPY_SIMILARITY):
            return True
        if self._is_vendored_copy_of(second) or second._is_vendored_copy_of(self):
            return True
        return self._is_variant_of(second)

    def is_copy(self, second: "_Compared[T]") -> bool:
        """Return True if the texts of two places of one file are nearly equal."""
        length, second_length = len(self.text.content), len(second.text.content)
        if min(length, second_length) < SHORTER_SHARE * max(length, second_length):
            return False
        return self.text.content == second.text.content or self._is_similar(second, COPY_SIMILARITY)

    def _has_same_name(self, second: "_Compared[T]") -> bool:
        same_file = self.file_name == second.file_name
        same_symbol = self.text.symbol_name == second.text.symbol_name
        return same_file or (same_symbol and self.text.symbol_name is not None)

    def _is_similar(self, second: "_Compared[T]", least: float) -> bool:
        """Return True if the Jaccard similarity of the shingles is at least `least`."""
        if self._most_similarity(second) < least:
            return False
        common = len(self.shingles & second.shingles)
        return common / max(1, len(self.shingles) + len(second.shingles) - common) >= least

    def _most_similarity(self, second: "_Compared[T]") -> float:
        """Return an upper bound of the similarity, from single words: shingles take longer.

        Each word that the other text lacks begins a shingle that it lacks, except for the last words.
        """
        common_words = len(self.distinct_words & second.distinct_words)
        own_rest, second_rest = (
            max(0, len(compared.distinct_words) - common_words - SHINGLE_WORDS + 1)
            for compared in (self, second)
        )
        most_common = min(
            self.most_shingles - own_rest,
            second.most_shingles - second_rest,
        )
        return most_common / (most_common + own_rest + second_rest)

    def _is_vendored_copy_of(self, second: "_Compared[T]") -> bool:
        below = self.vendored_parts
        return len(below) >= MIN_VENDORED_PARTS and second.parts[-len(below) :] == below

    def _is_variant_of(self, second: "_Compared[T]") -> bool:
        if not (self.has_variant or second.has_variant):
            return False
        swapped = _swapped_parts(self.parts, second.parts)
        if swapped is None:
            return False
        if _are_locales(swapped):
            return _is_prose(self.text.language)
        same_symbol = self.text.symbol_name == second.text.symbol_name is not None
        if all(map(_PLATFORM.fullmatch, swapped)):
            return same_symbol
        if all(part == "" or _VERSION.fullmatch(part) for part in swapped):
            return same_symbol or self._is_similar(second, VERSION_SIMILARITY)
        return False


def _parts_below_vendor(parts: Sequence[str]) -> list[str]:
    """Return the parts of a path below its last vendor directory; empty without one."""
    number = next((n for n in range(len(parts), 0, -1) if _is_vendor(parts[n - 1])), None)
    return [] if number is None else list(parts[number:])


def _first_difference(longer: Sequence[str], shorter: Sequence[str]) -> int:
    """Return the first position at which two sequences differ.

    If none differs, return the length of the shorter sequence.
    """
    pairs = enumerate(zip(longer, shorter, strict=False))
    return next((position for position, (a, b) in pairs if a != b), len(shorter))


def _swapped_parts(parts: Sequence[str], second: Sequence[str]) -> tuple[str, str] | None:
    """Return the only part in which two paths differ, as written in each path; else None.

    "" stands for a part that one of the paths lacks.
    """
    if len(parts) == len(second):
        pairs = [(a, b) for a, b in zip(parts, second, strict=True) if a != b]
        return pairs[0] if len(pairs) == 1 else None
    longer, shorter = (parts, second) if len(parts) > len(second) else (second, parts)
    if len(longer) != len(shorter) + 1:
        return None
    at = _first_difference(longer, shorter)
    if list(longer[at + 1 :]) != list(shorter[at:]):
        return None
    return (longer[at], "") if longer is parts else ("", longer[at])


@lru_cache(maxsize=CACHED_PARTS)
def _is_locale(part: str) -> bool:
    return bool(_LANGUAGE_CODES.fullmatch(part[:2]) and _LOCALE.fullmatch(part))


def _are_locales(swapped: tuple[str, str]) -> bool:
    """Return True if one part is a locale, and the other looks like one or is "".

    A part may look like a locale without naming a known language.
    """
    return any(map(_is_locale, swapped)) and all(
        part == "" or _LOCALE.fullmatch(part) for part in swapped
    )


@lru_cache(maxsize=CACHED_PARTS)
def _is_variant(part: str) -> bool:
    return _is_locale(part) or bool(_PLATFORM.fullmatch(part) or _VERSION.fullmatch(part))


@lru_cache(maxsize=CACHED_PARTS)
def _is_vendor(part: str) -> bool:
    return bool(_VENDOR_DIRECTORY.fullmatch(part))


def _is_prose(language: str) -> bool:
    language_row = by_name().get(language)
    return language_row is not None and language_row.prose
