"""Saves segments on disk: one immutable file per segment, and a list of segments, written last.

A saved snapshot only saves time at start. If anything is wrong with it (another version, another
database, a changed byte), it counts as absent.

Vectors are half of a segment, and PostgreSQL has them as well. Therefore the files of small
segments leave them out, and `stored_vectors` reads them from PostgreSQL after a load.
"""

import hashlib
import json
import logging
import mmap
import os
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from cocosearchd.search.lexical.array_types import Array
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView, size_bytes

log = logging.getLogger(__name__)
# Version of the files. Raise it when terms, definitions, comments or fields change: then the next
# start builds all segments anew. `tests/versions.py` detects a forgotten raise.
FORMAT = 12
_SEGMENT_LIST = "manifest.json"
_ALIGNMENT = 64  # bytes: a cache line
_HEAD_SIZE = 8  # bytes of the number at the start of a file: the length of its head
# Arrays are packed in segments up to this size. A larger segment is only mapped: unpacking it would
# take a second at each start, and the kernel could not drop its pages.
PACKED_BYTES = 256 << 20
_PACKING_LEVEL = 1  # level of zlib: higher levels save 6 % more in twice the time
_WORTH_PACKING = 0.75  # packed share of the size; an array with a larger share stays mapped
# Bytes of an array that are packed as a sample, to see whether packing pays. It does not for
# hashes.
_SAMPLE_BYTES = 1 << 16
# If the vectors of a segment are at most this large (some 60,000 chunks), its file leaves them out.
# A start reads them from PostgreSQL, for 13 microseconds of CPU per chunk.
LEFT_OUT_BYTES = 16 << 20
_VECTORS = ("vectors", "binary_vectors")
_FIELDS = [column.name for column in fields(Segment)]


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """The file of a segment: its name in the folder, and the CRC-32 of its bytes."""

    name: str
    crc32: int


@dataclass(frozen=True, slots=True)
class SavedSnapshot:
    """Segment views with arrays mapped from disk, and their files, in the same order.

    `reduced` maps a path to the reason why the file is searched by less than its text. The vectors
    of the segments in `without_vectors` are zero, because their files leave them out.
    """

    generation: int
    views: tuple[SegmentView, ...]
    files: tuple[SegmentFile, ...]
    reduced: Mapping[str, str] = field(default_factory=dict)
    without_vectors: frozenset[Segment] = frozenset()


def save(
    folder: Path,
    owner: Mapping[str, str],
    generation: int,
    views: Sequence[SegmentView],
    saved_files: Mapping[Segment, SegmentFile],
    reduced: Mapping[str, str] | None = None,
) -> SavedSnapshot:
    """Write new segments and their list, remove other files, and return the mapped snapshot.

    Arrays that are packed in their file stay in memory.

    `owner` identifies the snapshot; `saved_files` are the files of segments that are already saved,
    which are not read; `reduced` is as in `SavedSnapshot`. Raises `OSError`; then nothing that it
    wrote is left, as the disk may be full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    new_files = list[SegmentFile]()
    try:
        files = list[SegmentFile]()
        mapped = list[SegmentView]()
        for view in views:
            file = saved_files.get(view.segment)
            if file is None or not (folder / file.name).exists():
                file = _write(folder, view.segment)
                new_files.append(file)
                segment = _map(folder / file.name, written=view.segment)
                view = replace(view, segment=segment)
            files.append(file)
            mapped.append(view)
        _write_list(folder, owner, generation, list(zip(views, files, strict=True)), reduced)
    except OSError:
        for file in new_files:
            (folder / file.name).unlink(missing_ok=True)
        raise
    names = {file.name for file in files}
    for path in folder.glob("*.segment"):
        if path.name not in names:
            path.unlink(missing_ok=True)
    return SavedSnapshot(generation, tuple(mapped), tuple(files))


def _write_list(
    folder: Path,
    owner: Mapping[str, str],
    generation: int,
    saved_views: Sequence[tuple[SegmentView, SegmentFile]],
    reduced: Mapping[str, str] | None,
) -> None:
    """Replace the list of segments, which makes them the snapshot of the folder."""
    segment_list = {
        "format": FORMAT,
        "owner": dict(owner),
        "generation": generation,
        "segments": [_list_row(view, file) for view, file in saved_views],
        "reduced": dict(reduced or {}),
    }
    new_list = folder / f"{_SEGMENT_LIST}.new"
    new_list.write_text(json.dumps(segment_list), "utf-8")
    new_list.replace(folder / _SEGMENT_LIST)


def _list_row(view: SegmentView, file: SegmentFile) -> dict[str, Any]:
    """Return the entry of the segment list for a view and the file of its segment."""
    dead = [] if view.alive is None else np.flatnonzero(~view.alive).tolist()
    generations = None if view.restored_generations is None else view.restored_generations.tolist()
    return {"file": file.name, "crc32": file.crc32, "dead": dead, "generations": generations}


def load(folder: Path, owner: Mapping[str, str]) -> SavedSnapshot | None:
    """Load the snapshot of `owner`; return None if there is no valid snapshot."""
    try:
        segment_list = json.loads((folder / _SEGMENT_LIST).read_text("utf-8"))
        if segment_list["format"] != FORMAT or segment_list["owner"] != dict(owner):
            return None
        views = tuple(_read(folder, row) for row in segment_list["segments"])
        reduced = {
            str(path): str(reason) for path, reason in segment_list.get("reduced", {}).items()
        }
        files = tuple(
            SegmentFile(Path(row["file"]).name, row["crc32"]) for row in segment_list["segments"]
        )
        without_vectors = frozenset(
            view.segment
            for view, file in zip(views, files, strict=True)
            if _leaves_out_vectors(folder / file.name)
        )
        return SavedSnapshot(segment_list["generation"], views, files, reduced, without_vectors)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, zlib.error) as error:
        log.warning(
            "lexical_snapshot_unusable", extra={"folder": str(folder), "error": repr(error)}
        )
        return None


def remove(folder: Path) -> None:
    """Delete a snapshot, the list of segments first."""
    for path in [folder / _SEGMENT_LIST, *folder.glob("*.segment")]:
        path.unlink(missing_ok=True)
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()


def _read(folder: Path, row: Mapping[str, Any]) -> SegmentView:
    path = folder / Path(row["file"]).name
    if _checksum(path) != row["crc32"]:
        raise ValueError(f"{path.name} has another checksum than the list of segments says")
    view = SegmentView(_map(path))
    if row["generations"] is not None:
        view = replace(view, restored_generations=np.array(row["generations"], np.int64))
    return view.with_deleted(row["dead"]) if row["dead"] else view


def _write(folder: Path, segment: Segment) -> SegmentFile:
    """Write a segment into a new file. Raises `OSError`; then the file is gone."""
    path = folder / f"{uuid.uuid4().hex}.segment"
    try:
        _write_segment(path, segment)
        return SegmentFile(path.name, _checksum(path))
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _write_segment(path: Path, segment: Segment) -> None:
    """Write a segment: the length of a head, the head, and the blocks of the arrays.

    For each array, the head has its type, its shape, the offset of its block after the head, and
    the size of the block if it is packed. Equal arrays share a block. For a vector array that is
    left out, offset and size are null.
    """
    may_pack = size_bytes(segment) <= PACKED_BYTES
    left_out = _VECTORS if 0 < segment.vectors.nbytes <= LEFT_OUT_BYTES else ()
    table = dict[str, tuple[Any, ...]]()
    places = dict[bytes, int]()  # digest of a block -> its offset
    blocks = list[memoryview]()
    end = 0
    for key in _FIELDS:
        array = np.ascontiguousarray(getattr(segment, key))
        if key in left_out:
            table[key] = (array.dtype.str, array.shape, None, None)
            continue
        packed = _pack(array) if may_pack else None
        block = _bytes_of(array) if packed is None else memoryview(packed)
        digest = hashlib.blake2b(block, digest_size=16).digest()
        if digest not in places:
            places[digest] = end
            blocks.append(block)
            end += len(block) + _gap(len(block))
        size = None if packed is None else len(packed)
        table[key] = (array.dtype.str, array.shape, places[digest], size)
    _write_blocks(path, json.dumps(table).encode(), blocks)


def _write_blocks(path: Path, head: bytes, blocks: Sequence[memoryview]) -> None:
    """Write the file of a segment. Blanks and zeros align its blocks."""
    head += b" " * _gap(len(head) + _HEAD_SIZE)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(_HEAD_SIZE, "little") + head)
        for block in blocks:
            file.write(block)
            file.write(b"\0" * _gap(len(block)))
        file.flush()
        os.fsync(file.fileno())


def _bytes_of(array: Array) -> memoryview:
    """Return the bytes of a contiguous array without copying them."""
    return array.reshape(-1).view(np.uint8).data


def _gap(size: int) -> int:
    """Return the number of bytes from the end of a block to the start of the next block."""
    return -size % _ALIGNMENT


def _map(path: Path, written: Segment | None = None) -> Segment:
    """Map a segment file, so that the kernel may drop the pages of its arrays and read them again.

    Arrays that are packed or left out are taken from `written`, the segment that was just written
    to the file. Without `written`, packed arrays are unpacked into memory, and arrays that are left
    out are zero. Raises `ValueError` or `zlib.error` if the file is damaged.
    """
    with path.open("rb") as file:
        raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    table, first_block = _read_head(raw)
    arrays: dict[str, Any] = {}
    # files of earlier versions have no packed size
    for key, (kind, shape, offset, *packed_size) in table.items():
        is_mapped = offset is not None and (not packed_size or packed_size[0] is None)
        if is_mapped:
            count = int(np.prod(shape, dtype=np.int64))
            first = first_block + offset
            arrays[key] = np.frombuffer(raw, np.dtype(kind), count, first).reshape(shape)
        elif written is not None:
            arrays[key] = getattr(written, key)
        elif offset is None:
            arrays[key] = np.zeros(shape, np.dtype(kind))
        else:
            first = first_block + offset
            arrays[key] = _unpack(raw[first : first + packed_size[0]], np.dtype(kind), shape)
    return Segment(**arrays)


def _leaves_out_vectors(path: Path) -> bool:
    """Return True if a segment file leaves out vectors, according to its head."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        table, _ = _read_head(raw)
    return table["vectors"][2] is None


def _read_head(raw: mmap.mmap) -> tuple[dict[str, list[Any]], int]:
    """Read the table in the head of a segment file, and find the end of the head."""
    first_block = _HEAD_SIZE + int.from_bytes(raw[:_HEAD_SIZE], "little")
    return json.loads(raw[_HEAD_SIZE:first_block]), first_block


def _pack(array: Array) -> bytes | None:
    """Compress an array, if that saves enough.

    The result is None if compression does not pay, as for hashes and vectors.

    First, the order of the bytes changes (the "shuffle" of Blosc and HDF5): the first bytes of all
    numbers, then the second bytes, and so on. Most numbers are small or near to their neighbours,
    so most of the adjacent bytes are then equal.
    """
    columns = array.reshape(-1, 1).view(np.uint8)
    sample = columns[: _SAMPLE_BYTES // array.itemsize].T.tobytes()
    if len(zlib.compress(sample, _PACKING_LEVEL)) > len(sample) * _WORTH_PACKING:
        return None
    packed = zlib.compress(columns.T.tobytes(), _PACKING_LEVEL)
    return packed if len(packed) <= array.nbytes * _WORTH_PACKING else None


def _unpack(packed: bytes, kind: "np.dtype[Any]", shape: Sequence[int]) -> Array:
    """Restore an array that `_pack` has compressed. Raises `ValueError` or `zlib.error`."""
    expected = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    planes = zlib.decompress(packed, bufsize=expected)
    columns = np.frombuffer(planes, np.uint8).reshape(kind.itemsize, -1)
    array = np.ascontiguousarray(columns.T).view(kind).reshape(shape)
    array.flags.writeable = False
    return array


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum
