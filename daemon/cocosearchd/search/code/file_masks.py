"""Masks of the files and chunks that pass a filter, for the profile `code`. Pure."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cocosearchd.filters.filter_fields import FILE_FIELDS, Filter, file_conditions, select_fields
from cocosearchd.forms.path_forms import path_text
from cocosearchd.search.lexical.index_snapshot import SignalMatrix
from cocosearchd.search.lexical.segments.live_documents import LiveDocuments
from cocosearchd.search.overlay import Overlay
from cocosearchd.store.reads.phrase_matches import Starts

NO_FILE = "no file "  # start of a warning that explains why there are no results
# Bits for the offset of a chunk; the upper 23 bits hold the file's number (< 2**23 files)
_START_BITS = 40


def restricts_files(where: Filter) -> bool:
    """Return True if a filter restricts files or symbols, so that some files may not pass."""
    return where.has_symbols or select_fields(where, FILE_FIELDS) != Filter()


def file_mask(where: Filter, living: LiveDocuments) -> NDArray[np.bool_] | None:
    """Return a mask (F,) of the live files that pass the file part of a filter; None for all.

    Globs have the same meaning as in the store. Do not write to the mask: it is cached.
    """
    files = select_fields(where, FILE_FIELDS)
    if files == Filter():
        return None
    return living.masks.mask(files, lambda: passing_files(files, living.paths, living.languages))


def passing_files(
    where: Filter, paths: Sequence[str], languages: Sequence[str]
) -> NDArray[np.bool_]:
    """Return a mask of the files that pass the file part of a filter."""
    properties = {"path": paths, "language": languages}
    mask = np.ones(len(paths), np.bool_)
    for condition, values in file_conditions(where):
        tests = map(bool, map(condition.matcher(values), properties[condition.subject]))
        mask &= np.fromiter(tests, np.bool_, len(mask)) != condition.excludes
    return mask


def unmet_filter(where: Filter, living: LiveDocuments, root: bytes) -> str | None:
    """Return a sentence on why no file passes the file part of a filter; None if a file passes."""
    passing = file_mask(where, living)
    if passing is None or passing.any() or not living.paths:
        return None
    for field in FILE_FIELDS:
        mask = file_mask(select_fields(where, (field,)), living)
        if mask is not None and not mask.any() and field.no_file_reason:
            values = " or ".join(field.values(where))
            return NO_FILE + field.no_file_reason.format(values=values, root=path_text(root))
    return f"{NO_FILE}passes all of the filters on paths and languages"


def replace_unsaved_chunks(chunks: Starts, overlay: Overlay | None, where: Filter) -> Starts:
    """Replace the passing chunks of unsaved files by the passing chunks of the overlay."""
    if overlay is None:
        return chunks
    saved = {path: starts for path, starts in chunks.items() if path not in overlay.files}
    unsaved: dict[str, list[int]] = {}
    for row, _ in overlay.matching_chunks(where):
        unsaved.setdefault(row.path, []).append(row.start_byte)
    return saved | {path: np.array(sorted(starts), np.int64) for path, starts in unsaved.items()}


def chunk_mask(matrix: SignalMatrix, chunks: Starts) -> NDArray[np.bool_]:
    """Return a mask (C,) of the compared chunks that are among `chunks`.

    Each chunk is packed into one integer (file number and offset), so that one call compares all
    chunks.
    """
    numbers = [(number, chunks[path]) for number, path in enumerate(matrix.paths) if path in chunks]
    if not numbers:
        return np.zeros(len(matrix.chunks.keys), np.bool_)
    files = np.repeat([number for number, _ in numbers], [len(starts) for _, starts in numbers])
    packed = files << _START_BITS | np.concatenate([starts for _, starts in numbers])
    return np.isin(
        matrix.chunks.files.astype(np.int64) << _START_BITS | matrix.chunks.keys[:, 0], packed
    )
