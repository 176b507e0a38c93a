"""How one view becomes the next: files go, come and come back. Pure.

What a file was is still in its segment once it is dead. A branch that is switched back to has the
files it had: so segments that leave a view are kept for a while, and a file that is stored as one
has it is brought back, unread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cocosearchd.search.lexical.analysis.documents import (
    ChunkText,
    Documents,
    FileText,
    extract_header_names,
)
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot, make_snapshot, plan_merge
from cocosearchd.search.lexical.segments.segment import (
    Segment,
    SegmentView,
    build_segment,
    size_bytes,
)
from cocosearchd.search.lexical.segments.segment_merge import (
    BUSY,
    QUIET,
    RESTING,
    compact,
    merge_segments,
)
from cocosearchd.search.overlay import Overlay
from cocosearchd.store.chunks.index_texts import FileDigest, FileTexts

# Of segments that left a view: what 6,000 files of 5 kB take, or as much again as the view, which
# is what a branch may replace of a large repository; and as many segments as a question may have to
# look into.
RETIRED_BYTES, _RETIRED_SEGMENTS = 64 << 20, 8
# dead ones that make a segment worth keeping: what fewer of them take is soon read again
_RETIRED_FILES = 64
EMPTY = make_snapshot((), -1)


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """What is to become of a view: `paths` are as `read` and `returning` have them, or nowhere any
    more.
    """

    paths: tuple[str, ...]
    generation: int
    read: Sequence[Documents] = ()
    returning: Sequence[FileDigest] = ()  # each of them `find_restorable_files`


@dataclass(frozen=True, slots=True)
class PendingMerge:
    """Merges of the parts of a view, and the files that these leave behind."""

    made: Callable[[IndexSnapshot], IndexSnapshot]
    leaving: IndexSnapshot

    def of(self, now: IndexSnapshot, former: IndexSnapshot) -> tuple[IndexSnapshot, IndexSnapshot]:
        """A later view in order, and what is kept of those before it."""
        found = self.made(now)
        return found, _retain_retired(former, self.leaving, found)


class _FileLocation(NamedTuple):
    """A file of a segment."""

    segment: Segment
    number: int
    language: str
    alive: bool


def find_paths_with_dead_files(
    state: IndexSnapshot, former: IndexSnapshot, paths: Iterable[str]
) -> list[str]:
    """Those of `paths` that a segment has something of which is not alive."""
    places = ((path, _find_path((state, former), path)) for path in paths)
    return [path for path, found in places if not all(place.alive for place in found)]


def find_restorable_files(
    state: IndexSnapshot, former: IndexSnapshot, files: Iterable[FileDigest]
) -> list[FileDigest]:
    """Those of `files` that a segment has as they are."""
    return [file for file in files if _find_stored_file(state, former, file)]


def apply_change(
    state: IndexSnapshot, former: IndexSnapshot, change: SnapshotChange, dimension: int
) -> tuple[IndexSnapshot, IndexSnapshot]:
    """The view after a change, and what is kept of those before it."""
    parts, back = _remove_paths(state, change.paths), dict[Segment, list[tuple[int, int]]]()
    for file in change.returning:
        if place := _find_stored_file(state, former, file):
            back.setdefault(place.segment, []).append((place.number, file.generation))
    own = {part.segment for part in parts}
    # In front: what is behind the others is merged with them, and would not be what it was.
    parts[:0] = [_view_all_dead(segment) for segment in back if segment not in own]
    for number, part in enumerate(parts):
        if part.segment in back:
            files, generations = zip(*back[part.segment], strict=True)
            parts[number] = part.with_restored(files, generations)
    fresh = build_views(change.read, dimension)
    kept = (
        compact([*parts, *fresh], BUSY)
        if fresh
        else tuple(part for part in parts if part.live_file_count)
    )
    now = make_snapshot(kept, change.generation, state, former)
    return now, _retain_retired(
        former, make_snapshot(_list_removed_views(parts, now), -1, state, former), now
    )


def plan_idle_merge(state: IndexSnapshot) -> PendingMerge | None:
    """What puts the parts of `state` in order, to be done beside commits; None if there is nothing
    to do.
    """
    made = plan_merge(state, RESTING)
    if made is None:
        return None
    return PendingMerge(
        made,
        make_snapshot(
            [_select_dead(part) for part in _list_removed_views(state.views, made(state))],
            -1,
            state,
        ),
    )


def _list_removed_views(before: Sequence[SegmentView], now: IndexSnapshot) -> list[SegmentView]:
    """The parts that are not in a view any more, and have files that may come back."""
    living = {part.segment for part in now.views}
    return [
        part
        for part in before
        if part.segment not in living and _count_dead(part) >= _RETIRED_FILES
    ]


def _retain_retired(
    former: IndexSnapshot, leaving: IndexSnapshot, now: IndexSnapshot
) -> IndexSnapshot:
    """The newest of the parts that are kept and of those that are leaving; none that is in a view
    again.
    """
    living = {part.segment for part in now.views}
    most = max(RETIRED_BYTES, sum(size_bytes(part.segment) for part in now.views))
    parts, size = list[SegmentView](), 0
    for part in reversed(
        [part for part in (*former.views, *leaving.views) if part.segment not in living]
    ):
        size += size_bytes(part.segment)
        if size > most or len(parts) == _RETIRED_SEGMENTS:
            break
        parts.append(_view_all_dead(part.segment))
    if [part.segment for part in parts[::-1]] == [part.segment for part in former.views]:
        return former
    return make_snapshot(parts[::-1], -1, former, leaving)


def append_segment(
    parts: Iterable[SegmentView], read: Sequence[Documents], dimension: int
) -> tuple[SegmentView, ...]:
    """Parts with one more, of these documents."""
    return compact([*parts, *build_views(read, dimension)], BUSY)


def make_compact_snapshot(
    parts: Sequence[SegmentView], generation: int, before: IndexSnapshot | None
) -> IndexSnapshot:
    """A view over parts that have just been read, in order."""
    return make_snapshot(compact(parts, QUIET), generation, *([before] if before else []))


def apply_overlay(
    state: IndexSnapshot, overlay: Overlay, read: Sequence[Documents], dimension: int
) -> IndexSnapshot:
    """The state in which the files of an overlay are as that has them: `read` are its documents.

    Not compacted: what is merged for an overlay would be merged again for its next version.
    """
    fresh = build_views(read, dimension)
    return make_snapshot([*_remove_paths(state, overlay.files), *fresh], state.generation, state)


def drop_stale_files(
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
        found.append(part.with_deleted(wrong) if wrong else part)
    return compact(found, BUSY), stored.keys() - kept


def build_views(read: Sequence[Documents], dimension: int) -> list[SegmentView]:
    """One part of these documents; none of no documents."""
    return [SegmentView(build_segment(read, dimension))] if read else []


def make_file_text(file: FileTexts) -> FileText:
    """A file as stored."""
    chunks = tuple(
        ChunkText(
            *row[:4],
            tuple(row[4]),
            extract_header_names(row[5], file.path),
            tuple(zip(row[6], row[7], strict=True)),
        )
        for row in file.chunks
    )
    return FileText(file.path, file.generation, file.language, chunks, file.vectors, file.digest)


def _remove_paths(state: IndexSnapshot, paths: Iterable[str]) -> list[SegmentView]:
    """The parts without what they hold of `paths`."""
    dying = dict[Segment, list[int]]()
    for path in paths:
        for place in _find_path((state,), path):
            if place.alive:
                dying.setdefault(place.segment, []).append(place.number)
    return [
        part.with_deleted(dying[part.segment]) if part.segment in dying else part
        for part in state.views
    ]


def _find_stored_file(
    state: IndexSnapshot, former: IndexSnapshot, file: FileDigest
) -> _FileLocation | None:
    """Where a file is as stored, alive or dead."""
    for found in _find_path((state, former), file.path):
        same = (
            int(found.segment.digests[found.number]) == file.digest
            and found.language == file.language
        )
        if file.digest and same:
            return found
    return None


def _find_path(views: Iterable[IndexSnapshot], path: str) -> Iterator[_FileLocation]:
    """Where a path is."""
    for each in views:
        for part, names in zip(each.views, each.path_names, strict=True):
            number = names.numbers.get(path)
            if number is not None:
                alive = part.alive is None or bool(part.alive[number])
                yield _FileLocation(part.segment, number, names.languages[number], alive)


def _view_all_dead(segment: Segment) -> SegmentView:
    return SegmentView(segment).with_deleted(range(segment.file_count))


def _select_dead(part: SegmentView) -> SegmentView:
    """What is dead in a part of which something is. All of the part where most is: no room would be
    won.
    """
    if (
        part.alive is None
        or part.alive_chunks is None
        or 2 * _count_dead(part) > part.segment.file_count
    ):
        return part
    return SegmentView(merge_segments([SegmentView(part.segment, ~part.alive, ~part.alive_chunks)]))


def _count_dead(part: SegmentView) -> int:
    return part.segment.file_count - part.live_file_count
