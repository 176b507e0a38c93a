"""The comment marks of the command line's highlighter, made from the table of languages:
`python -m tests.comment_marks` writes them anew.
"""

from pathlib import Path

from cocosearchd.languages import blocks, language_table
from cocosearchd.languages.patterns.comment_styles import CommentStyle

MODULE = (
    Path(__file__).resolve().parent.parent
    / "ipc"
    / "cocosearch_ipc"
    / "render"
    / "comment_marks.py"
)
DOCSTRING = '''"""Comment marks of all languages, and their dialects. `make map` writes it: do not edit.

`cocosearchd.languages.language_table` has the truth, but a query has no time to import it.
"""

from __future__ import annotations
'''
TYPE = "dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]]"
Marks = tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]


def marks_of(style: CommentStyle) -> Marks:
    """Return the marks of a style, without the enclosures that count only where a line begins."""
    pairs = tuple((pair.opener, pair.closer) for pair in style.enclosures if not pair.begins_line)
    return style.line_marks, style.leading_marks, pairs


def marks_by_language() -> dict[str, Marks]:
    """Return the marks of all languages."""
    return {info.name: marks_of(info.comments) for info in language_table.languages()}


def languages_by_dialect() -> dict[str, str]:
    """Return the language of each dialect, such as `yaml` of `kubernetes`."""
    return {dialect.name: blocks.base_language(dialect.name) for dialect in blocks.DIALECTS}


def module_text() -> str:
    """Return the text of the module, as `ruff format` leaves it."""
    marks = (
        f"    {_quote(name)}: {_tuple(value)},\n" for name, value in marks_by_language().items()
    )
    dialects = (
        f"    {_quote(dialect)}: {_quote(name)},\n"
        for dialect, name in languages_by_dialect().items()
    )
    return (
        f"{DOCSTRING}\n# Language -> marks of line comments, marks that must be the first of their line,\n"
        f"# and pairs of marks around comments and docstrings.\nMARKS: {TYPE} = {{\n{''.join(marks)}}}\n"
        f"# Dialect -> its language.\nDIALECTS = {{\n{''.join(dialects)}}}\n"
    )


def _tuple(value: object) -> str:
    if not isinstance(value, tuple):
        return _quote(str(value))
    items = ", ".join(map(_tuple, value))
    return f"({items},)" if len(value) == 1 else f"({items})"


def _quote(text: str) -> str:
    return repr(text) if '"' in text else f'"{text}"'


if __name__ == "__main__":
    MODULE.write_text(module_text(), "utf-8")
