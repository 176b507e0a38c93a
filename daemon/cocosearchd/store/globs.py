"""Globs as regular expressions that PostgreSQL and Python read alike; for Python also as such that end soon. Pure.

All raise `InvalidInput` of `[z-a]`, and of what is longer than any path.
"""

import re
from collections.abc import Callable
from functools import partial

from cocosearchd.errors import InvalidInput

# Characters. PATH_MAX of <linux/limits.h> is 4096 bytes, which may be written as four characters each.
MAX_GLOB = 16_384

_SET = r"\[[!^]?\]?[^\]]*\]|"
_REST = r"\\.|\*\*/|\*+|\?|[^\\*?\[]+|."
_PART, _PART_BUT_SETS = re.compile(_SET + _REST, re.DOTALL), re.compile(_REST, re.DOTALL)

_MEMBER = re.compile(r"(.)-(.)|.", re.DOTALL)

_RUN = re.compile(r"[A-Za-z0-9_]+")

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "*?["})


def path_regex(glob: str) -> str:
    """A glob over relative paths, read as git reads one in an ignore file.

    Without a slash inside it names a file or directory anywhere, else it is anchored at the root; either way it covers
    all that lies below. `*` and `?` stay within one part of a path, `**` does not; a backslash takes the next character
    as it is.
    """
    return _path(glob, partial(_translate, star="[^/]*", one="[^/]"))


def path_pattern(glob: str) -> str:
    """The same for Python alone, whose `re` would try every way in which several stars share a name, for hours."""
    return _path(glob, partial(_settling, inner="[^/]", one="[^/]", bounds="/"))


def _path(glob: str, translate: Callable[[str], str]) -> str:
    body = glob.strip("/")
    anchored = "/" in glob.rstrip("/")
    tail = "/" if glob.endswith("/") else "(/|$)"
    if body.endswith("/**"):
        body, tail = body[:-3], "/"
    return ("^" if anchored else "(^|/)") + translate(body) + tail


def exact_glob(path: str) -> str:
    """The glob that only a file of this very path matches (and what would lie below it)."""
    return "/" + path.translate(_SPECIAL)


def name_regex(glob: str) -> str:
    """A glob over a whole name; `*` matches anything."""
    return "^" + _translate(glob, ".*", ".") + "$"


def symbol_regex(glob: str) -> str:
    """A glob over a whole qualified name, or over its last parts, in which `*` stays within one part.

    So `get_*` finds `Users.get_one` and not `Users.get_all.inner`.
    """
    return f"{name_regex(glob)}|[.:#/]" + _translate(glob, "[^.:#/]*", "[^.:#/]") + "$"


def symbol_pattern(glob: str) -> str:
    """The same for Python alone; see `path_pattern`."""
    parts = _settling(glob, inner="[^.:#/]", one="[^.:#/]", bounds=".:#/")
    return "^" + _settling(glob, inner=None, one=".", bounds="") + f"$|[.:#/]{parts}$"


def spelled_out(glob: str) -> str:
    """The longest run of ASCII letters, digits and underscores that is in all that matches a glob, in some case; or "".

    >>> spelled_out("Users.get_*"), spelled_out("[ab]?*")
    ('Users', '')
    """
    pieces = (part for part in _parts(glob) if part[0] not in "*?[\\")
    return max((run for piece in pieces for run in _RUN.findall(piece)), key=len, default="")


def _translate(glob: str, star: str, one: str) -> str:
    return "".join(_piece(part, star, one) for part in _parts(glob))


def _parts(glob: str) -> list[str]:
    """The stars, sets and texts of a glob. Behind the last `]` no set is looked for: each `[` would cost the rest."""
    if len(glob) > MAX_GLOB:
        message = f"a pattern of this filter has {len(glob)} characters, and no path is that long"
        raise InvalidInput(message, f"give at most {MAX_GLOB}")
    end = glob.rfind("]") + 1
    return _PART.findall(glob, 0, end) + _PART_BUT_SETS.findall(glob, end)


def _settling(glob: str, inner: str | None, one: str, bounds: str) -> str:
    """As `_translate`, but what a star has taken when the text after it is found is not given back: `(?>...)`.

    The first place of that text serves as well as any later one if a star follows that can take what lies between. A
    star of `inner` characters, which are none of `bounds`, settles with the text after it; one that takes anything,
    with all up to the next of its kind, as what lies between may have bounds. `inner` None: every star takes anything.
    """
    done = group = fixed = ""  # from the next wide star on, before that, before any star
    crosses = False  # whether a set in `fixed` takes what a star in a part does not
    following, settles = "", False  # the star after `fixed`, and whether the group does
    for piece in reversed(_parts(glob)):
        if piece[0] != "*":
            text = _piece(piece, "", one)
            crosses = crosses or (text[0] == "[" and any(re.match(text, bound) for bound in bounds))
            fixed = text + fixed
            continue
        # What `**/` takes ends with a slash.
        free = bool(following) and (following != "**/" or (fixed or piece).endswith("/"))
        settles = settles if group else free
        if inner is not None and piece == "*":
            sure = free and not crosses
            settles = settles and sure
            group = (f"(?>{inner}*?{fixed})" if sure else f"{inner}*{fixed}") + group
        else:
            group = ("(?:.*?/)??" if piece == "**/" else ".*?") + fixed + group
            done, group = (f"(?>{group})" if settles else group) + done, ""
        following, fixed, crosses = piece, "", False
    return fixed + group + done


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
        raise InvalidInput(f"a pattern of this filter has the range {found[0]!r}", "ranges ascend, as in [a-z]")
    return "-".join(map(_escaped, found.groups())) if found[2] else _escaped(found[0])


def _escaped(character: str) -> str:
    # Two of `-&~|` in a row are to mean sets of sets in a Python to come, and this one warns of them.
    return "\\" + character if character in "\\[]-&~|" else character


def _literal(text: str) -> str:
    # A backslash in a file's name stands doubled in a stored path, see `model.encode_path`.
    return re.sub(r"[^\w/ -]", lambda found: r"\\\\" if found[0] == "\\" else "\\" + found[0], text)
