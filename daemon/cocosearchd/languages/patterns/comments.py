"""Finds the comments of a text by the marks of its language, without a syntax tree.

Segments hold the comments: if they change, raise `search.lexical.segments.segment_files.FORMAT`.
"""

import re
from collections.abc import Iterator, Sequence

from cocosearchd.languages import blocks
from cocosearchd.languages.patterns.comment_styles import NO_COMMENTS, CommentStyle
from cocosearchd.languages.patterns.delimited_text import Enclosure

_LICENCE_WORDS = ("license", "licence", "copyright", "all rights reserved", "spdx", "warrant")
_LICENCE = re.compile("|".join(_LICENCE_WORDS), re.IGNORECASE)
_MARKS = re.compile(
    r"^[ \t]*(?:/\*+|\*+/?|//+[!/]?|#+|--+(?:\[\[)?|\]\]|\{-|-\}|\"\"\"|'''|=(?:begin|end|head|pod|cut)\b)"
    r"|\*/|\]\]|-\}|\"\"\"|'''",
    re.MULTILINE,
)
_COMMENT_LIMIT = 20_000  # characters of one file
# Characters: the comments of a shorter text cannot reach the limit, whatever separates them.
LONG_TEXT = _COMMENT_LIMIT // 2


def comment_style(language: str) -> CommentStyle:
    """Return the comment style of a language id. A dialect has the style of its base language."""
    language_row = blocks.language_info(language)
    return NO_COMMENTS if language_row is None else language_row.comments


def find_comment_spans(text: str, language: str) -> list[tuple[int, int]]:
    """Find the spans of comments and docstrings, in characters; empty for prose and data."""
    return [(span.start, span.end) for span in comment_style(language).finder.spans(text)]


def extract_comments(text: str, language: str) -> str:
    """Extract the comments and docstrings of a text, without licence blocks.

    Marks without letters may remain.
    """
    spans = find_comment_spans(text, language)
    extracted = "\n".join([text[start:stop] for start, stop in spans])
    licences = _names_licence(extracted)
    if licences or len(text) > LONG_TEXT:
        extracted = "\n".join(_comment_blocks(text, spans, licences))
    if len(extracted) > _COMMENT_LIMIT or _has_worded_marks(extracted, language):
        return _MARKS.sub(" ", extracted)[:_COMMENT_LIMIT]
    return extracted


def extract_local_comments(text: str, language: str) -> str | None:
    """Extract the comments of a part of a file; None if they depend on the text around it.

    If no part gives None, and the file is not longer than `LONG_TEXT`, the results together equal
    that of `extract_comments` for the file.
    """
    spans = find_comment_spans(text, language)
    extracted = "\n".join([text[start:stop] for start, stop in spans])
    if (
        _names_licence(extracted)
        or _has_worded_marks(extracted, language)
        or _has_open_enclosure(text, spans, comment_style(language))
    ):
        return None
    return extracted


def _has_worded_marks(extracted: str, language: str) -> bool:
    return any(mark in extracted for mark in comment_style(language).worded_marks)


def _has_open_enclosure(text: str, spans: Sequence[tuple[int, int]], style: CommentStyle) -> bool:
    """Return True if an opening mark has no closing mark, which may be in the rest of the file."""
    present = [enclosure for enclosure in style.enclosures if enclosure.opener in text]
    if not present:
        return False
    comments = [text[start:stop] for start, stop in spans]
    code = _without_spans(text, spans)
    return any(
        enclosure.opener in code or _begins_unclosed(comments, enclosure) for enclosure in present
    )


def _without_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    ends = [0, *(stop for _, stop in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    return "\n".join([text[end:start] for end, start in zip(ends, starts, strict=True)])


def _begins_unclosed(comments: Sequence[str], enclosure: Enclosure) -> bool:
    return any(
        comment.startswith(enclosure.opener) and not comment.endswith(enclosure.closer)
        for comment in comments
    )


def _comment_blocks(text: str, spans: Sequence[tuple[int, int]], licences: bool) -> Iterator[str]:
    """Yield blocks of comments that have only blanks between them, up to `_COMMENT_LIMIT`.

    Each comment in a block is preceded by a line end.
    """
    size = 0
    block = ""
    end = -1
    for start, stop in [*spans, (len(text) + 1, len(text) + 1)]:
        if (block and not text[end:start].isspace()) or start > len(text):
            if not (licences and _names_licence(block)):
                yield block
                size += len(block)
            block = ""
            if size > _COMMENT_LIMIT:
                return
        block += "\n" + text[start:stop]
        end = stop


def _names_licence(text: str) -> bool:
    if not text.isascii():  # the expression folds some non-ASCII letters to ASCII
        return _LICENCE.search(text) is not None
    lowered = text.lower()
    return any(word in lowered for word in _LICENCE_WORDS)
