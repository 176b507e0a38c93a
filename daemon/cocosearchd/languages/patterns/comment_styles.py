"""Comment styles of languages: the marks that begin and end their comments. Pure.

Languages with the same marks share a style. `language_table` names the style of each language.

Comments are stored in segments: if they change, raise `search.lexical.segments.segment_files.FORMAT`.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from cocosearchd.languages.patterns.delimited_text import Enclosure, SpanFinder


@dataclass(frozen=True)
class CommentStyle:
    """The marks of comments, including docstrings.

    A line mark counts at the start of a line or after a blank. A leading mark counts only as the
    first text of a line, because it has another meaning elsewhere.
    """

    line_marks: tuple[str, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    leading_marks: tuple[str, ...] = ()

    @cached_property
    def finder(self) -> SpanFinder:
        """A finder of the comments in a text."""
        # Each alternative begins with its mark, because a search can skip to a literal. Therefore
        # the check of the character before the mark comes after the mark.
        expressions = [
            rf"{mark}(?<!\S{mark})[^\n]*" for mark in map(re.escape, self.line_marks)
        ] + [rf"(?m:^[ \t]*+){re.escape(mark)}[^\n]*" for mark in self.leading_marks]
        return SpanFinder(self.enclosures, "|".join(expressions))

    @cached_property
    def worded_marks(self) -> tuple[str, ...]:
        """Marks with letters, which would otherwise count as words of the comment."""
        marks = (*self.line_marks, *self.leading_marks, *_enclosing_marks(self.enclosures))
        return tuple(mark.strip() for mark in marks if any(map(str.isalpha, mark)))


def _enclosing_marks(enclosures: tuple[Enclosure, ...]) -> tuple[str, ...]:
    return tuple(mark for enclosure in enclosures for mark in (enclosure.opener, enclosure.closer))


_SLASH_STAR = Enclosure("/*", "*/")
_CURLY_DASH = Enclosure("{-", "-}")
_ROUND_STAR = Enclosure("(*", "*)")
_TAG = Enclosure("<!--", "-->")
_QUOTES = Enclosure('"""', '"""')
_APOSTROPHES = Enclosure("'''", "'''")

NO_COMMENTS = CommentStyle()
HASH = CommentStyle(("#",))
SLASHES = CommentStyle(("//",))
SEMICOLON = CommentStyle((";",))
PERCENT = CommentStyle(("%",))
EXCLAMATION = CommentStyle(("!",))
SEMICOLON_OR_HASH = CommentStyle((";", "#"))
TAGS = CommentStyle((), (_TAG,))
C_LIKE = CommentStyle(("//",), (_SLASH_STAR,))
C_BLOCKS = CommentStyle((), (_SLASH_STAR,))
C_LIKE_OR_HASH = CommentStyle(("//", "#"), (_SLASH_STAR,))
C_LIKE_OR_TAGS = CommentStyle(("//",), (_SLASH_STAR, _TAG))
HASH_OR_C_BLOCKS = CommentStyle(("#",), (_SLASH_STAR,))
HASH_OR_QUOTES = CommentStyle(("#",), (_QUOTES,))
# `#` needs a blank after it: an immediate operand of ARM, such as `#1`, is no comment.
ASSEMBLY = CommentStyle((";", "//", "# ", "@ "), (_SLASH_STAR,))
CMAKE = CommentStyle(("#",), (Enclosure("#[[", "]]"),))
HASKELL = CommentStyle(("--",), (_CURLY_DASH,))
JINJA = CommentStyle((), (Enclosure("{#", "#}"),))
JULIA = CommentStyle(("#",), (Enclosure("#=", "=#"), _QUOTES))
LUA = CommentStyle(("--",), (Enclosure("--[[", "]]"),))
ML = CommentStyle((), (_ROUND_STAR,))
ML_OR_SLASHES = CommentStyle(("//",), (_ROUND_STAR,))
NIM = CommentStyle(("#",), (Enclosure("##[", "]##"), Enclosure("#[", "]#")))
PASCAL = CommentStyle(("//",), (Enclosure("{", "}"), _ROUND_STAR))
PERL = CommentStyle(
    ("#",),
    (Enclosure("=head", "\n=cut", begins_line=True), Enclosure("=pod", "\n=cut", begins_line=True)),
)
POWERSHELL = CommentStyle(("#",), (Enclosure("<#", "#>"),))
PYTHON = CommentStyle(("#",), (_QUOTES, _APOSTROPHES))
RUBY = CommentStyle(("#",), (Enclosure("=begin", "\n=end", begins_line=True),))
SQL = CommentStyle(("--",), (_SLASH_STAR,))
# Elsewhere in a line, the quote begins a string.
VIM = CommentStyle(leading_marks=('"',))
