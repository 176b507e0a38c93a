"""Segments on disk: one immutable file per segment, and a manifest that is replaced last

A saved snapshot only saves time at start. If anything is wrong with one (another version, another
database, a byte that changed), it counts as absent.
"""

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

from cocosearchd.search.lexical.segments.segment import Segment, SegmentView

log = logging.getLogger(__name__)
# Version of the files. Raise it when terms, definitions, comments or fields change: all segments are
# then built anew at the next start. `tests/versions.py` notices a forgotten raise.
FORMAT = 12
_MANIFEST = "manifest.json"
_ALIGNMENT = 64  # bytes: a cache line
_FIELDS = [column.name for column in fields(Segment)]


@dataclass(frozen=True, slots=True)
class SavedSnapshot:
    """Segment views with arrays mapped from disk, and the names of their files.

    `reduced`: by path, the reason why less than the text of a file is searched.
    """

    generation: int
    views: tuple[SegmentView, ...]
    names: tuple[str, ...]
    reduced: Mapping[str, str] = field(default_factory=dict)


def save(
    folder: Path,
    owner: Mapping[str, str],
    generation: int,
    views: Sequence[SegmentView],
    saved_names: Mapping[Segment, str],
    reduced: Mapping[str, str] | None = None,
) -> SavedSnapshot:
    """Write new segments and the manifest, remove other files, and return the mapped snapshot.

    `owner` identifies the snapshot; `saved_names` are the file names of segments that are
    already saved; `reduced` is as in `SavedSnapshot`. Raises `OSError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    mapped = []
    names = []
    for view in views:
        name = saved_names.get(view.segment) or _write(folder, view.segment)
        segment = view.segment if view.segment in saved_names else _map(folder / name)
        names.append(name)
        mapped.append(replace(view, segment=segment))
        dead = [] if view.alive is None else np.flatnonzero(~view.alive).tolist()
        generations = (
            None if view.restored_generations is None else view.restored_generations.tolist()
        )
        rows.append(
            {
                "file": name,
                "crc32": _checksum(folder / name),
                "dead": dead,
                "generations": generations,
            }
        )
    manifest = {
        "format": FORMAT,
        "owner": dict(owner),
        "generation": generation,
        "segments": rows,
        "reduced": dict(reduced or {}),
    }
    new_manifest = folder / f"{_MANIFEST}.new"
    new_manifest.write_text(json.dumps(manifest), "utf-8")
    new_manifest.replace(folder / _MANIFEST)
    for path in folder.glob("*.segment"):
        if path.name not in names:
            path.unlink(missing_ok=True)
    return SavedSnapshot(generation, tuple(mapped), tuple(names))


def load(folder: Path, owner: Mapping[str, str]) -> SavedSnapshot | None:
    """Load the snapshot of `owner`, or return None if there is no valid one."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text("utf-8"))
        if manifest["format"] != FORMAT or manifest["owner"] != dict(owner):
            return None
        views = tuple(_read(folder, row) for row in manifest["segments"])
        reduced = {str(path): str(reason) for path, reason in manifest.get("reduced", {}).items()}
        names = tuple(row["file"] for row in manifest["segments"])
        return SavedSnapshot(manifest["generation"], views, names, reduced)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        log.warning(
            "lexical_snapshot_unusable", extra={"folder": str(folder), "error": repr(error)}
        )
        return None


def remove(folder: Path) -> None:
    """Delete a snapshot, manifest first."""
    for path in [folder / _MANIFEST, *folder.glob("*.segment")]:
        path.unlink(missing_ok=True)
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()


def _read(folder: Path, row: Mapping[str, Any]) -> SegmentView:
    path = folder / Path(row["file"]).name
    if _checksum(path) != row["crc32"]:
        raise ValueError(f"{path.name} has another checksum than the manifest says")
    view = SegmentView(_map(path))
    if row["generations"] is not None:
        view = replace(view, restored_generations=np.array(row["generations"], np.int64))
    return view.with_deleted(row["dead"]) if row["dead"] else view


def _write(folder: Path, segment: Segment) -> str:
    name = f"{uuid.uuid4().hex}.segment"
    table = {}
    offset = 0
    arrays = {name: np.ascontiguousarray(getattr(segment, name)) for name in _FIELDS}
    for key, array in arrays.items():
        table[key] = (array.dtype.str, array.shape, offset)
        offset += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    head = json.dumps(table).encode()
    head += b" " * (-(len(head) + 8) % _ALIGNMENT)
    with (folder / name).open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for array in arrays.values():
            file.write(array.tobytes())
            file.write(b"\0" * (-array.nbytes % _ALIGNMENT))
        file.flush()
        os.fsync(file.fileno())
    return name


def _map(path: Path) -> Segment:
    """Map a segment file: the kernel may drop the pages of the arrays and read them again."""
    with path.open("rb") as file:
        raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = int.from_bytes(raw[:8], "little")
    table = json.loads(raw[8 : 8 + size])
    arrays: dict[str, Any] = {}
    for key, (kind, shape, offset) in table.items():
        count = int(np.prod(shape, dtype=np.int64))
        column = np.frombuffer(raw, np.dtype(kind), count, 8 + size + offset)
        arrays[key] = column.reshape(shape)
    return Segment(**arrays)


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum
