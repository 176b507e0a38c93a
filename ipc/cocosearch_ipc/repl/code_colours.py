"""Code in colour by Pygments, where it knows the language; else by our own small lexer."""

import re

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

from cocosearch_ipc.render import highlight

# Most special first. SGR codes; the same as the small lexer's where it has one.
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
# Ours to theirs, where they differ.
NAMES = {"helm-template": "yaml", "gotemplate": "go-html-template", "proto": "protobuf"}
YAML = ("docker-compose", "github-actions", "gitlab-ci", "ansible", "kubernetes", "helm")


def lines(code: str, language: str) -> list[list[tuple[str, str]]]:
    """`code` line by line, each as pieces of (SGR code or "", text), as `highlight.lines` gives
    them.
    """
    name = "yaml" if language.startswith(YAML) else NAMES.get(language, language)
    try:
        lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return highlight.lines(code, language)
    found = list[list[tuple[str, str]]]([[]])
    for kind, text in lexer.get_tokens(code):
        colour = next((colour for parent, colour in COLOURS if kind[: len(parent)] == parent), "")
        first, *more = re.split("\n", text)
        if first:
            found[-1].append((colour, first))
        found += [[(colour, line)] if line else [] for line in more]
    return found
