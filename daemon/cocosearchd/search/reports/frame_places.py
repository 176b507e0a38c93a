"""Finds the places that a report names by path and line: frames of stack traces."""

import asyncio
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import IndexRecord
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.reports.mention_signals import MentionedFiles, resolve_frames
from cocosearchd.search.reports.report import Report
from cocosearchd.store.connection.database import Database
from cocosearchd.store.reads.file_states import chunks_at_lines

Places = dict[str, NDArray[np.int64]]  # path -> start offsets of chunks
MAX_FRAMES = 30  # frames that are looked up: the innermost ones
MAX_LINE = 2**31 - 1  # PostgreSQL, `integer`


async def find_frame_places(
    db: Database,
    record: IndexRecord,
    report: Report,
    names: MentionedFiles,
    overlay: Overlay | None = None,
) -> Places:
    """Find the chunks that contain the lines of a report's frames. An overlay replaces files."""
    unsaved = overlay.files if overlay else {}
    lines = await asyncio.to_thread(_resolve_lines, report, names)
    saved = [(path, line) for path, line in lines if path not in unsaved]
    places = [
        (path, chunk.start_byte)
        for path, line in lines
        if path in unsaved
        for chunk in unsaved[path].chunks
        if chunk.start_line <= line <= chunk.end_line
    ]
    if saved:
        places += await chunks_at_lines(db, record, saved)
    starts = dict[str, list[int]]()
    for path, start in places:
        starts.setdefault(path, []).append(start)
    return {path: np.unique(values) for path, values in starts.items()}


def _resolve_lines(report: Report, names: MentionedFiles) -> list[tuple[str, int]]:
    """Return the path and line of the innermost frames in files of the index."""
    frames = islice(resolve_frames(report.mentions.frames, names), MAX_FRAMES)
    return [(names.paths[file], frame.line) for file, frame in frames if 0 < frame.line <= MAX_LINE]
