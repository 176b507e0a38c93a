"""CocoIndex's recursive splitter as a way to cut: near the wanted size, at the syntax it knows,
with overlap.
"""

from cocoindex.ops.text import RecursiveSplitter, detect_code_language

from cocosearchd.indexing.pipeline.chunker import Limits
from cocosearchd.languages.parse import Parsed


def chunk_ranges(parsed: Parsed, limits: Limits) -> tuple[tuple[int, int], ...]:
    """The byte ranges of the chunks of a file, in order, overlapping by at most `chunk_overlap`
    bytes.

    Takes as long as the file is large, about a second a megabyte; releases the GIL.
    """
    try:
        text, by_bytes = parsed.data.decode("utf-8"), True
    except UnicodeDecodeError:
        # One character a byte: positions stay right where replacement characters would move them.
        text, by_bytes = parsed.data.decode("latin-1"), False
    language = (
        detect_code_language(filename=parsed.path.rpartition("/")[2]) or parsed.language or None
    )
    if parsed.tree is None and parsed.report.status == "error":
        # what no parser of ours stands, or ends in time: this one has no bounds at all
        language = None
    found = RecursiveSplitter().split(
        text, limits.chunk_size, chunk_overlap=limits.chunk_overlap or None, language=language
    )
    if by_bytes:
        return tuple((one.start.byte_offset, one.end.byte_offset) for one in found)
    return tuple((one.start.char_offset, one.end.char_offset) for one in found)
