"""Finds the places that a report names by its frames: lines and functions of stack traces."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from cocosearchd.languages.symbol_table import NO_SYMBOLS, PackedSymbols
from cocosearchd.model import IndexRecord
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.reports.mention_signals import MentionedFiles, resolve_frames
from cocosearchd.search.reports.report import Report
from cocosearchd.search.reports.stack_frames import Frame
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_states import chunks_at_lines, file_states

Places = dict[str, NDArray[np.int64]]  # path -> start offsets of chunks
MAX_FRAMES = 30  # frames that are looked up: the innermost ones
MAX_FILE_LINES = 5  # lines of one file that an answer names
MAX_LINE = 2**31 - 1  # PostgreSQL, `integer`


@dataclass(frozen=True, slots=True)
class LocatedFrame:
    """A frame with its file in the index, and its line there: that of its function if it moved."""

    path: str
    line: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class FramePlaces:
    """The chunks that the frames of a report name.

    `innermost` has the one of the innermost frame of each file. `lines` are the lines of frames in
    these chunks by path, innermost first, at most `MAX_FILE_LINES`. `located` are all frames with a
    file.
    """

    places: Places = field(default_factory=dict)
    innermost: Places = field(default_factory=dict)
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    located: tuple[LocatedFrame, ...] = ()


NO_FRAMES = FramePlaces()


async def locate_frames(
    db: Database,
    record: IndexRecord,
    report: Report,
    mentioned_files: MentionedFiles,
    overlay: Overlay | None,
) -> list[LocatedFrame]:
    """Find the files and lines of the innermost frames in the index. An overlay replaces files."""
    frames = await asyncio.to_thread(_resolve, report, mentioned_files)
    paths = {path for path, frame in frames if frame.function}
    symbols = await _read_symbols(db, record, paths, overlay)
    lines = await asyncio.to_thread(
        lambda: [_find_line(frame, symbols.get(path, NO_SYMBOLS)) for path, frame in frames]
    )
    return [
        LocatedFrame(path, line, frame)
        for (path, frame), line in zip(frames, lines, strict=True)
        if 0 < line <= MAX_LINE
    ]


async def find_frame_places(
    db: Database,
    record: IndexRecord,
    report: Report,
    mentioned_files: MentionedFiles,
    overlay: Overlay | None = None,
) -> FramePlaces:
    """Find the chunks that contain the lines of a report's frames. An overlay replaces files."""
    frames = await locate_frames(db, record, report, mentioned_files, overlay)
    chunks = await _find_chunks(db, record, frames, overlay)
    starts = _group((path, start) for path, _, start in chunks)
    lines = _group((path, line) for path, line, _ in chunks)
    return FramePlaces(
        {path: np.unique(values) for path, values in starts.items()},
        {path: np.array(values[:1], np.int64) for path, values in starts.items()},
        {
            path: tuple(dict.fromkeys(lines_of_file))[:MAX_FILE_LINES]
            for path, lines_of_file in lines.items()
        },
        tuple(frames),
    )


async def _find_chunks(
    db: Database, record: IndexRecord, frames: Sequence[LocatedFrame], overlay: Overlay | None
) -> list[tuple[str, int, int]]:
    """Return path, line and start offset of the chunk of each frame; those of unsaved text first.

    A line that the file has not, in a trace of another version, has no chunk.
    """
    unsaved = overlay.files if overlay else {}
    chunks = [
        (entry.path, entry.line, chunk.start_byte)
        for entry in frames
        if entry.path in unsaved
        for chunk in unsaved[entry.path].chunks
        if chunk.start_line <= entry.line <= chunk.end_line
    ]
    saved = [(entry.path, entry.line) for entry in frames if entry.path not in unsaved]
    return chunks + (await chunks_at_lines(db, record, saved) if saved else [])


def _group(pairs: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    values = dict[str, list[int]]()
    for path, value in pairs:
        values.setdefault(path, []).append(value)
    return values


def _resolve(report: Report, mentioned_files: MentionedFiles) -> list[tuple[str, Frame]]:
    frames = islice(resolve_frames(report.mentions.frames, mentioned_files), MAX_FRAMES)
    return [(mentioned_files.paths[file], frame) for file, frame in frames]


async def _read_symbols(
    db: Database, record: IndexRecord, paths: Set[str], overlay: Overlay | None
) -> dict[str, PackedSymbols]:
    unsaved = overlay.files if overlay else {}
    packed = {path: unsaved[path].code.symbols for path in paths & unsaved.keys()}
    if saved_paths := sorted(paths - unsaved.keys()):
        states = await file_states(db, record, saved_paths, with_symbols=True)
        packed |= {path: state.symbols for path, state in states.files.items()}
    return {path: PackedSymbols(symbols) for path, symbols in packed.items() if symbols}


def _find_line(frame: Frame, symbols: PackedSymbols) -> int:
    """Return the line of a frame in the indexed file; 0 if it is unknown.

    A trace is often that of another version: if the line is outside of the function, and the file
    has one function of that name, the line of its definition is taken.
    """
    if not frame.function:
        return frame.line
    functions = symbols.named(frame.function, frame.owner)
    is_inside = any(symbol.start_line <= frame.line <= symbol.end_line for symbol in functions)
    if is_inside or (frame.line and len(functions) != 1):
        return frame.line
    return functions[0].start_line if functions else 0
