"""Computes signals for the files that a report mentions, in one or several indexes. Pure."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise

import numpy as np

from cocosearchd.languages.identifiers import split_parts
from cocosearchd.languages.patterns.path_roles import DIRECTORY_STEMS
from cocosearchd.search.lexical.array_types import Floats
from cocosearchd.search.lexical.ranking_signals import file_stem
from cocosearchd.search.lexical.scoring.corpus import Corpus
from cocosearchd.search.lexical.scoring.name_scores import find_defining_files
from cocosearchd.search.reports.mentions import GROUPS, Group, Mentions
from cocosearchd.search.reports.stack_frames import Frame

# If more files define a name, or more files match a mentioned path or file name, the mention is
# ignored.
MAX_DEFINING = 30
MAX_NAMESAKES = 4
# A plain lower-case word counts as a name only if few files define it, and it counts less.
MAX_DEFINING_PLAIN = 3
PLAIN_SHARE = 0.5
# Files that define the function of a frame, or its owner: more are not looked at.
MAX_DEFINING_FRAME = 2000
FindStem = Callable[[str], Iterable[int]]
FindDefining = Callable[[str], Iterable[int]]
_LEADING_DOTS = re.compile(r"^(?:\.{1,2}/){1,20}")
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".pyi", ".d.ts")

MENTION_SIGNALS = frozenset(
    {f"{kind}_{group}" for kind in ("defines", "path", "stem") for group in GROUPS.values()}
    | {"frame"}
)


class _StemFiles:
    """The files with one name without suffix: an index may have a hundred thousand `index`."""

    def __init__(self, paths: Sequence[str], numbers: Iterable[int]) -> None:
        self.numbers = sorted(numbers)
        self._paths = paths
        self._files_of_rows = dict[tuple[int, int], list[int]]()

    def nearest(self, parts: tuple[str, ...]) -> tuple[Sequence[int], int]:
        """Return the files with the longest common path end, ascending, and its length in parts.

        `parts` are those of a path, the last first.
        """
        insertion = bisect_left(self._parts, parts)
        shared = max(
            (
                _count_equal(neighbour, parts)
                for neighbour in self._parts[max(0, insertion - 1) : insertion + 1]
            ),
            default=0,
        )
        if not shared:
            return [], 0
        end = parts[:shared]
        first = bisect_left(self._parts, end)
        last = bisect_right(self._parts, end, key=lambda item: item[:shared])
        return self._of_rows(first, last), shared

    def _of_rows(self, first: int, last: int) -> Sequence[int]:
        """Return the files of some rows of `_by_parts`, ascending.

        They are sorted once: hundreds of mentioned paths may have the same end.
        """
        files = self._files_of_rows.get((first, last))
        if files is None:
            files = sorted(number for _, number in self._by_parts[first:last])
            self._files_of_rows[first, last] = files
        return files

    def in_directory(self, name: str) -> Sequence[int]:
        """Return the files whose directory has a name, ascending."""
        return self._by_directory.get(name, ())

    @cached_property
    def _by_parts(self) -> list[tuple[tuple[str, ...], int]]:
        return sorted((_reversed_parts(self._paths[number]), number) for number in self.numbers)

    @cached_property
    def _parts(self) -> list[tuple[str, ...]]:
        return [parts for parts, _ in self._by_parts]

    @cached_property
    def _by_directory(self) -> Mapping[str, list[int]]:
        numbers = defaultdict[str, list[int]](list)
        for number in self.numbers:
            for directory in self._paths[number].split("/")[-2:-1]:
                numbers[directory].append(number)
        return numbers


def _reversed_parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")[::-1])


class MentionedFiles:
    """The files of a snapshot, indexed by name and stem, to resolve mentions of paths."""

    def __init__(
        self,
        paths: Sequence[str],
        find_stem: FindStem | None = None,
        find_defining: FindDefining | None = None,
    ) -> None:
        """`find_stem` finds the files with a name without suffix, and may find others; None: all
        paths are read to find them. `find_defining` finds the files that define a name; None: no
        frame is resolved by its function.
        """
        self.paths = paths
        self._find_stem = find_stem or self._find_unsorted
        self._find_defining = find_defining
        self._by_stem = dict[str, _StemFiles]()
        self._by_definition = dict[str, frozenset[int]]()

    def find_by_frame(self, frame: Frame) -> int | None:
        """Return the file of a frame: by its path, else by its function; None if it is uncertain.

        The function chooses between files with the same path end. For a frame without a path, the
        owner of the function must be known as well, since other programs have functions of the same
        name.
        """
        files: Sequence[int] = self.find_by_path(frame.path) if frame.path else ()
        if len(files) != 1 and frame.function:
            files = self._choose_by_function(frame, files)
        return files[0] if len(files) == 1 else None

    def _choose_by_function(self, frame: Frame, files: Sequence[int]) -> Sequence[int]:
        """Return those of `files`, or of all files without a path, that define the function.

        Without a path, a file must define the owner as well, or have its name.
        """
        defining = self._defining(frame.function)
        if frame.path:
            return _intersect(files, defining)
        owning = defining & self._defining(frame.owner)
        for stem in (frame.owner.lower(), "_".join(split_parts(frame.owner))):
            owning |= frozenset(_intersect(self._with_stem(stem).numbers, defining))
        files = sorted(owning)
        return [number for number in files if not self.paths[number].endswith(_HEADERS)] or files

    def _defining(self, name: str) -> frozenset[int]:
        """Return the files that define a name as written."""
        if name not in self._by_definition:
            files = self._find_defining(name) if self._find_defining else ()
            self._by_definition[name] = frozenset(islice(files, MAX_DEFINING_FRAME))
        return self._by_definition[name]

    def find_by_path(self, path: str) -> Sequence[int]:
        """Return the files with the longest common path end with `path`."""
        parts = _reversed_parts(_LEADING_DOTS.sub("", path))
        best, shared = self._with_stem(file_stem(parts[0])).nearest(parts)
        return best if shared == len(parts) or shared > 1 or len(best) == 1 else []

    def find_by_module(self, parts: Sequence[str]) -> Sequence[int]:
        """Return the files of the module at the start of a dotted name; its end may be a symbol."""
        for length in range(len(parts), 1, -1):
            directory, name = parts[length - 2], parts[length - 1]
            modules = self._with_stem(name).in_directory(directory)
            packages = self._packages.get((directory, name), ())
            if modules or packages:
                return [*modules, *packages] if packages else modules
        return []

    def find_by_stem(self, name: str) -> list[int]:
        """Return the files with this stem, with or without a leading underscore."""
        if name in DIRECTORY_STEMS:
            return []
        return [*self._with_stem(name).numbers, *self._with_stem(f"_{name}").numbers]

    def _with_stem(self, stem: str) -> "_StemFiles":
        """Return the files with exactly this name without suffix."""
        files = self._by_stem.get(stem)
        if files is None:
            numbers = (
                number for number in self._find_stem(stem) if file_stem(self.paths[number]) == stem
            )
            files = self._by_stem[stem] = _StemFiles(self.paths, numbers)
        return files

    def _find_unsorted(self, stem: str) -> Iterable[int]:
        del stem
        return range(len(self.paths))

    @cached_property
    def _packages(self) -> Mapping[tuple[str, ...], list[int]]:
        """The files `__init__` by their directory and the one above it."""
        files = defaultdict[tuple[str, ...], list[int]](list)
        for number in self._with_stem("__init__").numbers:
            files[tuple(self.paths[number].split("/")[-3:-1])].append(number)
        return files


def find_mentioned_files(corpus: Corpus) -> MentionedFiles:
    """Return the files of one index, to resolve mentions of paths and frames."""

    def find_defining(name: str) -> Iterable[int]:
        files, _ = find_defining_files(corpus, (name,))
        numbers: list[int] = files.tolist()
        return numbers

    return MentionedFiles(corpus.live.paths, corpus.find_stem, find_defining)


def mention_signals(mentions: Mentions, corpus: Corpus) -> dict[str, Floats]:
    """Compute the signals `MENTION_SIGNALS` of all live files, (F,) each; 0 for unmentioned files."""
    signals = _definition_signals(mentions, corpus)
    for name in MENTION_SIGNALS - signals.keys():
        signals[name] = np.zeros(len(corpus.live.paths), np.float32)
    parts = corpus.parts or (corpus,)
    for part, resolvable in _mentions_by_part(mentions, corpus).items():
        of_part = _mention_signals_of_paths(resolvable, find_mentioned_files(parts[part]))
        for name, values in of_part.items():
            signals[name][corpus.file_groups.rows(part)] = values
    return signals


@dataclass(frozen=True, slots=True)
class _PathMentions:
    """The mentions that one index may resolve by the names of its files."""

    names: dict[Group, list[str]] = field(default_factory=lambda: defaultdict(list))
    paths: dict[Group, list[str]] = field(default_factory=lambda: defaultdict(list))
    dotted: dict[Group, list[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(list))
    frames: list[Frame] = field(default_factory=list)


def _mentions_by_part(mentions: Mentions, corpus: Corpus) -> dict[int, _PathMentions]:
    """Return the mentions to resolve in each index, by its number.

    Most mentions are names of no file, and few of many indexes have a file with one of the others.
    """
    search = _PartSearch(mentions, corpus)
    split = defaultdict[int, _PathMentions](_PathMentions)
    for group in GROUPS.values():
        for name in mentions.names[group]:
            for part in search.of_name(name):
                split[part].names[group].append(name)
        for path in mentions.paths[group]:
            for part in search.of_path(path):
                split[part].paths[group].append(path)
        for dotted in mentions.dotted[group]:
            for part in search.of_dotted(dotted):
                split[part].dotted[group].append(dotted)
    for frame in mentions.frames:
        for part in search.of_frame(frame):
            split[part].frames.append(frame)
    return split


class _PartSearch:
    """Finds the indexes of a corpus that may resolve a mention. All may in a corpus of one index."""

    def __init__(self, mentions: Mentions, corpus: Corpus) -> None:
        self._names = corpus.part_names if corpus.parts else None
        self._stems = corpus.live.stem_set
        functions = [frame.function for frame in mentions.frames if not frame.path]
        self._parts_by_function = (
            _parts_that_define(corpus, tuple(dict.fromkeys(filter(None, functions))))
            if self._names is not None
            else {}
        )

    def of_name(self, name: str) -> Iterable[int]:
        """Return the indexes that may have a file with this name."""
        if self._stems.isdisjoint((name, f"_{name}")):
            return ()
        if self._names is None:
            return (0,)
        return {*self._names.with_stem(name), *self._names.with_stem(f"_{name}")}

    def of_path(self, path: str) -> Iterable[int]:
        """Return the indexes that may have a file with the end of this path."""
        return (0,) if self._names is None else self._names.with_stem(file_stem(path))

    def of_dotted(self, parts: Sequence[str]) -> Iterable[int]:
        """Return the indexes that may have a module of this dotted name."""
        if self._names is None:
            return (0,)
        return {index for pair in pairwise(parts) for index in self._names.with_module(*pair)}

    def of_frame(self, frame: Frame) -> Iterable[int]:
        """Return the indexes that may have the file of this frame."""
        if frame.path or self._names is None:
            return self.of_path(frame.path)
        return self._parts_by_function.get(frame.function, ())


def _parts_that_define(corpus: Corpus, names: Sequence[str]) -> dict[str, frozenset[int]]:
    """Return the indexes that define each of these names as written."""
    files, numbers = find_defining_files(corpus, names)
    parts = corpus.file_groups.numbers[files]
    return {name: frozenset(parts[numbers == n].tolist()) for n, name in enumerate(names)}


def _mention_signals_of_paths(
    mentions: _PathMentions, mentioned_files: MentionedFiles
) -> dict[str, Floats]:
    """Compute the signals from paths for the files of one index, (F,) each."""
    count = len(mentioned_files.paths)
    signals = dict[str, Floats]()
    for group in GROUPS.values():
        signals[f"path_{group}"] = _share_signal(
            (
                *(mentioned_files.find_by_path(path) for path in mentions.paths[group]),
                *(mentioned_files.find_by_module(parts) for parts in mentions.dotted[group]),
            ),
            count,
        )
        signals[f"stem_{group}"] = _share_signal(
            (mentioned_files.find_by_stem(name) for name in mentions.names[group]), count
        )
    signals["frame"] = _frame_signal(mentions.frames, mentioned_files, count)
    return signals


def _definition_signals(mentions: Mentions, corpus: Corpus) -> dict[str, Floats]:
    """Compute the signals from definitions of mentioned names: group -> (F,).

    A name gives each file that defines it an equal share. The signal is the logarithm of the sum of
    these shares. Names that many files of an index define are ignored there.
    """
    names = tuple(
        dict.fromkeys(name for group in GROUPS.values() for name in mentions.names[group])
    )
    files, numbers = find_defining_files(corpus, names)
    groups = corpus.file_groups.numbers[files].astype(np.int64)
    counts = np.bincount(groups * len(names) + numbers, minlength=1)[groups * len(names) + numbers]
    is_plain = np.array([name.islower() and "_" not in name for name in names], np.bool_)[numbers]
    is_specific = counts <= np.where(is_plain, MAX_DEFINING_PLAIN, MAX_DEFINING)
    shares = np.where(is_plain, PLAIN_SHARE, 1.0) / counts
    signals = dict[str, Floats]()
    for group in GROUPS.values():
        own_names = frozenset(mentions.names[group])
        is_mentioned = np.array([name in own_names for name in names], np.bool_)[numbers]
        chosen = is_specific & is_mentioned
        sums = np.bincount(files[chosen], shares[chosen], len(corpus.live.paths))
        signals[f"defines_{group}"] = np.log1p(sums).astype(np.float32)
    return signals


def _share_signal(mentioned: Iterable[Sequence[int]], count: int) -> Floats:
    """Return for each file its largest share in one mention. Mentions of many files are ignored."""
    signal = np.zeros(count, np.float32)
    for files in mentioned:
        if 0 < len(files) <= MAX_NAMESAKES:
            share = np.float32(1 / len(files))
            for file in files:
                signal[file] = max(signal[file], share)
    return signal


def _frame_signal(frames: Sequence[Frame], mentioned_files: MentionedFiles, count: int) -> Floats:
    """Return 1 for the file of the innermost frame, 1/2 for the next file, and so on."""
    files = dict.fromkeys(file for file, _ in resolve_frames(frames, mentioned_files))
    signal = np.zeros(count, np.float32)
    for rank, file in enumerate(files):
        signal[file] = 1 / (1 + rank)
    return signal


def resolve_frames(
    frames: Sequence[Frame], mentioned_files: MentionedFiles
) -> Iterator[tuple[int, Frame]]:
    """Yield the frames with exactly one matching file, in their order, with the file's number."""
    for frame in frames:
        file = mentioned_files.find_by_frame(frame)
        if file is not None:
            yield file, frame


def _intersect(ascending: Sequence[int], numbers: frozenset[int]) -> list[int]:
    """Return the common numbers, ascending, in the time of the smaller side."""
    if len(ascending) <= len(numbers):
        return [number for number in ascending if number in numbers]
    positions = ((number, bisect_left(ascending, number)) for number in sorted(numbers))
    return [
        number
        for number, position in positions
        if position < len(ascending) and ascending[position] == number
    ]


def _count_equal(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for part, other_part in zip(first, second, strict=False):
        if part != other_part:
            break
        count += 1
    return count
