"""Reads a file of an index: its lines from disk, from stored chunks or from unsaved text.

Content comes from disk only while it equals the indexed content. Otherwise it is assembled from the
stored chunks, and `source` says so. Therefore nothing outside of a root is ever returned, wherever
links point.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal

from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.exclusion import find_exclusion
from cocosearchd.filters.globs import exact_glob
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import IndexRecord
from cocosearchd.search.answers.context import cut_line
from cocosearchd.search.answers.disk_files import FileContents, VerifiedFiles
from cocosearchd.search.answers.file_listing import list_files
from cocosearchd.search.answers.stored_contents import assemble_contents
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.request_limits import MAX_LISTED_FILES
from cocosearchd.store import index_records
from cocosearchd.store.chunks.rows import StoredChunk
from cocosearchd.store.connection.database import Database
from cocosearchd.store.following.stored_texts import PlacedText, StoredTexts
from cocosearchd.store.reads import chunk_reads
from cocosearchd.store.reads.file_states import file_states

MAX_SUGGESTIONS = 3  # files of the same name
MAX_TOKEN_CHARS = 10  # upper bound of the average characters of a token
LIST_HINT = "`cocosearchctl files` lists what is indexed"
# Separates two chunks that are not adjacent, in assembled content.
GAP = "…"


@dataclass(frozen=True, slots=True)
class FileContent:
    """Lines `first_line` to `last_line` of a file, inclusive, from 1; `lines` counts all its lines.

    `source` is `disk` if the file is unchanged since it was indexed. It is `rows` for a followed
    index, because its disk is out of reach. It is `index` if the file has changed, is gone or
    cannot be read: then the content is assembled from chunks, with a line `…` for each gap. It is
    `overlay` for a client's unsaved text.
    """

    index: str
    path: str
    language: str
    content: str
    first_line: int
    last_line: int
    lines: int
    source: Literal["disk", "index", "overlay", "rows"]


async def get_file(
    db: Database,
    indexes: Sequence[IndexRecord],
    path: str,
    disk: VerifiedFiles,
    *,
    first_line: int = 1,
    last_line: int | None = None,
    overlays: Mapping[str, Overlay] = MappingProxyType({}),
) -> FileContent:
    """Read a file from one of the indexes. Unsaved text in the index's overlay comes first.

    Raises `NotFound`, and `InvalidInput` when several indexes have that path.
    """
    path = path.removeprefix("./")
    _check_range(first_line, last_line)
    lines = (first_line, last_line)
    name, content_hash = await _locate(db, indexes, path, overlays)
    if content_hash is None:
        file = overlays[name].files[path]
        return _content(name, path, file.language, file.text, lines, "overlay")
    record = next(index for index in indexes if index.name == name)
    text = await _read_disk(disk, record, path, content_hash)
    stored = [file async for file in chunk_reads.file_chunks(db, record, [path])]
    language = stored[0].language if stored else ""
    chunks = stored[0].chunks if stored else ()
    if not chunks:
        await _check_text(db, record, path, readable=text is not None)
    if text is not None:
        return _content(name, path, language, text, lines, "disk")
    if not record.is_followed:
        return _assemble_content(name, path, language, chunks, lines)
    contents = _assemble_rows(path, content_hash, chunks)
    return _content(name, path, language, contents, lines, "rows")


async def _read_disk(
    disk: VerifiedFiles, record: IndexRecord, path: str, content_hash: bytes
) -> FileContents | None:
    """Read a file that is unchanged since it was indexed.

    Return None if the file has changed, and for a followed index, because its disk is elsewhere.
    """
    if record.is_followed:
        return None
    return await disk.run_bounded(
        record.root, partial(disk.verified, record.root, path, content_hash)
    )


def _assemble_rows(path: str, content_hash: bytes, chunks: Sequence[StoredChunk]) -> FileContents:
    """Assemble the content of a file of a followed index."""
    texts = (
        PlacedText(chunk.start_byte, chunk.end_byte, chunk.start_line, chunk.content)
        for chunk in chunks
    )
    return assemble_contents(StoredTexts(path, content_hash, tuple(texts))).contents


def fit_content(content: FileContent, budget_tokens: int) -> FileContent:
    """Return the first lines that fit into a token budget.

    If no line fits, return the start of the first line.
    """
    window = content.content[: budget_tokens * MAX_TOKEN_CHARS]
    lines = window.split("\n")
    is_complete = len(window) == len(content.content)
    used = count = 0
    for line in lines:
        used += estimate_tokens(f"{line}\n")
        if used > budget_tokens:
            break
        count += 1
    if count == len(lines) and is_complete:
        return content
    count = min(count, len(lines) - 1)  # the window may end within its last line
    if count == 0:
        beginning = cut_line(lines[0], budget_tokens, estimate_tokens)
        return replace(content, content=beginning, last_line=content.first_line)
    text = "".join(f"{line}\n" for line in lines[:count])
    return replace(content, content=text, last_line=content.first_line + count - 1)


def _check_range(first_line: int, last_line: int | None) -> None:
    if first_line < 1 or (last_line is not None and last_line < first_line):
        raise InvalidInput(
            f"lines {first_line} to {last_line} are not a range",
            "lines count from 1; the last one is included",
        )


def _content(
    index: str,
    path: str,
    language: str,
    text: FileContents,
    lines: tuple[int, int | None],
    source: Literal["disk", "overlay", "rows"],
) -> FileContent:
    """Make the content of lines of a text.

    From line 1 without a last line, it is the whole text with its line ends.
    """
    first, last = lines
    selected = text.lines(first, last or text.line_count)
    content = (
        text.data.decode("utf-8", "replace") if (first, last) == (1, None) else "\n".join(selected)
    )
    return FileContent(
        index=index,
        path=path,
        language=language,
        content=content,
        first_line=first,
        last_line=first + len(selected) - 1,
        lines=text.line_count,
        source=source,
    )


def _assemble_content(
    index: str,
    path: str,
    language: str,
    chunks: Sequence[StoredChunk],
    lines: tuple[int, int | None],
) -> FileContent:
    """Assemble lines of a file from its chunks."""
    first, last = lines
    all_lines = assemble_lines(chunks)
    selected = all_lines[first - 1 : last]
    content = "\n".join(selected)
    last_shown = first + len(selected) - 1
    return FileContent(
        index=index,
        path=path,
        language=language,
        content=content,
        first_line=first,
        last_line=last_shown,
        lines=len(all_lines),
        source="index",
    )


async def _check_text(db: Database, record: IndexRecord, path: str, *, readable: bool) -> None:
    """Raise `NotFound` for a skipped file if no text of it can be shown."""
    row = next(
        (row for row in await index_records.file_records(db, record, path) if row.path == path),
        None,
    )
    skipped = row.skip_reason if row is not None else None
    if skipped is not None and (skipped == "binary" or not readable):
        raise NotFound(
            f"{path} is not in index {record.name}: {find_exclusion(skipped).cause}",
            find_exclusion(skipped).remedy,
        )


async def find_owner(
    db: Database,
    indexes: Sequence[IndexRecord],
    path: str,
    overlays: Mapping[str, Overlay],
) -> str:
    """Return the name of the index that has a file. Raises like `get_file`."""
    return (await _locate(db, indexes, path, overlays))[0]


async def _locate(
    db: Database, indexes: Sequence[IndexRecord], path: str, overlays: Mapping[str, Overlay]
) -> tuple[str, bytes | None]:
    """Return the index that has a file, and the hash of its content; None for unsaved text."""
    unsaved = [name for name, overlay in overlays.items() if path in overlay.files]
    if len(unsaved) == 1:
        return unsaved[0], None
    owners = list[tuple[str, bytes]]()
    for record in indexes:
        if state := (await file_states(db, record, [path])).files.get(path):
            owners.append((record.name, state.content_hash))
    if len(owners) > 1:
        names = ", ".join(name for name, _ in owners)
        raise InvalidInput(f"{path} is in several indexes: {names}", "name one of them")
    if not owners:
        raise await _not_found(db, indexes, path)
    return owners[0]


async def _not_found(db: Database, indexes: Sequence[IndexRecord], path: str) -> NotFound:
    searched = f"index {indexes[0].name} has no" if len(indexes) == 1 else "no index has a"
    return NotFound(f"{searched} file {path}", await _suggest_paths(db, indexes, path))


async def _suggest_paths(db: Database, indexes: Sequence[IndexRecord], path: str) -> str:
    """Return a hint that names files of the same name: often, only the end of a path is right."""
    name = path.rpartition("/")[2]
    if not name:
        return LIST_HINT
    same_name = (
        await list_files(
            db, indexes, pattern=exact_glob(name)[1:], skipped=True, limit=MAX_LISTED_FILES
        )
    ).files
    suggestions = sorted(
        {file.path for file in same_name if file.path.rpartition("/")[2] == name},
        key=_by_common_tail(path),
    )
    return (
        f"did you mean {' or '.join(suggestions[:MAX_SUGGESTIONS])}?" if suggestions else LIST_HINT
    )


def _by_common_tail(path: str) -> Callable[[str], tuple[int, str]]:
    """Return a sort key for paths: those with the longest common end come first."""
    parts = path.split("/")[::-1]

    def key(candidate: str) -> tuple[int, str]:
        pairs = zip(parts, candidate.split("/")[::-1], strict=False)
        return -next(
            (n for n, (part, other_part) in enumerate(pairs) if part != other_part), len(parts)
        ), candidate

    return key


def assemble_lines(chunks: Sequence[StoredChunk]) -> list[str]:
    """Assemble the lines of a file from its chunks, in order. Overlaps are taken once.

    A chunk may begin within a line, and there are only blanks between chunks. The text of a chunk
    has as many bytes as its range, unless the file is not UTF-8.
    """
    lines: dict[int, str] = {}
    end = 0
    for chunk in chunks:
        if chunk.start_line in lines:
            lines[chunk.start_line] += " " * (chunk.start_byte - end)
        raw = chunk.content.encode()
        overlap = raw[: max(0, end - chunk.start_byte)]
        rest = raw[max(0, end - chunk.start_byte) :]
        for number, piece in enumerate(
            rest.decode("utf-8", "replace").split("\n"), chunk.start_line + overlap.count(b"\n")
        ):
            lines[number] = lines.get(number, "") + piece
        end = max(end, chunk.end_byte)
    if lines and not lines[max(lines)]:
        del lines[max(lines)]  # the empty text after the last line end
    return [
        lines.get(number, GAP).removesuffix("\r") for number in range(1, max(lines, default=0) + 1)
    ]
