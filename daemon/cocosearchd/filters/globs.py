"""Translates globs into regular expressions for PostgreSQL and Python, and into matchers. Pure.

PostgreSQL's engine is an automaton that matches in linear time. Python's engine backtracks, which
takes hours if a name has several stars. So Python gets an expression that cannot backtrack, or else
a `GlobAutomaton`. All functions raise `InvalidInput` for ranges such as `[z-a]`, and for globs
longer than any path.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from cocosearchd.errors import InvalidInput
from cocosearchd.filters.glob_automaton import GlobAutomaton, Step

Matcher = Callable[[str], object]  # truthy if a whole path or name matches

# In characters. PATH_MAX of <linux/limits.h> is 4096 bytes, and a byte takes up to four characters.
MAX_GLOB = 16_384

_SET = r"\[[!^]?\]?[^\]]*\]|"
_REST = r"\\.|\*\*/|\*+|\?|[^\\*?\[]+|."
_PART = re.compile(_SET + _REST, re.DOTALL)
_PART_WITHOUT_SETS = re.compile(_REST, re.DOTALL)

_MEMBER = re.compile(r"(.)-(.)|.", re.DOTALL)

_RUN = re.compile(r"[A-Za-z0-9_]+")

BOUNDS = ".:#/"  # between the parts of a qualified name
_IN_PART = f"[^{BOUNDS}]"

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "*?["})


def path_regex(glob: str) -> str:
    """Translate a glob over relative paths, with the meaning of git's ignore files.

    A glob without a slash, except at its end, names a file or directory anywhere. Other globs are
    anchored at the root. Both cover everything below what they name. `*` and `?` match within one
    part of a path, `**` matches across parts. A backslash makes the next character literal.
    """
    body, tail, anchored = _split_path_glob(glob)
    return ("^" if anchored else "(^|/)") + _translate(body, star="[^/]*", single="[^/]") + tail


def path_matcher(globs: Sequence[str]) -> Matcher:
    """Return a matcher for paths that match one of the globs, as by `path_regex`, in linear time."""
    regexes = list[str]()
    automata = list[Matcher]()
    for glob in globs:
        _check_length(glob)
        regex = _linear_path_regex(glob)
        if regex is None:
            automata.append(_path_automaton(glob))
        else:
            regexes.append(regex)
    search = (
        re.compile("|".join(f"(?:{regex})" for regex in regexes), re.DOTALL).search
        if regexes
        else None
    )
    if not automata and search is not None:
        return search
    return lambda path: (
        (search is not None and search(path) is not None) or any(match(path) for match in automata)
    )


def _split_path_glob(glob: str) -> tuple[str, str, bool]:
    """Return a glob's body, a regex for its end, and True if it is anchored at the root."""
    body = glob.strip("/")
    tail = "/" if glob.endswith("/") else "(/|$)"
    if body.endswith("/**"):
        body = body[:-3]
        tail = "/"
    return body, tail, "/" in glob.rstrip("/")


def _linear_path_regex(glob: str) -> str | None:
    body, tail, anchored = _split_path_glob(glob)
    # The match may begin in any directory, which `**/` expresses.
    if not anchored and "**" in body:
        body = "**/" + body
        anchored = True
    rule = _atomic_regex(body, inner="[^/]", bounds="/")
    return (
        None if rule is None else ("^" if anchored else "(?:^|/)") + rule + tail.replace("$", r"\Z")
    )


def _path_automaton(glob: str) -> Matcher:
    body, tail, anchored = _split_path_glob(glob)
    steps = (*(() if anchored else (Step("directories"),)), *_steps(body, inner="[^/]"))
    return GlobAutomaton(steps, continuation="/", may_end=tail != "/").matches


def exact_glob(path: str) -> str:
    """Return the glob that matches only this path, and any path below it."""
    return "/" + path.translate(_SPECIAL)


def name_regex(glob: str) -> str:
    """Translate a glob over a whole name; `*` matches anything."""
    return "^" + _translate(glob, ".*", ".") + "$"


def symbol_regex(glob: str) -> str:
    """Translate a glob over a whole qualified name, or over its last parts.

    In the last parts `*` matches within one part, so `get_*` finds `Users.get_one` but not
    `Users.get_all.inner`.
    """
    return f"{name_regex(glob)}|[{BOUNDS}]" + _translate(glob, f"{_IN_PART}*", _IN_PART) + "$"


def symbol_matcher(glob: str, *, cased: bool = False) -> Matcher:
    """Return a matcher for qualified names by a glob, as by `symbol_regex`, in linear time."""
    flags = re.DOTALL | (0 if cased else re.IGNORECASE)
    name = _atomic_regex(glob, inner=None, bounds="")
    # Parts begin at many positions. From each of them a `**` would scan the rest of the name.
    parts = None if "**" in glob else _atomic_regex(glob, inner=_IN_PART, bounds=BOUNDS)
    if name is not None and parts is not None:
        return re.compile(rf"^{name}\Z|[{BOUNDS}]{parts}\Z", flags).search
    last_parts = (Step("anything"), Step("one", f"[{BOUNDS}]"), *_steps(glob, inner=_IN_PART))
    automata = [
        GlobAutomaton(_steps(glob, inner=None), flags=flags),
        GlobAutomaton(last_parts, flags=flags),
    ]
    return lambda text: any(automaton.matches(text) for automaton in automata)


def longest_literal(glob: str) -> str:
    """Find the longest run of ASCII letters, digits and underscores in every match, or "".

    A match may contain the run in another case.

    >>> longest_literal("Users.get_*"), longest_literal("[ab]?*")
    ('Users', '')
    """
    pieces = (part for part in _parts(glob) if part[0] not in "*?[\\")
    return max((run for piece in pieces for run in _RUN.findall(piece)), key=len, default="")


def _translate(glob: str, star: str, single: str) -> str:
    return "".join(_piece(part, star, single) for part in _parts(glob))


def _parts(glob: str) -> list[str]:
    """Split a glob into stars, sets and texts.

    After the last `]` there can be no set. A search for sets there would scan the rest of the glob
    from each `[`.
    """
    _check_length(glob)
    end = glob.rfind("]") + 1
    return _PART.findall(glob, 0, end) + _PART_WITHOUT_SETS.findall(glob, end)


def _check_length(glob: str) -> None:
    if len(glob) > MAX_GLOB:
        message = f"a pattern of this filter has {len(glob)} characters, and no path is that long"
        raise InvalidInput(message, f"give at most {MAX_GLOB}")


def _atomic_regex(glob: str, inner: str | None, bounds: str) -> str | None:
    """Translate like `_translate`, but with stars in atomic groups `(?>...)`.

    An atomic group never backtracks. Suppose that a fixed text follows a star, and another star
    follows that text. Then the star may stop at the first occurrence of the text, if the next star
    can match everything up to a later occurrence. Two kinds of stars exist. A star of `inner`
    characters, none of which is in `bounds`, forms an atomic group with the text after it. A star
    that matches anything forms an atomic group with everything up to the next star of its kind,
    since the match may contain bounds. If `inner` is None, every star matches anything.

    Returns None in two cases, since backtracking would multiply the time. Either a star before
    other stars cannot be atomic. Or the last star that matches anything has a star of `inner`
    characters after it, and also tries positions at which no directory starts.
    """
    # The loop builds the regex from the end of the glob. `done` begins at a star that matches
    # anything. `group` stands before `done`. `fixed` is the text before the first star of `group`.
    done = group = fixed = ""
    next_star = ""  # the star after `fixed`
    group_atomic = False
    has_inner = False  # `group` has a star of `inner` characters
    crosses = False  # a set in `fixed` matches characters that a star of `inner` does not
    pieces = _parts(glob)
    for index, piece in reversed(list(enumerate(pieces))):
        if piece[0] != "*":
            text = _piece(piece, "", inner or ".")
            crosses = crosses or (text[0] == "[" and any(re.match(text, bound) for bound in bounds))
            fixed = text + fixed
            continue
        # The match of `**/` ends with a slash.
        free = bool(next_star) and (next_star != "**/" or (fixed or piece).endswith("/"))
        group_atomic = group_atomic if group else free
        if inner is not None and piece == "*":
            atomic = free and not crosses
            if next_star and not atomic:
                return None
            group = (f"(?>{inner}*?{fixed})" if atomic else f"{inner}*{fixed}") + group
            has_inner = True
        else:
            aligned = piece == "**/" and (index == 0 or pieces[index - 1].endswith("/"))
            if (done and not group_atomic) or (has_inner and not aligned):
                return None
            group = ("(?:.*?/)??" if piece == "**/" else ".*?") + fixed + group
            done = (f"(?>{group})" if group_atomic else group) + done
            group = ""
            has_inner = False
        next_star = piece
        fixed = ""
        crosses = False
    return fixed + group + done


def _steps(glob: str, inner: str | None) -> Iterator[Step]:
    """Translate a glob into steps of an automaton. Each step is one character or a star."""
    for piece in _parts(glob):
        if piece == "**/":
            yield Step("directories")
        elif piece[0] == "*":
            yield Step("several", inner) if inner is not None and piece == "*" else Step("anything")
        elif piece == "?" or _is_class(piece):
            yield Step("one", _piece(piece, "", inner or "."))
        else:
            text = piece[1] if piece[0] == "\\" and len(piece) == 2 else piece
            yield from (
                Step("one", re.escape(character)) for character in text.replace("\\", "\\\\")
            )


def _is_class(piece: str) -> bool:
    return (
        piece[0] == "["
        and len(piece) > 2
        and bool(piece[2:-1] if piece[1] in "!^" else piece[1:-1])
    )


def _piece(text: str, star: str, single: str) -> str:
    if text == "**/":
        return "(.*/)?"
    if text[0] == "*":
        return ".*" if len(text) > 1 else star
    if text == "?":
        return single
    if text[0] == "[" and len(text) > 2:
        negated = text[1] in "!^"
        inside = _MEMBER.sub(_member, text[2 if negated else 1 : -1])
        return f"[{'^/' if negated else ''}{inside}]" if inside else _literal(text)
    if text[0] == "\\" and len(text) == 2:
        return _literal(text[1])
    return _literal(text)


def _member(match: re.Match[str]) -> str:
    """Translate one character of a set, or a range.

    Both engines require that a range ascends.
    """
    if match[2] and match[1] > match[2]:
        raise InvalidInput(
            f"a pattern of this filter has the range {match[0]!r}", "ranges ascend, as in [a-z]"
        )
    return (
        "-".join(map(_escape_in_class, match.groups())) if match[2] else _escape_in_class(match[0])
    )


def _escape_in_class(character: str) -> str:
    # Python warns of two characters of `-&~|` in a row, since a future version may read them as set
    # operations.
    return "\\" + character if character in "\\[]-&~|" else character


def _literal(text: str) -> str:
    # A stored path contains two backslashes for one in a file's name, see `path_forms.path_text`.
    return re.sub(r"[^\w/ -]", lambda match: r"\\\\" if match[0] == "\\" else "\\" + match[0], text)
