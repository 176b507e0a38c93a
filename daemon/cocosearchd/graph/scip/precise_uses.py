"""Packs the meanings of the uses of a file that come from a precise index. Pure."""

import json
import zlib
from collections.abc import Mapping, Sequence

from cocosearchd.graph.code_files import PreciseTarget, PreciseUses

# Bytes of unpacked JSON: enough for 50,000 uses with as many definitions.
MAX_JSON = 16_000_000


def pack(uses: Mapping[tuple[int, int], Sequence[PreciseTarget]]) -> bytes:
    """Pack the meanings of uses; b"" without uses, or if they take more than `MAX_JSON` bytes."""
    if not uses:
        return b""
    numbers: dict[tuple[PreciseTarget, ...], int] = {}
    rows = [
        (line, column, numbers.setdefault(tuple(targets), len(numbers)))
        for (line, column), targets in sorted(uses.items())
    ]
    groups = [[_to_json(target) for target in group] for group in numbers]
    text = json.dumps([groups, *map(list, zip(*rows, strict=True))], separators=(",", ":"))
    data = text.encode()
    return zlib.compress(data, level=1) if len(data) <= MAX_JSON else b""


def unpack(packed: bytes) -> PreciseUses | None:
    """Unpack the meanings of uses; None for b"" and for bytes that `pack` did not make."""
    if not packed:
        return None
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(packed, MAX_JSON)
        groups, lines, columns, numbers = json.loads(data)
        targets = [tuple(map(_from_json, group)) for group in groups]
        return {
            (line, column): targets[number]
            for line, column, number in zip(lines, columns, numbers, strict=True)
        }
    except (zlib.error, ValueError, TypeError, IndexError, RecursionError):
        return None


def _to_json(target: PreciseTarget) -> list[str | int]:
    return [target.path, target.content_hash.hex(), target.name, target.start_line]


def _from_json(row: list[str | int]) -> PreciseTarget:
    path, content_hash, name, start_line = row
    return PreciseTarget(str(path), bytes.fromhex(str(content_hash)), str(name), int(start_line))
