"""Lists of ignore patterns with git's meaning of them. Pure: bytes in, a decision out.

The rules are those of gitignore(5), with the details of git's `dir.c` and `wildmatch.c`: the last pattern that matches
decides, `!` keeps, a trailing `/` matches directories only, a pattern without other slashes matches names at any depth.
Tests compare every decision with `git check-ignore`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"
_SPECIAL = re.compile(rb"[*?\[\\]")
# wildmatch.c: POSIX classes over ASCII.
_CLASSES = {
    b"alnum": rb"a-zA-Z0-9",
    b"alpha": rb"a-zA-Z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t\n\r\f\v",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9a-fA-F",
}
_NEVER = rb"(?!)"


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring patterns that decide alike, so that their order does not matter. Directories end in `/` here."""

    ignored: bool
    names: frozenset[bytes]  # whole names without wildcards, the common case
    name: re.Pattern[bytes] | None  # against the last part
    path: re.Pattern[bytes] | None  # against the whole relative path


@dataclass(frozen=True, slots=True)
class Patterns:
    """The patterns of one ignore file, in effect below its directory."""

    groups: tuple[_Group, ...]  # last one first

    def ignores(self, path: bytes, name: bytes) -> bool | None:
        """Whether these patterns ignore (True) or keep (False) a path; None if they do not speak of it.

        `path` is relative to the directory of the file; `name` is its last part; both end in `/` for a directory.
        """
        for group in self.groups:
            if (
                name in group.names
                or (group.name is not None and group.name.match(name))
                or (group.path is not None and group.path.match(path))
            ):
                return group.ignored
        return None


EMPTY = Patterns(())


def parse(text: bytes, *, ignore_case: bool = False) -> Patterns:
    """The patterns of an ignore file with this content."""
    runs: list[tuple[bool, list[bytes]]] = []
    for line in _lines(text):
        ignored = not line.startswith(b"!")
        if not runs or runs[-1][0] != ignored:
            runs.append((ignored, []))
        runs[-1][1].append(line if ignored else line[1:])
    return Patterns(tuple(_group(ignored, lines, ignore_case) for ignored, lines in reversed(runs)))


def deciding(text: bytes, path: bytes, name: bytes) -> tuple[int, bytes] | None:
    """Number (from 1) and text of the line of an ignore file that decides on a path; None if none speaks of it."""
    found = None
    for number, line in enumerate(text.removeprefix(_BOM).split(b"\n"), 1):
        if parse(line).ignores(path, name) is not None:
            found = number, line.strip()
    return found


def _lines(text: bytes) -> Iterator[bytes]:
    for raw in text.removeprefix(_BOM).split(b"\n"):
        line = _without_trailing_spaces(raw.removesuffix(b"\r").partition(b"\0")[0])
        if line and not line.startswith(b"#"):
            yield line


def _without_trailing_spaces(line: bytes) -> bytes:
    kept = at = 0  # spaces behind `kept` are trailing so far
    while at < len(line):
        if line[at : at + 1] == b"\\":
            if at + 1 == len(line):
                return line
            at += 2
            kept = at
            continue
        at += 1
        if line[at - 1 : at] != b" ":
            kept = at
    return line[:kept]


def _group(ignored: bool, lines: Iterable[bytes], ignore_case: bool) -> _Group:
    names, name_rules, path_rules = set[bytes](), list[bytes](), list[bytes]()
    for line in lines:
        directory = line.endswith(b"/")
        pattern = line[:-1] if directory else line
        # What a rule matches never ends in the `/` that marks a directory.
        tail = rb"(?<!/)/" if directory else rb"(?<!/)/?"
        if b"/" in pattern:
            path_rules.append(_path_rule(pattern.removeprefix(b"/")) + tail)
        elif _SPECIAL.search(pattern) or ignore_case:
            name_rules.append(_translate(pattern, slashes=True) + tail)
        elif pattern:
            names |= {pattern + b"/"} if directory else {pattern, pattern + b"/"}
    return _Group(ignored, frozenset(names), _any(name_rules, ignore_case), _any(path_rules, ignore_case))


def _any(rules: list[bytes], ignore_case: bool) -> re.Pattern[bytes] | None:
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    return re.compile(b"(?:" + b"|".join(rules) + rb")\Z", flags) if rules else None


def _path_rule(pattern: bytes) -> bytes:
    # git compares what precedes the first wildcard literally and starts wildmatch behind it: `a**/b` is `a`, `**/b`.
    special = _SPECIAL.search(pattern)
    split = special.start() if special else len(pattern)
    return re.escape(pattern[:split]) + _translate(pattern[split:], slashes=False)


def _translate(pattern: bytes, *, slashes: bool) -> bytes:
    """A regular expression for a wildmatch pattern; with `slashes` wildcards match `/` too (names hold none)."""
    out, at = list[bytes](), 0
    one = rb"." if slashes else rb"[^/]"
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            rule, at = _stars(pattern, at, one)
        elif char == b"[":
            found = _bracket(pattern, at + 1)
            if found is None:
                return _NEVER
            rule, at = found
        elif char == b"\\":
            if at + 1 == len(pattern):
                return _NEVER
            rule, at = re.escape(pattern[at + 1 : at + 2]), at + 2
        else:
            rule, at = one if char == b"?" else re.escape(char), at + 1
        out.append(rule)
    return b"".join(out)


def _stars(pattern: bytes, at: int, one: bytes) -> tuple[bytes, int]:
    end = at
    while pattern[end : end + 1] == b"*":
        end += 1
    after = pattern[end : end + 2]
    bounded = (at == 0 or pattern[at - 1 : at] == b"/") and (after[:1] in (b"", b"/") or after == rb"\/")
    if end - at == 1 or not bounded:
        return one + b"*", end
    if after[:1] == b"/":
        return rb"(?:.*/)?", end + 1
    return rb".*", end


def _bracket(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """The set whose `[` is before `at`, and where it ends; None if it is never closed, which matches nothing."""
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    members, previous, first = list[bytes](), b"", True
    while first or pattern[at : at + 1] != b"]":
        char = pattern[at : at + 1]
        following = pattern[at + 1 : at + 2]
        if not char:
            return None
        if char == b"-" and previous and following not in (b"", b"]"):
            at += 1
            upper, at = _member(pattern, at)
            if not upper:
                return None
            members.append(_range(previous, upper))
            previous = b""
        elif char == b"[" and following == b":" and (close := pattern.find(b"]", at + 2)) >= 0:
            if pattern[close - 1 : close] == b":" and close - 1 >= at + 2:
                name = pattern[at + 2 : close - 1]
                if name not in _CLASSES:
                    return None
                members.append(_CLASSES[name])
                previous, at = b"", close + 1
            else:
                members.append(re.escape(char))  # not closed by `:]`, so a plain `[`
                at += 1
        else:
            previous, at = _member(pattern, at)
            if not previous:
                return None
            members.append(re.escape(previous))
        first = False
    body = b"".join(members)
    inside = (b"[^" if negated else b"[") + body + b"]" if body else (b"." if negated else _NEVER)
    return b"(?!/)" + inside, at + 1


def _member(pattern: bytes, at: int) -> tuple[bytes, int]:
    if pattern[at : at + 1] == b"\\":
        at += 1
    return pattern[at : at + 1], at + 1


def _range(low: bytes, high: bytes) -> bytes:
    return re.escape(low) + b"-" + re.escape(high) if low <= high else b""
