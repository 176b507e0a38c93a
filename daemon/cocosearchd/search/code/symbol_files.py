"""Finds files with symbols that pass a filter, in memory, for the profile `code`. Pure."""

import heapq
from collections.abc import Sequence

import numpy as np

from cocosearchd.search.code.file_masks import file_mask
from cocosearchd.search.lexical.array_types import Mask
from cocosearchd.search.lexical.index_snapshot import IndexSnapshot
from cocosearchd.search.lexical.scoring.symbol_filter import SymbolMasks
from cocosearchd.search.lexical.segments.live_documents import select_live
from cocosearchd.search.lexical.segments.segment import Segment
from cocosearchd.search.listing.symbol_list import SymbolPage
from cocosearchd.store.reads.file_symbols import SymbolFile


def find_symbol_files(
    symbols: SymbolMasks, snapshot: IndexSnapshot, page: SymbolPage
) -> list[SymbolFile]:
    """Find the files that can have symbols of a page, in any order."""
    where = page.where
    views = snapshot.views
    if not views:
        return []
    chunks = [
        symbols.split_mask(view.segment, where.symbol_types, where.symbol_name) for view in views
    ]
    files = [_files_with(view.segment, rows) for view, rows in zip(views, chunks, strict=True)]
    written = select_live(views, [rows[0] for rows in files])
    unlike = select_live(views, [rows[1] for rows in files])
    living = snapshot.live_documents
    passing = written | unlike
    mask = file_mask(where, living)
    if mask is not None:
        passing &= mask
    return [
        SymbolFile(living.paths[number], bool(written[number]), bool(unlike[number]))
        for number in _first_files(page, living.paths, np.flatnonzero(passing).tolist())
    ]


def _first_files(page: SymbolPage, paths: Sequence[str], numbers: list[int]) -> list[int]:
    """Select the first files for a list by path; a list by relevance needs all files."""
    if page.is_ranked:
        return numbers
    later = (number for number in numbers if paths[number] >= page.first_path)
    return heapq.nsmallest(page.max_files, later, key=paths.__getitem__)


def _files_with(segment: Segment, chunks: Mask) -> Mask:
    """Mark the files, (2, F), that have at least one of the marked chunks, (2, C)."""
    files = np.zeros((len(chunks), segment.file_count), np.bool_)
    for row, mask in zip(files, chunks, strict=True):
        row[segment.chunk_files[np.flatnonzero(mask)]] = True
    return files
