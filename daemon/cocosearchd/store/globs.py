"""Globs as regular expressions that PostgreSQL and Python read alike, and as matchers for Python.
Pure.

PostgreSQL's engine is an automaton: whether a text matches takes it linear time. Python's tries one
way after another, for hours where several stars share a name, so it has only expressions of which
that cannot come, or an automaton of ours. All raise `InvalidInput` of `[z-a]`, and of what is
longer than any path.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from cocosearchd.errors import InvalidInput
from cocosearchd.store.glob_automaton import GlobAutomaton, Step

Matcher = Callable[[str], object]  # true or false of a whole path or name

# Characters. PATH_MAX of <linux/limits.h> is 4096 bytes, which may be written as four characters
# each.
MAX_GLOB = 16_384

_SET = r"\[[!^]?\]?[^\]]*\]|"
_REST = r"\\.|\*\*/|\*+|\?|[^\\*?\[]+|."
_PART, _PART_BUT_SETS = re.compile(_SET + _REST, re.DOTALL), re.compile(_REST, re.DOTALL)

_MEMBER = re.compile(r"(.)-(.)|.", re.DOTALL)

_RUN = re.compile(r"[A-Za-z0-9_]+")

_BOUNDS = ".:#/"  # between the parts of a qualified name
_IN_PART = f"[^{_BOUNDS}]"

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "*?["})


def path_regex(glob: str) -> str:
    """A glob over relative paths, read as git reads one in an ignore file.

    Without a slash inside it names a file or directory anywhere, else it is anchored at the root;
    either way it covers all that lies below. `*` and `?` stay within one part of a path, `**` does
    not; a backslash takes the next character as it is.
    """
    body, tail, anchored = _parts_of_path(glob)
    return ("^" if anchored else "(^|/)") + _translate(body, star="[^/]*", one="[^/]") + tail


def path_matcher(globs: Sequence[str]) -> Matcher:
    """Whether any of the globs matches a path, as `path_regex` says it; in linear time."""
    regexes, automata = list[str](), list[Matcher]()
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


def _parts_of_path(glob: str) -> tuple[str, str, bool]:
    """What a glob says of a path, how that ends, and whether it begins at the root."""
    body, tail = glob.strip("/"), "/" if glob.endswith("/") else "(/|$)"
    if body.endswith("/**"):
        body, tail = body[:-3], "/"
    return body, tail, "/" in glob.rstrip("/")


def _linear_path_regex(glob: str) -> str | None:
    body, tail, anchored = _parts_of_path(glob)
    if not anchored and "**" in body:  # it can begin in any directory, which a star settles
        body, anchored = "**/" + body, True
    rule = _settled(body, inner="[^/]", bounds="/")
    return (
        None if rule is None else ("^" if anchored else "(?:^|/)") + rule + tail.replace("$", r"\Z")
    )


def _path_automaton(glob: str) -> Matcher:
    body, tail, anchored = _parts_of_path(glob)
    steps = (*(() if anchored else (Step("directories"),)), *_steps(body, inner="[^/]"))
    return GlobAutomaton(steps, goes_on="/", ends=tail != "/").matches


def exact_glob(path: str) -> str:
    """The glob that only a file of this very path matches (and what would lie below it)."""
    return "/" + path.translate(_SPECIAL)


def name_regex(glob: str) -> str:
    """A glob over a whole name; `*` matches anything."""
    return "^" + _translate(glob, ".*", ".") + "$"


def symbol_regex(glob: str) -> str:
    """A glob over a whole qualified name, or over its last parts, in which `*` stays within one
    part.

    So `get_*` finds `Users.get_one` and not `Users.get_all.inner`.
    """
    return f"{name_regex(glob)}|[{_BOUNDS}]" + _translate(glob, f"{_IN_PART}*", _IN_PART) + "$"


def symbol_matcher(glob: str, *, cased: bool = False) -> Matcher:
    """Whether a glob matches a qualified name, as `symbol_regex` says it; in linear time."""
    flags = re.DOTALL | (0 if cased else re.IGNORECASE)
    whole = _settled(glob, inner=None, bounds="")
    # Parts begin in many places: from each a star that takes anything would go through the rest.
    parts = None if "**" in glob else _settled(glob, inner=_IN_PART, bounds=_BOUNDS)
    if whole is not None and parts is not None:
        return re.compile(rf"^{whole}\Z|[{_BOUNDS}]{parts}\Z", flags).search
    behind = (Step("anything"), Step("one", f"[{_BOUNDS}]"), *_steps(glob, inner=_IN_PART))
    automata = [
        GlobAutomaton(_steps(glob, inner=None), flags=flags),
        GlobAutomaton(behind, flags=flags),
    ]
    return lambda name: any(automaton.matches(name) for automaton in automata)


def longest_literal(glob: str) -> str:
    """The longest run of ASCII letters, digits and underscores that is in all that matches a glob,
    in some case; or "".

    >>> spelled_out("Users.get_*"), spelled_out("[ab]?*")
    ('Users', '')
    """
    pieces = (part for part in _parts(glob) if part[0] not in "*?[\\")
    return max((run for piece in pieces for run in _RUN.findall(piece)), key=len, default="")


def _translate(glob: str, star: str, one: str) -> str:
    return "".join(_piece(part, star, one) for part in _parts(glob))


def _parts(glob: str) -> list[str]:
    """The stars, sets and texts of a glob. Behind the last `]` no set is looked for: each `[` would
    cost the rest.
    """
    _check_length(glob)
    end = glob.rfind("]") + 1
    return _PART.findall(glob, 0, end) + _PART_BUT_SETS.findall(glob, end)


def _check_length(glob: str) -> None:
    if len(glob) > MAX_GLOB:
        message = f"a pattern of this filter has {len(glob)} characters, and no path is that long"
        raise InvalidInput(message, f"give at most {MAX_GLOB}")


def _settled(glob: str, inner: str | None, bounds: str) -> str | None:
    """As `_translate`, but what a star has taken when the text after it is found is not given back:
    `(?>...)`.

    The first place of that text serves as well as any later one if a star follows that can take
    what lies between. A star of `inner` characters, which are none of `bounds`, settles with the
    text after it; one that takes anything, with all up to the next of its kind, as what lies
    between may have bounds. `inner` None: every star takes anything. None if a star that others
    follow does not settle, or if the last one that takes anything tries places that are no starts
    of a directory, with a star of `inner` characters behind it: each of that would multiply the
    time.
    """
    done = group = fixed = ""  # from the next wide star on, before that, before any star
    following, settles, has_inner = "", False, False  # the star after `fixed`; of the group
    crosses = False  # whether a set in `fixed` takes what a star in a part does not
    pieces = _parts(glob)
    for place, piece in reversed(list(enumerate(pieces))):
        if piece[0] != "*":
            text = _piece(piece, "", inner or ".")
            crosses = crosses or (text[0] == "[" and any(re.match(text, bound) for bound in bounds))
            fixed = text + fixed
            continue
        # What `**/` takes ends with a slash.
        free = bool(following) and (following != "**/" or (fixed or piece).endswith("/"))
        settles = settles if group else free
        if inner is not None and piece == "*":
            sure = free and not crosses
            if following and not sure:
                return None
            group = (f"(?>{inner}*?{fixed})" if sure else f"{inner}*{fixed}") + group
            has_inner = True
        else:
            aligned = piece == "**/" and (place == 0 or pieces[place - 1].endswith("/"))
            if (done and not settles) or (has_inner and not aligned):
                return None
            group = ("(?:.*?/)??" if piece == "**/" else ".*?") + fixed + group
            done, group = (f"(?>{group})" if settles else group) + done, ""
            has_inner = False
        following, fixed, crosses = piece, "", False
    return fixed + group + done


def _steps(glob: str, inner: str | None) -> Iterator[Step]:
    """A glob as steps of an automaton, each of one character but for stars."""
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


def _piece(text: str, star: str, one: str) -> str:
    if text == "**/":
        return "(.*/)?"
    if text[0] == "*":
        return ".*" if len(text) > 1 else star
    if text == "?":
        return one
    if text[0] == "[" and len(text) > 2:
        negated = text[1] in "!^"
        inside = _MEMBER.sub(_member, text[2 if negated else 1 : -1])
        return f"[{'^/' if negated else ''}{inside}]" if inside else _literal(text)
    if text[0] == "\\" and len(text) == 2:
        return _literal(text[1])
    return _literal(text)


def _member(found: re.Match[str]) -> str:
    """One character of a class, or a range of them, which has to ascend for both who read it."""
    if found[2] and found[1] > found[2]:
        raise InvalidInput(
            f"a pattern of this filter has the range {found[0]!r}", "ranges ascend, as in [a-z]"
        )
    return "-".join(map(_escaped, found.groups())) if found[2] else _escaped(found[0])


def _escaped(character: str) -> str:
    # Two of `-&~|` in a row are to mean sets of sets in a Python to come, and this one warns of
    # them.
    return "\\" + character if character in "\\[]-&~|" else character


def _literal(text: str) -> str:
    # A backslash in a file's name stands doubled in a stored path, see `model.encode_path`.
    return re.sub(r"[^\w/ -]", lambda found: r"\\\\" if found[0] == "\\" else "\\" + found[0], text)
