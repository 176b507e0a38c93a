"""Highlights code with Pygments if it knows the language, else with our own small lexer."""

import re

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

from cocosearch_ipc.render import highlight
from cocosearch_ipc.render.comment_marks import DIALECTS

# Most specific first. The SGR codes are those of the small lexer, if it has the kind.
COLOURS: tuple[tuple[_TokenType, str], ...] = (
    (Comment, highlight.COMMENT),
    (String, highlight.STRING),
    (Number, highlight.NUMBER),
    (Keyword, highlight.KEYWORD),
    (Name.Function, "34"),
    (Name.Class, "33"),
    (Name.Decorator, "33"),
    (Name.Tag, "34"),
    (Name.Builtin, "36"),
)
# Our language names -> Pygments' names, if they differ.
NAMES = {"gotemplate": "go-html-template", "proto": "protobuf"}


def lines(code: str, language: str) -> list[list[tuple[str, str]]]:
    """Split `code` into lines of pieces (SGR code or "", text), as `highlight.lines` does."""
    language = DIALECTS.get(language, language)
    name = NAMES.get(language, language)
    try:
        lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return highlight.lines(code, language)
    rows = list[list[tuple[str, str]]]([[]])
    for kind, text in lexer.get_tokens(code):
        colour = next((colour for parent, colour in COLOURS if kind[: len(parent)] == parent), "")
        first, *more = re.split("\n", text)
        if first:
            rows[-1].append((colour, first))
        rows += [[(colour, line)] if line else [] for line in more]
    return rows
