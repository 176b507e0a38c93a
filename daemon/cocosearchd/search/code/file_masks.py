"""Filters in the profile `code`: which files may be shown, and which of the compared chunks.
Pure.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import Filter, encode_path
from cocosearchd.search.lexical.index_snapshot import FeatureMatrix
from cocosearchd.search.lexical.segments.live_documents import LiveDocuments
from cocosearchd.search.overlay import Overlay
from cocosearchd.store.chunks.phrase_matches import Starts
from cocosearchd.store.globs import path_matcher

NO_FILE = "no file "  # how a note begins that says why nothing was found
_START_BITS = 40  # of a first byte beside the number of a file, of which there are fewer than 2**23


def file_mask(where: Filter, living: LiveDocuments) -> NDArray[np.bool_] | None:
    """Which living files pass the part of a filter that is about files; None: all. Globs as the
    store reads them.

    Not to be written to: it is kept for the next question.
    """
    if not (where.languages or where.paths or where.not_paths):
        return None
    files = Filter(languages=where.languages, paths=where.paths, not_paths=where.not_paths)
    key = (files.languages, files.paths, files.not_paths)
    return living.masks.mask(key, lambda: passing_files(files, living.paths, living.languages))


def passing_files(
    where: Filter, paths: Sequence[str], languages: Sequence[str]
) -> NDArray[np.bool_]:
    """Which of some files pass the part of a filter that is about files."""
    mask = np.ones(len(paths), np.bool_)
    if where.languages:
        known = frozenset(where.languages)
        mask &= np.fromiter((language in known for language in languages), np.bool_, len(mask))
    if where.paths:
        mask &= _match_globs(where.paths, paths)
    if where.not_paths:
        mask &= ~_match_globs(where.not_paths, paths)
    return mask


def unmet_filter(where: Filter, living: LiveDocuments, root: bytes) -> str | None:
    """Why no file passes the part of a filter that is about files, for people; None where some
    do.
    """
    passing = file_mask(where, living)
    if passing is None or passing.any() or not living.paths:
        return None
    for words, part in (
        (f"is {' or '.join(where.languages)}", Filter(languages=where.languages)),
        (f"is at {' or '.join(where.paths)} below {encode_path(root)}", Filter(paths=where.paths)),
    ):
        mask = file_mask(part, living)
        if mask is not None and not mask.any():
            return NO_FILE + words
    return f"{NO_FILE}passes all of the filters on paths and languages"


def _match_globs(globs: tuple[str, ...], paths: Sequence[str]) -> NDArray[np.bool_]:
    """(F,): does any of the globs match."""
    return np.fromiter(map(bool, map(path_matcher(globs), paths)), np.bool_, len(paths))


def apply_overlay(chunks: Starts, overlay: Overlay | None, where: Filter) -> Starts:
    """The chunks that pass, those of files in an overlay as that has them."""
    if overlay is None:
        return chunks
    found = {path: starts for path, starts in chunks.items() if path not in overlay.files}
    unsaved: dict[str, list[int]] = {}
    for row, _ in overlay.matching_chunks(where):
        unsaved.setdefault(row.path, []).append(row.start_byte)
    return found | {path: np.array(sorted(starts), np.int64) for path, starts in unsaved.items()}


def chunk_mask(found: FeatureMatrix, chunks: Starts) -> NDArray[np.bool_]:
    """Which chunks are among those that pass: files and first bytes as one number each, compared
    all at once.
    """
    numbers = [(number, chunks[path]) for number, path in enumerate(found.paths) if path in chunks]
    if not numbers:
        return np.zeros(len(found.keys), np.bool_)
    files = np.repeat([number for number, _ in numbers], [len(starts) for _, starts in numbers])
    wanted = files << _START_BITS | np.concatenate([starts for _, starts in numbers])
    return np.isin(found.chunk_files.astype(np.int64) << _START_BITS | found.keys[:, 0], wanted)
