"""Highlights code with a small lexer: comments, strings, numbers, keywords and matched words.

The module is on the hot path of `query`, so it uses no library and no grammar. The lexer does not see
constructs that begin before the snippet (a block comment, a long string). It paints only constructs
that are complete in the snippet.
"""

from __future__ import annotations

import re

from cocosearch_ipc.render.comment_marks import DIALECTS, MARKS

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# SGR codes: grey, green, cyan, magenta
COMMENT = "90"
STRING = "32"
NUMBER = "36"
KEYWORD = "35"

# Text and data, in which quotes and numbers mean nothing.
_NONE = "markdown mdx text json html xml rst css dtd"
# In these languages, strings between three quotes span lines. In others, they are docstrings.
_LONG_STRINGS = "csharp java kotlin nim scala swift"
_C_LIKE = (("//",), (), (("/*", "*/"),))  # marks of a language that is not known here
# In these languages `'` begins a character, a lifetime or the end of a name, not a string.
_ONE_CHARACTER = "c cpp csharp java go rust kotlin scala swift haskell ocaml elm fsharp zig clojure"
_WORDS = {
    "python starlark nim": "and as assert async await break case class continue def del elif else "
    "except finally for "
    "from global if import in is lambda match nonlocal not or pass raise return try while with "
    "yield None True False "
    "self",
    "ruby lua elixir julia bash perl r make powershell": "and begin break case def defmodule defp do done elif "
    "else elsif elseif end ensure esac fi for foreach function if in local module my next nil not "
    "or repeat require "
    "rescue return self struct sub then unless until use while yield true false",
    "sql": "SELECT FROM WHERE AND OR NOT NULL INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE "
    "INDEX VIEW DROP ALTER "
    "ADD COLUMN PRIMARY KEY FOREIGN REFERENCES JOIN LEFT RIGHT INNER OUTER ON AS ORDER BY GROUP "
    "HAVING LIMIT WITH "
    "UNION CASE WHEN THEN ELSE END IN IS DISTINCT RETURNING BEGIN COMMIT",
    "haskell ocaml elm fsharp clojure erlang": "and as begin case class data def defn do else end "
    "exception fn fun "
    "function if import in instance let match module mutable newtype of open rec sig struct then "
    "type val when where "
    "with",
    _NONE + " yaml toml hcl dockerfile": "",
}
_LIKE_C = (
    "abstract as async await bool break case catch chan char class const constexpr continue def "
    "default defer delete "
    "do double else enum export extends extern final finally float fn for from func function go "
    "goto if impl "
    "implements import in inline instanceof int interface internal is let long loop match mod "
    "module mut namespace "
    "new null nil object of operator override package private protected pub public range readonly "
    "record return "
    "select self short sizeof static struct super switch this throw throws trait true false try "
    "type typedef typeof "
    "union unsafe unsigned use using val var virtual void volatile when where while yield"
)
# Stop words of queries in natural language.
_FILLERS = (
    "about all and any are been but can did does each for from get had has have her how into its "
    "not our out over she "
    "that the their them then there these they this those too use used uses using was were what "
    "when where which who "
    "why will with would you your"
)
_FILTERS = ("lang", "language", "path", "sym", "name", "index", "topic")
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ed", "ers", "er", "es", "s", "e")
_WORD = re.compile(r"\w+")
_LONGER_WORD = re.compile(r"\w{3,}")
_QUOTES = ('"""', "'''")
# Maximum number of characters between quotes on one line. Without a limit, each of many unclosed
# quotes would scan the rest of the line.
_LONGEST_TEXT = 500
_STEM = 4  # minimum length of a stem: `string` is not a form of `str`


def lines(code: str, language: str) -> list[list[tuple[str, str]]]:
    """Split `code` into lines of pieces (SGR code or "", text)."""
    rows: list[list[tuple[str, str]]] = [[]]
    for colour, text in _pieces(code, language):
        first, *more = text.split("\n")
        if first:
            rows[-1].append((colour, first))
        rows += [[(colour, line)] if line else [] for line in more]
    return rows


def term_pattern(query: str) -> re.Pattern[str] | None:
    """Compile a pattern for the terms of `query`: exact names, and words in all their forms.

    A word matches where a word, or a part of a camelCase name, begins.
    """
    words = sorted(set(_LONGER_WORD.findall(_remove_filters(query))), key=len, reverse=True)
    forms = [
        form for word in words if word.lower() not in _FILLERS.split() for form in _forms(word)
    ]
    return re.compile("|".join(forms)) if forms else None


def name_pattern(query: str) -> re.Pattern[str] | None:
    """Compile a pattern for the names in `query`: its only word, else words that look like names."""
    words = _WORD.findall(_remove_filters(query))
    names = (
        words
        if len(words) == 1
        else [w for w in words if "_" in w or not (w.islower() or w.istitle())]
    )
    return re.compile(rf"(?i)\b(?:{'|'.join(map(re.escape, names))})\b") if names else None


def _remove_filters(query: str) -> str:
    """Remove the filters from `query`."""
    parts = (
        part
        for part in query.split()
        if part.lstrip("-").partition(":")[0] not in _FILTERS or ":" not in part
    )
    return " ".join(parts)


def _forms(word: str) -> Iterator[str]:
    """Yield patterns for a word: `signed` matches sign, Signing and SIGNED, but not design.

    A name such as `shouldRetry` matches only itself, in any case.
    """
    if "_" in word or not (word.islower() or word.istitle()):
        yield f"(?i:{re.escape(word)})"
        return
    low = word.lower()
    ending = next((e for e in _ENDINGS if low.endswith(e) and len(low) - len(e) >= _STEM), "")
    stem = low.removesuffix(ending)
    tail = {"": "(?:e?s|ed|ing|e?r)?", "ies": "(?:y|ies|ied|ying)"}.get(ending, "[a-z]{0,5}")
    yield rf"(?:(?<![A-Za-z]){re.escape(stem)}|{re.escape(stem.capitalize())}){tail}(?![a-z])"
    yield rf"(?<![A-Z]){re.escape(stem.upper())}{tail.upper()}(?![A-Z])"


def _pieces(code: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield all pieces of `code` in order."""
    language = DIALECTS.get(language, language)
    if language in _NONE.split():
        yield "", code
        return
    keywords = _keywords(language)
    last = 0
    for kind, start, end in _tokens(code, language):
        if kind != "w" or code[start:end] in keywords:
            yield "", code[last:start]
            yield {"c": COMMENT, "s": STRING, "n": NUMBER, "w": KEYWORD}[kind], code[start:end]
            last = end
    yield "", code[last:]


def _tokens(code: str, language: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each token.

    An opening delimiter without a closing one is not a token, and later ones of its kind are
    ignored.
    """
    closers = _closers(language)
    openers = [opener for opener, closer in closers.items() if opener in code and closer in code]
    pattern = re.compile(_pattern(language, openers))
    position = 0
    while match := pattern.search(code, position):
        start, position = match.span()
        closer = closers.get(match["o"])
        if closer is None:
            yield match.lastgroup or "", start, position
            continue
        closing = code.find(closer, position)
        if closing < 0:
            openers.remove(match["o"])
            pattern = re.compile(_pattern(language, openers))
            position = start
        else:
            position = closing + len(closer)
            yield "s" if match["o"] in _QUOTES else "c", start, position


def _closers(language: str) -> dict[str, str]:
    """Map the opening marks of constructs that span lines to their closing marks."""
    _, _, pairs = MARKS.get(language, _C_LIKE)
    strings = {'"""': '"""'} if language in _LONG_STRINGS.split() else {}
    return dict(pairs) | strings


def _pattern(language: str, openers: Sequence[str]) -> str:
    """Build the regular expression for the tokens of a language.

    `openers` are the opening marks to look for. Groups: o opener, c comment, s string, w word, n
    number.
    """
    line_marks, leading_marks, _ = MARKS.get(language, _C_LIKE)
    comments = [rf"(?:(?<!\S)|(?<=[;)])){re.escape(mark)}.*" for mark in line_marks]
    comments += [rf"^[ \t]*+{re.escape(mark)}.*" for mark in leading_marks]
    repeat = f"{{0,{_LONGEST_TEXT}}}+"
    strings = rf'"(?:\\.|[^"\\\n]){repeat}"|`[^`\n]{repeat}`'
    strings += (
        r"|'(?:\\.|[^'\\\n])'"
        if language in _ONE_CHARACTER.split()
        else rf"|'(?:\\.|[^'\\\n]){repeat}'"
    )
    longest_first = sorted(openers, key=len, reverse=True)
    opening = "|".join(map(re.escape, longest_first)) or r"(?!)"
    comment = "|".join(comments) or r"(?!)"
    words = r"(?P<w>[^\W\d]\w*)|(?P<n>\d[\w.]*)"
    return rf"(?m)(?P<o>{opening})|(?P<c>{comment})|(?P<s>{strings})|{words}"


def _keywords(language: str) -> frozenset[str]:
    words = next((words for names, words in _WORDS.items() if language in names.split()), _LIKE_C)
    return frozenset(words.split()) | (
        frozenset(words.lower().split()) if language == "sql" else frozenset()
    )
