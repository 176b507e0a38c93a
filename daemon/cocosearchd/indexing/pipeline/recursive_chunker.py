"""The chunker `recursive`: CocoIndex's splitter, which cuts at syntax, with overlap.

If cuts move, perhaps through another release of CocoIndex, raise `chunker.RECURSIVE_VERSION`.
"""

from cocoindex.ops.text import RecursiveSplitter, detect_code_language

from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.languages import syntax
from cocosearchd.languages.parse import Parsed, grammar_of


def chunk_ranges(parsed: Parsed, limits: ChunkLimits) -> tuple[tuple[int, int], ...]:
    """Return the byte ranges of the chunks of a file, in order.

    They overlap by at most `chunk_overlap` bytes. It takes about a second per megabyte, and
    releases the GIL.
    """
    by_bytes = True
    try:
        text = parsed.data.decode("utf-8")
    except UnicodeDecodeError:
        # One character for each byte: replacement characters would shift the offsets.
        text = parsed.data.decode("latin-1")
        by_bytes = False
    language = (
        detect_code_language(filename=parsed.path.rpartition("/")[2]) or parsed.language or None
    )
    if not _can_parse(parsed):
        # Our parsers fail or take too long on this file, and this splitter has no limits.
        language = None
    parts = RecursiveSplitter().split(
        text, limits.chunk_size, chunk_overlap=limits.chunk_overlap or None, language=language
    )
    if by_bytes:
        return tuple((part.start.byte_offset, part.end.byte_offset) for part in parts)
    return tuple((part.start.char_offset, part.end.char_offset) for part in parts)


def _can_parse(parsed: Parsed) -> bool:
    """Return true if our parser can parse a file; the file may not have been parsed so far."""
    if parsed.tree is not None:
        return True
    if parsed.report.status != "ok":
        return parsed.report.status != "error"
    grammar = grammar_of(parsed.path, parsed.language)
    return (
        not syntax.nests_too_deep(grammar, parsed.data)
        and syntax.parse_tree(grammar, parsed.data) is not None
    )
