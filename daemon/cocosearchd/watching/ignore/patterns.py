"""Lists of ignore patterns with git's meaning of them. Pure: bytes in, a decision out.

The rules are those of gitignore(5), with the details of git's `dir.c` and `wildmatch.c`: the last
pattern that matches decides, `!` keeps, a trailing `/` matches directories only, a pattern without
other slashes matches names at any depth. Tests compare every decision with `git check-ignore`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
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
_Test = Callable[[bytes], object]  # true or false of a name or path


# Bounds on what has a wildcard; whole names and paths are looked up, however many there are. Of
# 4,000 public ignore files in use none comes near: the longest have some 2,000 lines. Paths have at
# most 4,096 bytes, names 255.
MAX_WILDCARD_BYTES, MAX_WILDCARDS = 1024, 4096
MAX_WILDCARDS_BYTES = 128 << 10  # of all of them together: the worst cost one path 0.13 s
# Bytes of rules in one regular expression: it runs without letting other threads run.
_CHUNK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring patterns that decide alike, so that their order does not matter. Directories end
    in `/` here.
    """

    ignored: bool
    names: frozenset[bytes]  # whole names without wildcards, the common case
    paths: frozenset[bytes]  # whole relative paths without wildcards
    matches_name: _Test | None  # the last part
    matches_path: _Test | None  # the whole relative path


@dataclass(frozen=True, slots=True)
class Patterns:
    """The patterns of one ignore file, in effect below its directory.

    `omitted` counts those that are not used because they are too long, or come after too many.
    """

    groups: tuple[_Group, ...]  # last one first
    omitted: int = 0

    def ignores(self, path: bytes, name: bytes) -> bool | None:
        """Whether these patterns ignore (True) or keep (False) a path; None if they do not speak of
        it.

        `path` is relative to the directory of the file; `name` is its last part; both end in `/`
        for a directory.
        """
        for group in self.groups:
            if (
                name in group.names
                or (group.matches_name is not None and group.matches_name(name))
                or (group.paths and path in group.paths)
                or (group.matches_path is not None and group.matches_path(path))
            ):
                return group.ignored
        return None


EMPTY = Patterns(())


def parse(text: bytes, *, ignore_case: bool = False) -> Patterns:
    """The patterns of an ignore file with this content."""
    runs: list[tuple[bool, list[bytes]]] = []
    wildcards = size = omitted = 0
    for line in _lines(text):
        if _SPECIAL.search(line):
            wildcards += 1
            size += len(line)
            if (
                wildcards > MAX_WILDCARDS
                or len(line) > MAX_WILDCARD_BYTES
                or size > MAX_WILDCARDS_BYTES
            ):
                omitted += 1
                continue
        ignored = not line.startswith(b"!")
        if not runs or runs[-1][0] != ignored:
            runs.append((ignored, []))
        runs[-1][1].append(line if ignored else line[1:])
    return Patterns(
        tuple(_group(ignored, lines, ignore_case) for ignored, lines in reversed(runs)), omitted
    )


def deciding(text: bytes, path: bytes, name: bytes) -> tuple[int, bytes] | None:
    """Number (from 1) and text of the line of an ignore file that decides on a path; None if none
    speaks of it.
    """
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
    if not line.endswith(b" "):
        return line
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
    names, paths = set[bytes](), set[bytes]()
    name_rules, path_rules = list[bytes](), list[bytes]()
    for line in lines:
        directory = line.endswith(b"/")
        pattern = line[:-1] if directory else line
        in_names = b"/" not in pattern
        literals, rules = (names, name_rules) if in_names else (paths, path_rules)
        if _SPECIAL.search(pattern):
            # What a rule matches never ends in the `/` that marks a directory.
            tail = rb"(?<!/)/" if directory else rb"(?<!/)/?"
            one = rb"." if in_names else rb"[^/]"
            rules.append(_rule(pattern.removeprefix(b"/"), one, ignore_case) + tail)
        elif pattern:
            whole = pattern.removeprefix(b"/")
            literals |= {whole + b"/"} if directory else {whole, whole + b"/"}
    if ignore_case:
        tests = _test(name_rules, folded=names), _test(path_rules, folded=paths)
        return _Group(ignored, frozenset(), frozenset(), *tests)
    return _Group(ignored, frozenset(names), frozenset(paths), _test(name_rules), _test(path_rules))


def _test(rules: Iterable[bytes], folded: Iterable[bytes] | None = None) -> _Test | None:
    """Whether one of the rules matches; with `folded`, in any case, or is one of these; None if
    there are none.
    """
    flags = re.DOTALL | (re.IGNORECASE if folded is not None else 0)
    tests: list[_Test] = [re.compile(chunk, flags).match for chunk in _chunks(rules)]
    if folded:
        literals = frozenset(literal.lower() for literal in folded)
        tests.append(lambda text: text.lower() in literals)
    if len(tests) > 1:
        return lambda text: any(test(text) for test in tests)
    return tests[0] if tests else None


def _chunks(rules: Iterable[bytes]) -> Iterator[bytes]:
    """Regular expressions that match what one of the rules does, none of them long."""
    chunk, size = list[bytes](), 0
    for rule in rules:
        if chunk and size + len(rule) > _CHUNK_BYTES:
            yield b"(?:" + b"|".join(chunk) + rb")\Z"
            chunk, size = [], 0
        chunk.append(rule)
        size += len(rule)
    if chunk:
        yield b"(?:" + b"|".join(chunk) + rb")\Z"


def _rule(pattern: bytes, one: bytes, ignore_case: bool) -> bytes:
    """A regular expression for a pattern, without the mark of a directory; it takes linear time,
    see `_joined`.

    `one` matches one byte of a name: anything where there is nothing but a name, as that is faster.
    """
    # git compares what precedes the first wildcard literally and starts wildmatch behind it:
    # `a**/b` is `a`, `**/b`.
    special = _SPECIAL.search(pattern)
    split = special.start() if special else len(pattern)
    pieces = _pieces(pattern[split:], one, ignore_case)
    return _NEVER if pieces is None else re.escape(pattern[:split]) + _joined(pieces, one)


_STAR, _ANY, _DIRECTORIES = b"*", b"**", b"**/"
_FIRST_PLACE = {_ANY: rb".*?", _DIRECTORIES: rb"(?:[^/]*+/)*?"}
_ANY_PLACE = {_ANY: rb".*", _DIRECTORIES: rb"(?:.*/)?"}


def _pieces(pattern: bytes, one: bytes, ignore_case: bool) -> list[tuple[bytes, bytes]] | None:
    """A wildmatch pattern as wildcards, each with a regular expression of fixed width for what
    follows it.

    The first wildcard is empty. None if the pattern matches nothing. But for a literal `/`, nothing
    of fixed width matches `/`.
    """
    pieces, at = [(b"", b"")], 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            star, at = _stars(pattern, at)
            pieces.append((star, b""))
            continue
        if char == b"[":
            found = _bracket(pattern, at + 1, ignore_case)
            if found is None:
                return None
            rule, at = found
        elif char == b"\\":
            if at + 1 == len(pattern):
                return None
            escaped = pattern[at + 1 : at + 2]
            # git folds the case of the path, and not of what is escaped
            if ignore_case and escaped.isupper():
                return None
            rule, at = re.escape(escaped), at + 2
        else:
            rule, at = one if char == b"?" else re.escape(char), at + 1
        pieces[-1] = (pieces[-1][0], pieces[-1][1] + rule)
    return pieces


def _joined(pieces: list[tuple[bytes, bytes]], one: bytes) -> bytes:
    """A regular expression for wildcards and what follows each, which takes linear time.

    A wildcard that others follow settles with the first place at which the text after it is found:
    `(?>...)` gives it not back. That loses no match:

    - `*`, then `fixed`, then another wildcard in the same stretch between `**`. Let `fixed` be found at p and at q,
      p < q, with no `/` up to q. If `fixed` has no `/`, then there is none from p to where it ends at q, and the next
      wildcard can take that as well. If it has one, say behind u, there is a `/` at p + |u|; it is not before q, so u
      covers it at q, and u matches no `/`: there is no such q.
    - `**`, then a stretch, then another `**`. The stretch ends in `/`, as a `**` stands behind one, and where it ends
      follows from where it begins, by the count of its `/`. Whatever a later place leaves to the next `**`, an earlier
      one leaves it as well, in whole directories.

    The last wildcard tries each place, at the cost of what follows it. So each byte of the pattern
    meets each byte of the text at most a few times.
    """
    out = stretch = b""
    wide_follows = star_follows = False
    for wildcard, fixed in reversed(pieces):
        if wildcard in (_ANY, _DIRECTORIES):
            rest = fixed + stretch
            out = (
                b"(?>" + _FIRST_PLACE[wildcard] + rest + b")"
                if wide_follows
                else _ANY_PLACE[wildcard] + rest
            ) + out
            stretch, wide_follows, star_follows = b"", True, False
        elif wildcard == _STAR:
            settled = star_follows or wide_follows
            stretch = (
                b"(?>" + one + b"*?" + fixed + b")" if settled else one + b"*" + fixed
            ) + stretch
            star_follows = True
        else:
            stretch = fixed + stretch
    return stretch + out


def _stars(pattern: bytes, at: int) -> tuple[bytes, int]:
    """What the stars at a place are, and where they end."""
    end = at
    while pattern[end : end + 1] == b"*":
        end += 1
    after = pattern[end : end + 2]
    bounded = (at == 0 or pattern[at - 1 : at] == b"/") and (
        after[:1] in (b"", b"/") or after == rb"\/"
    )
    if end - at == 1 or not bounded:
        return _STAR, end
    return (_DIRECTORIES, end + 1) if after[:1] == b"/" else (_ANY, end)


def _bracket(pattern: bytes, at: int, ignore_case: bool) -> tuple[bytes, int] | None:
    """The set whose `[` is before `at`, and where it ends; None if it is never closed, which
    matches nothing.

    Without case git puts the text into lower case, ranges and classes into both, and single letters
    into none: `[A]` matches nothing then (wildmatch.c).
    """
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
            members.append(b"" if ignore_case and previous.isupper() else re.escape(previous))
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
