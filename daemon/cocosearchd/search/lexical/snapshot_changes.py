"""Changes one snapshot into the next: removes, adds and restores files. Pure.

A dead file is still in its segment. A switch back to a branch brings back old files. Therefore
segments that leave a snapshot are retained for a while, as retired segments. A file is restored
without being read if a segment still has its stored content.
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
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    make_snapshot,
    merge_segments_of,
)
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
from cocosearchd.store.reads.index_texts import FileDigest, FileTexts

# Limits of retired segments. In bytes: the size of 6,000 files of 5 kB, or the size of the snapshot
# if it is larger, because another branch may replace all of a large repository. In number: a lookup
# of a path searches each segment.
RETIRED_BYTES = 64 << 20
_RETIRED_SEGMENTS = 8
# Least number of dead files for which a segment is retained: fewer files are quickly read again.
_RETIRED_FILES = 64
EMPTY = make_snapshot((), -1)


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """A change of a snapshot: `paths` are replaced by `read` and `returning` files, or removed."""

    paths: tuple[str, ...]
    generation: int
    read: Sequence[Documents] = ()
    returning: Sequence[FileDigest] = ()  # from `find_restorable_files`


@dataclass(frozen=True, slots=True)
class PendingMerge:
    """Merges of a snapshot's segments, and the replaced segments that are worth retaining."""

    apply_merges: Callable[[IndexSnapshot], IndexSnapshot]
    removed: IndexSnapshot

    def apply(
        self, later: IndexSnapshot, retired: IndexSnapshot
    ) -> tuple[IndexSnapshot, IndexSnapshot]:
        """Apply the merges to a later snapshot, and update the retired segments."""
        snapshot = self.apply_merges(later)
        return snapshot, _retain_retired(retired, self.removed, snapshot)


class _FileLocation(NamedTuple):
    """The location of a file in a segment."""

    segment: Segment
    number: int
    language: str
    alive: bool


def find_paths_with_dead_files(
    snapshot: IndexSnapshot, retired: IndexSnapshot, paths: Iterable[str]
) -> list[str]:
    """Find those of `paths` for which a segment has a dead file."""
    locations = ((path, _find_path((snapshot, retired), path)) for path in paths)
    return [
        path
        for path, path_locations in locations
        if not all(location.alive for location in path_locations)
    ]


def find_restorable_files(
    snapshot: IndexSnapshot, retired: IndexSnapshot, files: Iterable[FileDigest]
) -> list[FileDigest]:
    """Find those of the stored `files` that a segment has with the same content."""
    return [file for file in files if _find_stored_file(snapshot, retired, file)]


def apply_change(
    snapshot: IndexSnapshot, retired: IndexSnapshot, change: SnapshotChange, dimension: int
) -> tuple[IndexSnapshot, IndexSnapshot]:
    """Apply a change; return the next snapshot and the retired segments."""
    views = _restore_files(_remove_paths(snapshot, change.paths), snapshot, retired, change)
    new_views = build_views(change.read, dimension)
    next_views = (
        compact([*views, *new_views], BUSY)
        if new_views
        else tuple(view for view in views if view.live_file_count)
    )
    later = make_snapshot(next_views, change.generation, snapshot, retired)
    removed = make_snapshot(_list_removed_views(views, later), -1, snapshot, retired)
    return later, _retain_retired(retired, removed, later)


def _restore_files(
    views: Sequence[SegmentView],
    snapshot: IndexSnapshot,
    retired: IndexSnapshot,
    change: SnapshotChange,
) -> list[SegmentView]:
    """Restore the returning files of a change in views of the snapshot or of retired segments."""
    restored = dict[Segment, list[tuple[int, int]]]()
    for file in change.returning:
        if location := _find_stored_file(snapshot, retired, file):
            restored.setdefault(location.segment, []).append((location.number, file.generation))
    present = {view.segment for view in views}
    # Restored segments come first, because segments at the end are merged with those before them.
    returning = [_view_all_dead(segment) for segment in restored if segment not in present]
    return [
        view.with_restored(*zip(*restored[view.segment], strict=True))
        if view.segment in restored
        else view
        for view in (*returning, *views)
    ]


def plan_idle_merge(snapshot: IndexSnapshot) -> PendingMerge | None:
    """Merge the segments of an idle `snapshot`; return None if there is nothing to merge."""
    apply_merges = merge_segments_of(snapshot, RESTING)
    if apply_merges is None:
        return None
    return PendingMerge(
        apply_merges,
        make_snapshot(
            [
                _select_dead(view)
                for view in _list_removed_views(snapshot.views, apply_merges(snapshot))
            ],
            -1,
            snapshot,
        ),
    )


def _list_removed_views(earlier: Sequence[SegmentView], later: IndexSnapshot) -> list[SegmentView]:
    """Return the views that have left the snapshot and have enough dead files to restore."""
    present = {view.segment for view in later.views}
    return [
        view
        for view in earlier
        if view.segment not in present and _count_dead(view) >= _RETIRED_FILES
    ]


def _retain_retired(
    retired: IndexSnapshot, removed: IndexSnapshot, later: IndexSnapshot
) -> IndexSnapshot:
    """Retain the newest of the retired and the removed segments.

    Segments that are in the snapshot again are not retained as retired.
    """
    present = {view.segment for view in later.views}
    limit_bytes = max(RETIRED_BYTES, sum(size_bytes(view.segment) for view in later.views))
    candidates = [view.segment for view in (*retired.views, *removed.views)]
    segments = _select_newest(
        [segment for segment in candidates if segment not in present], limit_bytes
    )
    if segments == [view.segment for view in retired.views]:
        return retired
    return make_snapshot(list(map(_view_all_dead, segments)), -1, retired, removed)


def _select_newest(segments: Sequence[Segment], limit_bytes: int) -> Sequence[Segment]:
    """Select as many of the last segments as the limits of retired segments allow."""
    size = 0
    for count, segment in enumerate(reversed(segments)):
        size += size_bytes(segment)
        if size > limit_bytes or count == _RETIRED_SEGMENTS:
            return segments[len(segments) - count :]
    return segments


def append_segment(
    views: Iterable[SegmentView], read: Sequence[Documents], dimension: int
) -> tuple[SegmentView, ...]:
    """Append one segment with these documents."""
    return compact([*views, *build_views(read, dimension)], BUSY)


def make_compact_snapshot(
    views: Sequence[SegmentView], generation: int, earlier: IndexSnapshot | None
) -> IndexSnapshot:
    """Make a snapshot of views that have just been read, with their segments merged."""
    return make_snapshot(compact(views, QUIET), generation, *([earlier] if earlier else []))


def apply_overlay(
    snapshot: IndexSnapshot, overlay: Overlay, read: Sequence[Documents], dimension: int
) -> IndexSnapshot:
    """Make the snapshot in which an overlay replaces its files. `read` are the overlay's documents.

    Segments are not merged: a merge for one version of an overlay would be repeated for its next
    version.
    """
    new_views = build_views(read, dimension)
    return make_snapshot(
        [*_remove_paths(snapshot, overlay.files), *new_views], snapshot.generation, snapshot
    )


def drop_stale_files(
    views: Sequence[SegmentView], stored: Mapping[str, int]
) -> tuple[tuple[SegmentView, ...], set[str]]:
    """Drop the files that differ from the stored files; return the views and the paths to read.

    `stored` maps paths to generations.
    """
    current = set[str]()
    checked = []
    for view in views:
        stale = []
        generations = view.generations.tolist()
        for file, path in enumerate(view.segment.path_list()):
            alive = view.alive is None or bool(view.alive[file])
            if alive and stored.get(path) == generations[file]:
                current.add(path)
            elif alive:
                stale.append(file)
        checked.append(view.with_deleted(stale) if stale else view)
    return compact(checked, BUSY), stored.keys() - current


def build_views(read: Sequence[Documents], dimension: int) -> list[SegmentView]:
    """Build one view of these documents; an empty list without documents."""
    return [SegmentView(build_segment(read, dimension))] if read else []


def make_file_text(file: FileTexts) -> FileText:
    """Convert a stored file to a `FileText`."""
    chunks = tuple(
        ChunkText(
            *row[:3],
            tuple(row[3]),
            extract_header_names(row[4], file.path),
            tuple(zip(row[5], row[6], strict=True)),
        )
        for row in file.chunks
    )
    return FileText(file.path, file.generation, file.language, chunks, file.vectors, file.digest)


def _remove_paths(snapshot: IndexSnapshot, paths: Iterable[str]) -> list[SegmentView]:
    """Mark the files of `paths` as dead in the views."""
    dying = dict[Segment, list[int]]()
    for path in paths:
        for location in _find_path((snapshot,), path):
            if location.alive:
                dying.setdefault(location.segment, []).append(location.number)
    return [
        view.with_deleted(dying[view.segment]) if view.segment in dying else view
        for view in snapshot.views
    ]


def _find_stored_file(
    snapshot: IndexSnapshot, retired: IndexSnapshot, file: FileDigest
) -> _FileLocation | None:
    """Find a location, alive or dead, that has the stored content of a file."""
    for location in _find_path((snapshot, retired), file.path):
        same = (
            int(location.segment.digests[location.number]) == file.digest
            and location.language == file.language
        )
        if file.digest and same:
            return location
    return None


def _find_path(snapshots: Iterable[IndexSnapshot], path: str) -> Iterator[_FileLocation]:
    """Yield the locations of a path."""
    for snapshot in snapshots:
        for view, names in zip(snapshot.views, snapshot.path_names, strict=True):
            number = names.numbers.get(path)
            if number is not None:
                alive = view.alive is None or bool(view.alive[number])
                yield _FileLocation(view.segment, number, names.languages[number], alive)


def _view_all_dead(segment: Segment) -> SegmentView:
    return SegmentView(segment).with_deleted(range(segment.file_count))


def _select_dead(view: SegmentView) -> SegmentView:
    """Build a segment of the dead files of a view.

    If most files of the view are dead, it is returned unchanged, because a copy would save no
    memory.
    """
    if (
        view.alive is None
        or view.alive_chunks is None
        or 2 * _count_dead(view) > view.segment.file_count
    ):
        return view
    return SegmentView(merge_segments([SegmentView(view.segment, ~view.alive, ~view.alive_chunks)]))


def _count_dead(view: SegmentView) -> int:
    return view.segment.file_count - view.live_file_count
