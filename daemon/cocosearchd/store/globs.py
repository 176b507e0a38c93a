"""Globs as regular expressions that PostgreSQL and Python read alike. Pure. All raise `InvalidInput` of `[z-a]`."""

import re

from cocosearchd.errors import InvalidInput

_PART = re.compile(r"\\.|\*\*/|\*+|\?|\[[!^]?\]?[^\]]*\]|[^\\*?\[]+|.", re.DOTALL)

_MEMBER = re.compile(r"(.)-(.)|.", re.DOTALL)

_RUN = re.compile(r"[A-Za-z0-9_]+")

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "*?["})


def path_regex(glob: str) -> str:
    """A glob over relative paths, read as git reads one in an ignore file.

    Without a slash inside it names a file or directory anywhere, else it is anchored at the root; either way it covers
    all that lies below. `*` and `?` stay within one part of a path, `**` does not; a backslash takes the next character
    as it is.
    """
    body = glob.strip("/")
    anchored = "/" in glob.rstrip("/")
    tail = "/" if glob.endswith("/") else "(/|$)"
    if body.endswith("/**"):
        body, tail = body[:-3], "/"
    return ("^" if anchored else "(^|/)") + _translate(body, "[^/]*", "[^/]") + tail


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


def spelled_out(glob: str) -> str:
    """The longest run of ASCII letters, digits and underscores that is in all that matches a glob, in some case; or "".

    >>> spelled_out("Users.get_*"), spelled_out("[ab]?*")
    ('Users', '')
    """
    pieces = (found[0] for found in _PART.finditer(glob) if found[0][0] not in "*?[\\")
    return max((run for piece in pieces for run in _RUN.findall(piece)), key=len, default="")


def _translate(glob: str, star: str, one: str) -> str:
    return "".join(_piece(found[0], star, one) for found in _PART.finditer(glob))


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
