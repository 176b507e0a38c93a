"""Definitions and comments by regular expressions, for text without a syntax tree

The rules are line-based and ignore scopes, so that they hold for every language and for broken
files. Values of a definition: 3 a type, 2 a function, 1 a minor name (variable, constant, package);
half a point less when it is indented by more than four columns. Measured: ranking without these
values loses 0.005 to 0.008 NDCG@10.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter

from cocosearchd.search.lexical.analysis.delimited_text import Enclosure, SpanFinder

TYPE = 3.0
FUNCTION = 2.0
MINOR = 1.0
NESTED = 0.5

_TYPES = (
    "class module defmodule defprotocol defimpl interface struct enum union trait object protocol record typedef "
    "newtype macro_rules! macro extension typealias actor"
)
_FUNCTIONS = "def defp func function fun fn sub proc defmacro defmacrop"
_MINORS = "val var const let static data type instance impl package namespace mod #define define"
_KINDS = (
    dict.fromkeys(_TYPES.split(), TYPE)
    | dict.fromkeys(_FUNCTIONS.split(), FUNCTION)
    | dict.fromkeys(_MINORS.split(), MINOR)
)
# A line that a keyword expression matches has one of these as a word, delimited by ASCII characters
# that are in no word.
KEYWORDS = tuple(dict.fromkeys(keyword.strip("#!") for keyword in _KINDS))
_MODIFIERS = (
    "public private protected internal static async export default final abstract sealed open override virtual inline "
    "unsafe partial readonly data inner companion suspend operator infix tailrec lateinit expect actual value "
    "annotation fileprivate mutating required convenience indirect declare const constexpr synchronized native "
    "strictfp implicit case lazy new unowned weak nonisolated local noinline comptime threadlocal extern"
)
_MODIFIER = "|".join(_MODIFIERS.split())
_KEYWORD = "|".join(sorted((re.escape(word) for word in _KINDS), key=len, reverse=True))
_NAME = r"[A-Za-z_$][\w$]*(?:(?:\.|::|\#)[A-Za-z_][\w$]*)*[?!]?"
_DEFINITION = re.compile(
    rf"""^(?P<indent>[ \t]*)
    (?:(?:pub(?:\([^)\n]*\))?|extern[ ]"[^"\n]*"|@\w[\w.]*(?:\([^)\n]*\))?|\[[^\]\n]*\]|{_MODIFIER})[ \t]+)*
    (?P<keyword>{_KEYWORD})(?:[ \t]*\([^)\n]*\)[ \t]*(?=[A-Za-z_])|[ \t]*<[^>\n]*>[ \t]*|\*?[ \t]+\*?)
    (?:<[^>\n]*>[ \t]*)?(?:self\.)?(?P<name>{_NAME})(?P<rest>[^\n]{{0,120}})""",
    re.MULTILINE | re.VERBOSE,
)
_C_LIKE = {"c", "cpp", "java", "csharp"}
_FOREIGN = {
    "static", "const", "data", "type", "let", "val", "var", "fn", "def", "fun", "func", "function", "sub", "proc",
    "module", "impl", "mod", "instance", "object", "trait", "protocol", "extension", "package", "define", "defp",
    "actor", "newtype", "macro", "typealias",
}  # fmt: skip
# Pointer marks are matched behind the last word only: between words the words match them, and with
# two ways to match one text a declaration of 20 pointers costs a million steps.
_BRACED_FUNCTION = re.compile(
    r"^(?P<indent>[ \t]*)(?:(?:[\w<>\[\],.:*&?@]+[ \t]+)+[*&]*)?(?P<name>[A-Za-z_~$][\w$]*(?:::~?[A-Za-z_]\w*)?)[ \t]*"
    r"\([^;{}()]*(?:\([^()]*\)[^;{}()]*)*\)[^;{}()\n=]{0,80}\n?[ \t]*\{",
    re.MULTILINE,
)
# part of each match; quick to search for
_BRACED_END = re.compile(r"\)[^;{}()\n=]{0,80}\n?[ \t]*\{")
_BRACED = {"java", "c", "cpp", "csharp", "javascript", "typescript", "php"}
_BRACED_LIMIT = 600_000  # characters; the expression is the slow one
_CONTROL = {
    "if", "for", "while", "switch", "catch", "return", "else", "do", "sizeof", "with", "synchronized", "using", "lock",
    "foreach", "function", "new",
}  # fmt: skip
_ASSIGNED_FUNCTION = re.compile(
    r"^(?P<indent>[ \t]*)(?:local[ \t]+)?(?P<name>[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+)[ \t]*="
    r"[ \t]*(?:async[ \t]+)?(?:function\b|\([^)\n]*\)[ \t]*=>)",
    re.MULTILINE,
)
_HASKELL_SIGNATURE = re.compile(r"^(?P<indent>)(?P<name>[a-z_][\w']*)[ \t]*::", re.MULTILINE)
_SHELL_FUNCTION = re.compile(
    r"^(?P<indent>[ \t]*)(?P<name>[A-Za-z_][\w:-]*)[ \t]*\(\)", re.MULTILINE
)
_ZIG_TYPE = re.compile(r"^\s*=\s*(?:(?:packed|extern)\s+)?(?:struct|union|enum|opaque|@This)\b")
_JS_FUNCTION = re.compile(r"^[^=\n]*=\s*(?:async\b|function\b|\(|<)")
_SCOPES = re.compile(r"\.|::|\#")
_C_BODY = re.compile(r"^[^;]*?(?:\{|:|\bfinal\b)|^\s*$")
# Each alternative begins with a literal, which a search can skip to: the check that a comment
# begins a line or follows a blank comes behind its marker.
_HASH = r"\#(?<!\S\#)[^\n]*"
_SLASHES = r"//(?<!\S//)[^\n]*"
_DASHES = r"--(?<!\S--)[^\n]*"
_COMMENTS = {
    "slash": SpanFinder([Enclosure("/*", "*/")], _SLASHES),
    "hash": SpanFinder([], _HASH),
    "python": SpanFinder([Enclosure('"""', '"""'), Enclosure("'''", "'''")], _HASH),
    "dash": SpanFinder([Enclosure("--[[", "]]"), Enclosure("{-", "-}")], _DASHES),
    "ruby": SpanFinder([Enclosure("=begin", "\n=end", begins_line=True)], _HASH),
    "php": SpanFinder([Enclosure("/*", "*/")], f"{_SLASHES}|{_HASH}"),
    "elixir": SpanFinder([Enclosure('"""', '"""')], _HASH),
}
_COMMENT_STYLE = {
    "python": "python", "ruby": "ruby", "bash": "hash", "elixir": "elixir", "lua": "dash", "haskell": "dash",
    "sql": "dash", "php": "php", "hcl": "hash", "dockerfile": "hash", "yaml": "hash", "toml": "hash", "r": "hash",
    "perl": "hash", "make": "hash", "julia": "hash",
}  # fmt: skip
_PROSE = {"markdown", "text", "rst", "html", "json", "xml", "css", ""}
_LICENCE_WORDS = ("license", "licence", "copyright", "all rights reserved", "spdx", "warrant")
_LICENCE = re.compile("|".join(_LICENCE_WORDS), re.IGNORECASE)
_MARKER = re.compile(
    r"^[ \t]*(?:/\*+|\*+/?|//+[!/]?|#+|--+(?:\[\[)?|\]\]|\{-|-\}|\"\"\"|'''|=begin|=end)|\*/|\]\]|-\}|\"\"\"|'''",
    re.MULTILINE,
)
_WORDY_MARKERS = ("=begin", "=end")  # the other markers have no letters
_COMMENT_LIMIT = 20_000  # characters of one file
# characters: comments of a shorter text do not reach the limit, with any separators between them
LONG_TEXT = _COMMENT_LIMIT // 2


@dataclass(frozen=True, slots=True)
class Definition:
    """Defined name with its offset in the text and its value."""

    name: str
    offset: int  # characters
    value: float


def find_definitions(
    text: str, language: str, lines: Sequence[int] | None = None
) -> list[Definition]:
    """Find every definition in order of offset; a dotted name is followed by its last part.

    `lines`, from 0, are those that have one of `KEYWORDS`; None: unknown.
    """
    matches = _DEFINITION.finditer(text) if lines is None else _match_lines(text, lines)
    keyword_definitions = list(_keyword_definitions(matches, language))
    further_definitions = [
        _definition(match, FUNCTION)
        for pattern in _extra_patterns(text, language)
        for match in pattern.finditer(text)
        if match["name"].lower() not in _CONTROL
    ]
    names = [
        part
        for item in sorted(keyword_definitions + further_definitions, key=attrgetter("offset"))
        for part in _with_last_part(item)
    ]
    if not further_definitions:  # one expression has no duplicates
        return names
    firsts = dict[tuple[str, int], Definition]()
    for item in names:
        firsts.setdefault((item.name, item.offset), item)
    return list(firsts.values())


def find_comment_spans(text: str, language: str) -> list[tuple[int, int]]:
    """Find the spans of comments and docstrings, in characters; none in prose and data."""
    if language in _PROSE:
        return []
    return [(span.start, span.end) for span in _COMMENTS[_style(language)].spans(text)]


def extract_comments(text: str, language: str) -> str:
    """Extract the comments and docstrings of a text, without licence blocks.

    Markers without letters may remain.
    """
    spans = find_comment_spans(text, language)
    extracted = "\n".join([text[start:stop] for start, stop in spans])
    licences = _names_licence(extracted)
    if licences or len(text) > LONG_TEXT:
        extracted = "\n".join(_comment_blocks(text, spans, licences))
    if len(extracted) > _COMMENT_LIMIT or any(marker in extracted for marker in _WORDY_MARKERS):
        return _MARKER.sub(" ", extracted)[:_COMMENT_LIMIT]
    return extracted


def extract_local_comments(text: str, language: str) -> str | None:
    """Extract the comments of a part of a file, or None if they depend on the text around it.

    If all parts have them, and the file is not `LONG_TEXT`, they are together the result of
    `extract_comments` for the file.
    """
    spans = find_comment_spans(text, language)
    parts = [text[start:stop] for start, stop in spans]
    extracted = "\n".join(parts)
    if _names_licence(extracted) or any(marker in extracted for marker in _WORDY_MARKERS):
        return None
    enclosures = () if language in _PROSE else _COMMENTS[_style(language)].enclosures
    present = [enclosure for enclosure in enclosures if enclosure.opener in text]
    if present:
        ends = [0, *(stop for _, stop in spans)]
        starts = [*(start for start, _ in spans), len(text)]
        rest = "\n".join([text[end:start] for end, start in zip(ends, starts, strict=True)])
        for enclosure in present:
            opener = enclosure.opener
            closer = enclosure.closer
            if opener in rest or any(
                part.startswith(opener) and not part.endswith(closer) for part in parts
            ):
                return None
    return extracted


def _style(language: str) -> str:
    return _COMMENT_STYLE.get(language, "slash")


def _comment_blocks(text: str, spans: Sequence[tuple[int, int]], licences: bool) -> Iterator[str]:
    """Join comments with only blanks between them to blocks, each begun by the end of a line.

    Stops at `_COMMENT_LIMIT`.
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


def _match_lines(text: str, lines: Sequence[int]) -> Iterator[re.Match[str]]:
    """Match the definitions of lines, as in the full text: no match is longer than its line."""
    if not lines:
        return
    # characters, without the ends of lines
    offsets = list(accumulate(map(len, text.split("\n")), initial=0))
    for line in lines:
        if match := _DEFINITION.match(text, offsets[line] + line):
            yield match


def _keyword_definitions(matches: Iterable[re.Match[str]], language: str) -> Iterator[Definition]:
    for match in matches:
        keyword = match["keyword"]
        rest = match["rest"]
        if language in _C_LIKE and keyword in _FOREIGN:
            continue
        if (
            language in ("c", "cpp")
            and keyword in ("struct", "enum", "union", "class")
            and not _C_BODY.match(rest)
        ):
            continue
        value = _value(keyword, rest, language)
        if value == MINOR and _columns(match["indent"]) > 4:
            continue
        yield _definition(match, value)


def _value(keyword: str, rest: str, language: str) -> float:
    if language == "zig" and keyword == "const" and _ZIG_TYPE.match(rest):
        return TYPE
    if language in ("javascript", "typescript") and keyword == "const" and _JS_FUNCTION.match(rest):
        return FUNCTION
    return _KINDS[keyword]


def _extra_patterns(text: str, language: str) -> Iterator[re.Pattern[str]]:
    """Select the patterns that may match."""
    if language in _BRACED and len(text) <= _BRACED_LIMIT and _BRACED_END.search(text):
        yield _BRACED_FUNCTION
    if language in ("lua", "javascript", "typescript") and ("function" in text or "=>" in text):
        yield _ASSIGNED_FUNCTION
    if language == "haskell":
        yield _HASKELL_SIGNATURE
    if language == "bash" and "()" in text:
        yield _SHELL_FUNCTION


def _definition(match: re.Match[str], value: float) -> Definition:
    nested = NESTED if _columns(match["indent"]) > 4 else 0.0
    return Definition(match["name"], match.start("name"), value - nested)


def _columns(indent: str) -> int:
    return len(indent.expandtabs(4))


def _with_last_part(item: Definition) -> tuple[Definition, ...]:
    last = _SCOPES.split(item.name)[-1]
    return (
        (item, Definition(last, item.offset, item.value)) if last and last != item.name else (item,)
    )
