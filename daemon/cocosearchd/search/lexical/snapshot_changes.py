"""How one view becomes the next: files go, come and come back. Pure.

What a file was is still in its segment once it is dead. A branch that is switched back to has the
files it had: so segments that leave a view are kept for a while, and a file that is stored as one
has it is brought back, unread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cocosearchd.search.lexical.analysis.documents import ChunkText, Documents, FileText, names_of
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot, merged, view
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView, build, size_bytes
from cocosearchd.search.lexical.segments.segment_merge import BUSY, QUIET, RESTING, compacted, merge
from cocosearchd.search.overlay import Overlay
from cocosearchd.store.chunks.index_texts import FileDigest, FileTexts

# Of segments that left a view: what 6,000 files of 5 kB take, or as much again as the view, which
# is what a branch may replace of a large repository; and as many segments as a question may have to
# look into.
FORMER_BYTES, _FORMER_SEGMENTS = 64 << 20, 8
# dead ones that make a segment worth keeping: what fewer of them take is soon read again
_FORMER_FILES = 64
NOTHING = view((), -1)


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """What is to become of a view: `paths` are as `read` and `returning` have them, or nowhere any
    more.
    """

    paths: tuple[str, ...]
    generation: int
    read: Sequence[Documents] = ()
    returning: Sequence[FileDigest] = ()  # each of them `recognised`


@dataclass(frozen=True, slots=True)
class MergedParts:
    """Merges of the parts of a view, and the files that these leave behind."""

    made: Callable[[IndexSnapshot], IndexSnapshot]
    leaving: IndexSnapshot

    def of(self, now: IndexSnapshot, former: IndexSnapshot) -> tuple[IndexSnapshot, IndexSnapshot]:
        """A later view in order, and what is kept of those before it."""
        found = self.made(now)
        return found, _kept(former, self.leaving, found)


class _Place(NamedTuple):
    """A file of a segment."""

    segment: Segment
    number: int
    language: str
    alive: bool


def remembered(state: IndexSnapshot, former: IndexSnapshot, paths: Iterable[str]) -> list[str]:
    """Those of `paths` that a segment has something of which is not alive."""
    places = ((path, _places((state, former), path)) for path in paths)
    return [path for path, found in places if not all(place.alive for place in found)]


def recognised(
    state: IndexSnapshot, former: IndexSnapshot, files: Iterable[FileDigest]
) -> list[FileDigest]:
    """Those of `files` that a segment has as they are."""
    return [file for file in files if _place(state, former, file)]


def changed(
    state: IndexSnapshot, former: IndexSnapshot, change: SnapshotChange, dimension: int
) -> tuple[IndexSnapshot, IndexSnapshot]:
    """The view after a change, and what is kept of those before it."""
    parts, back = _without(state, change.paths), dict[Segment, list[tuple[int, int]]]()
    for file in change.returning:
        if place := _place(state, former, file):
            back.setdefault(place.segment, []).append((place.number, file.generation))
    own = {part.segment for part in parts}
    # In front: what is behind the others is merged with them, and would not be what it was.
    parts[:0] = [_nobody(segment) for segment in back if segment not in own]
    for number, part in enumerate(parts):
        if part.segment in back:
            files, generations = zip(*back[part.segment], strict=True)
            parts[number] = part.having(files, generations)
    fresh = part_of(change.read, dimension)
    kept = (
        compacted([*parts, *fresh], BUSY)
        if fresh
        else tuple(part for part in parts if part.files_alive)
    )
    now = view(kept, change.generation, state, former)
    return now, _kept(former, view(_leaving(parts, now), -1, state, former), now)


def put_in_order(state: IndexSnapshot) -> MergedParts | None:
    """What puts the parts of `state` in order, to be done beside commits; None if there is nothing
    to do.
    """
    made = merged(state, RESTING)
    if made is None:
        return None
    return MergedParts(
        made, view([_died(part) for part in _leaving(state.parts, made(state))], -1, state)
    )


def _leaving(before: Sequence[SegmentView], now: IndexSnapshot) -> list[SegmentView]:
    """The parts that are not in a view any more, and have files that may come back."""
    living = {part.segment for part in now.parts}
    return [part for part in before if part.segment not in living and _dead(part) >= _FORMER_FILES]


def _kept(former: IndexSnapshot, leaving: IndexSnapshot, now: IndexSnapshot) -> IndexSnapshot:
    """The newest of the parts that are kept and of those that are leaving; none that is in a view
    again.
    """
    living = {part.segment for part in now.parts}
    most = max(FORMER_BYTES, sum(size_bytes(part.segment) for part in now.parts))
    parts, size = list[SegmentView](), 0
    for part in reversed(
        [part for part in (*former.parts, *leaving.parts) if part.segment not in living]
    ):
        size += size_bytes(part.segment)
        if size > most or len(parts) == _FORMER_SEGMENTS:
            break
        parts.append(_nobody(part.segment))
    if [part.segment for part in parts[::-1]] == [part.segment for part in former.parts]:
        return former
    return view(parts[::-1], -1, former, leaving)


def longer(
    parts: Iterable[SegmentView], read: Sequence[Documents], dimension: int
) -> tuple[SegmentView, ...]:
    """Parts with one more, of these documents."""
    return compacted([*parts, *part_of(read, dimension)], BUSY)


def ordered(
    parts: Sequence[SegmentView], generation: int, before: IndexSnapshot | None
) -> IndexSnapshot:
    """A view over parts that have just been read, in order."""
    return view(compacted(parts, QUIET), generation, *([before] if before else []))


def overlaid(
    state: IndexSnapshot, overlay: Overlay, read: Sequence[Documents], dimension: int
) -> IndexSnapshot:
    """The state in which the files of an overlay are as that has them: `read` are its documents.

    Not compacted: what is merged for an overlay would be merged again for its next version.
    """
    fresh = part_of(read, dimension)
    return view([*_without(state, overlay.files), *fresh], state.generation, state)


def difference(
    parts: Sequence[SegmentView], stored: Mapping[str, int]
) -> tuple[tuple[SegmentView, ...], set[str]]:
    """The parts without what is not as stored, by path the generation; and the paths to be read."""
    kept, found = set[str](), []
    for part in parts:
        wrong = []
        generations = part.generations.tolist()
        for file, path in enumerate(part.segment.path_list()):
            alive = part.alive is None or bool(part.alive[file])
            if alive and stored.get(path) == generations[file]:
                kept.add(path)
            elif alive:
                wrong.append(file)
        found.append(part.without(wrong) if wrong else part)
    return compacted(found, BUSY), stored.keys() - kept


def part_of(read: Sequence[Documents], dimension: int) -> list[SegmentView]:
    """One part of these documents; none of no documents."""
    return [SegmentView(build(read, dimension))] if read else []


def file_text(file: FileTexts) -> FileText:
    """A file as stored."""
    chunks = tuple(
        ChunkText(
            *row[:4],
            tuple(row[4]),
            names_of(row[5], file.path),
            tuple(zip(row[6], row[7], strict=True)),
        )
        for row in file.chunks
    )
    return FileText(file.path, file.generation, file.language, chunks, file.vectors, file.digest)


def _without(state: IndexSnapshot, paths: Iterable[str]) -> list[SegmentView]:
    """The parts without what they hold of `paths`."""
    dying = dict[Segment, list[int]]()
    for path in paths:
        for place in _places((state,), path):
            if place.alive:
                dying.setdefault(place.segment, []).append(place.number)
    return [
        part.without(dying[part.segment]) if part.segment in dying else part for part in state.parts
    ]


def _place(state: IndexSnapshot, former: IndexSnapshot, file: FileDigest) -> _Place | None:
    """Where a file is as stored, alive or dead."""
    for found in _places((state, former), file.path):
        same = (
            int(found.segment.digests[found.number]) == file.digest
            and found.language == file.language
        )
        if file.digest and same:
            return found
    return None


def _places(views: Iterable[IndexSnapshot], path: str) -> Iterator[_Place]:
    """Where a path is."""
    for each in views:
        for part, names in zip(each.parts, each.names, strict=True):
            number = names.numbers.get(path)
            if number is not None:
                alive = part.alive is None or bool(part.alive[number])
                yield _Place(part.segment, number, names.languages[number], alive)


def _nobody(segment: Segment) -> SegmentView:
    return SegmentView(segment).without(range(segment.file_count))


def _died(part: SegmentView) -> SegmentView:
    """What is dead in a part of which something is. All of the part where most is: no room would be
    won.
    """
    if part.alive is None or part.alive_chunks is None or 2 * _dead(part) > part.segment.file_count:
        return part
    return SegmentView(merge([SegmentView(part.segment, ~part.alive, ~part.alive_chunks)]))


def _dead(part: SegmentView) -> int:
    return part.segment.file_count - part.files_alive
