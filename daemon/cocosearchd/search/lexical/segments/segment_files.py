"""The lexical index on disk: a file per segment, written once, and a manifest that names them,
replaced at the end.

A snapshot saves time at start, nothing else. Whatever is wrong with one (another version, another
database, a byte that changed) makes it count as absent.
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
# of the files; terms, definitions and fields have it in common: raise it when any of them changes
FORMAT = 9
_MANIFEST = "manifest.json"
_ALIGNMENT = 64  # bytes: a cache line
# Fields whose arrays have another key in the files of this format.
_STORED_KEYS = {"binary_vectors": "signs"}
_FIELDS = {_STORED_KEYS.get(column.name, column.name): column.name for column in fields(Segment)}


@dataclass(frozen=True, slots=True)
class SavedSnapshot:
    """Parts as they were, whose arrays are mapped from disk, and the names of their files.

    `reduced`: why files in them have less than their text, by path.
    """

    generation: int
    views: tuple[SegmentView, ...]
    names: tuple[str, ...]
    reduced: Mapping[str, str] = field(default_factory=dict)


def save(
    folder: Path,
    owner: Mapping[str, str],
    generation: int,
    parts: Sequence[SegmentView],
    known: Mapping[Segment, str],
    reduced: Mapping[str, str] | None = None,
) -> SavedSnapshot:
    """Write what is not yet written and the manifest; remove what it does not name. Gives the parts
    as mapped.

    `owner` tells whose snapshot this is; `known` are segments that a file has; `reduced` is as in
    `SavedSnapshot`. Raises `OSError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows, mapped, names = [], [], []
    for part in parts:
        name = known.get(part.segment) or _write(folder, part.segment)
        segment = part.segment if part.segment in known else _map(folder / name)
        names.append(name)
        mapped.append(replace(part, segment=segment))
        dead = [] if part.alive is None else np.flatnonzero(~part.alive).tolist()
        returned = None if part.restored_generations is None else part.restored_generations.tolist()
        rows.append(
            {"file": name, "crc32": _checksum(folder / name), "dead": dead, "generations": returned}
        )
    manifest = {
        "format": FORMAT,
        "owner": dict(owner),
        "generation": generation,
        "segments": rows,
        "reduced": dict(reduced or {}),
    }
    fresh = folder / f"{_MANIFEST}.new"
    fresh.write_text(json.dumps(manifest), "utf-8")
    fresh.replace(folder / _MANIFEST)
    for path in folder.glob("*.segment"):
        if path.name not in names:
            path.unlink(missing_ok=True)
    return SavedSnapshot(generation, tuple(mapped), tuple(names))


def load(folder: Path, owner: Mapping[str, str]) -> SavedSnapshot | None:
    """The snapshot of `owner`, or None if there is none that can be trusted."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text("utf-8"))
        if manifest["format"] != FORMAT or manifest["owner"] != dict(owner):
            return None
        parts = tuple(_read(folder, row) for row in manifest["segments"])
        reduced = {str(path): str(reason) for path, reason in manifest.get("reduced", {}).items()}
        names = tuple(row["file"] for row in manifest["segments"])
        return SavedSnapshot(manifest["generation"], parts, names, reduced)
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
        raise ValueError(f"{path.name} is not what was written")
    part = SegmentView(_map(path))
    if row["generations"] is not None:
        part = replace(part, restored_generations=np.array(row["generations"], np.int64))
    return part.with_deleted(row["dead"]) if row["dead"] else part


def _write(folder: Path, segment: Segment) -> str:
    name = f"{uuid.uuid4().hex}.segment"
    table, offset = {}, 0
    arrays = {key: np.ascontiguousarray(getattr(segment, name)) for key, name in _FIELDS.items()}
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
    """A segment whose arrays are views of the mapped file: the kernel may drop their pages and read
    them again.
    """
    with path.open("rb") as file:
        raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = int.from_bytes(raw[:8], "little")
    table = json.loads(raw[8 : 8 + size])
    arrays: dict[str, Any] = {}
    for key, (kind, shape, offset) in table.items():
        count = int(np.prod(shape, dtype=np.int64))
        column = np.frombuffer(raw, np.dtype(kind), count, 8 + size + offset)
        arrays[_FIELDS[key]] = column.reshape(shape)
    return Segment(**arrays)


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum
