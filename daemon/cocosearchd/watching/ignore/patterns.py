"""Parses and matches ignore patterns as git does. Pure: bytes in, a decision out.

The rules are those of gitignore(5), with the details of git's `dir.c` and `wildmatch.c`: the last
pattern that matches decides, `!` keeps, a trailing `/` matches directories only, a pattern without
other slashes matches names at any depth. Tests compare every decision with `git check-ignore`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

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
_Matcher = Callable[[bytes], object]  # true or false for a name or path


# Bounds on patterns with a wildcard. Patterns without one are looked up in a table, so their number
# does not matter. None of 4,000 public ignore files comes near: the longest have some 2,000 lines.
# Paths have at most 4,096 bytes, names 255.
MAX_WILDCARD_BYTES = 1024
MAX_WILDCARDS = 4096
MAX_WILDCARDS_BYTES = 128 << 10  # of all of them together: the worst cost one path 0.13 s
# Bytes of rules in one regular expression: while it matches, no other thread runs.
_CHUNK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class _WildcardRun:
    """The patterns with wildcards of a run: neighbouring patterns with the same decision.

    Their order does not matter. Directories end in `/` here. See `Patterns` for the number.
    """

    number: int
    matches_name: _Matcher | None  # the last part
    matches_path: _Matcher | None  # the whole relative path


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Patterns:
    """The patterns of one ignore file, in effect below its directory.

    A run is a sequence of patterns with the same decision. Its number grows along the file, and is
    odd if the run ignores. Patterns without wildcards map to the last run that has them, so a
    lookup does not grow with their number. `lines` and `size` (bytes) are of the text, `wildcards`
    and `wildcard_size` (bytes) of the patterns with wildcards; `omitted` counts the patterns that
    are not used, as they are too long or too many.
    """

    names: Mapping[bytes, int] = field(default_factory=dict)  # whole names -> number of a run
    paths: Mapping[bytes, int] = field(default_factory=dict)  # whole relative paths
    runs: tuple[_WildcardRun, ...] = ()  # last one first
    ignore_case: bool = False
    lines: int = 0
    size: int = 0
    wildcards: int = 0
    wildcard_size: int = 0
    omitted: int = 0

    @property
    def is_used(self) -> bool:
        """False if no path can match."""
        return bool(self.names or self.paths or self.runs)

    def ignores(self, path: bytes, name: bytes) -> bool | None:
        """Return whether these patterns ignore (True) or keep (False) a path; None: no match.

        `path` is relative to the directory of the file; `name` is its last part; both end in `/`
        for a directory.
        """
        number = self._find_literal_run(path, name)
        for run in self.runs:
            if run.number <= number:
                break
            if (run.matches_name is not None and run.matches_name(name)) or (
                run.matches_path is not None and run.matches_path(path)
            ):
                return run.number % 2 == 1
        return number % 2 == 1 if number else None

    def _find_literal_run(self, path: bytes, name: bytes) -> int:
        """Return the last run in which a pattern without wildcards matches; 0 if none does."""
        if self.ignore_case:
            path = path.lower()
            name = name.lower()
        number = self.names.get(name, 0)
        if self.paths:
            number = max(number, self.paths.get(path, 0))
        if name.endswith(b"/"):  # patterns without a `/` match directories, too
            number = max(number, self.names.get(name[:-1], 0), self.paths.get(path[:-1], 0))
        return number


EMPTY = Patterns()


def parse(text: bytes, *, ignore_case: bool = False) -> Patterns:
    """Return the patterns of an ignore file with this content."""
    parser = _Parser(ignore_case)
    for _, line in _numbered_lines(text):
        parser.add(line)
    return parser.patterns(text)


class _WildcardBounds:
    """Counts the patterns with wildcards of one file, and omits those beyond the bounds."""

    def __init__(self) -> None:
        self.wildcards = 0
        self.size = 0  # bytes
        self.omitted = 0

    def admit(self, line: bytes) -> bool:
        """Count a pattern. Return whether it is used."""
        if not _SPECIAL.search(line):
            return True
        if (
            self.wildcards == MAX_WILDCARDS
            or len(line) > MAX_WILDCARD_BYTES
            or self.size + len(line) > MAX_WILDCARDS_BYTES
        ):
            self.omitted += 1
            return False
        self.wildcards += 1
        self.size += len(line)
        return True


class _Parser:
    """Collects the patterns of one file, line by line."""

    def __init__(self, ignore_case: bool) -> None:
        self._ignore_case = ignore_case
        self._names: dict[bytes, int] = {}
        self._paths: dict[bytes, int] = {}
        self._number = 0  # of the current run
        # by run, the expressions for names and those for paths
        self._rules: dict[int, tuple[list[bytes], list[bytes]]] = {}
        self._bounds = _WildcardBounds()

    def add(self, line: bytes) -> None:
        """Add a line that is neither empty nor a comment."""
        if not self._bounds.admit(line):
            return
        ignored = not line.startswith(b"!")
        if not self._number:
            self._number = 1 if ignored else 2
        elif self._number % 2 != ignored:
            self._number += 1
        self._add_pattern(line if ignored else line[1:])

    def _add_pattern(self, line: bytes) -> None:
        directory = line.endswith(b"/")
        pattern = line[:-1] if directory else line
        in_names = b"/" not in pattern
        if _SPECIAL.search(pattern):
            rules = self._rules.setdefault(self._number, ([], []))
            rules[0 if in_names else 1].append(
                _wildcard_rule(pattern, self._ignore_case, in_names=in_names, directory=directory)
            )
        elif pattern:
            literal = line.removeprefix(b"/")
            if self._ignore_case:
                literal = literal.lower()
            (self._names if in_names else self._paths)[literal] = self._number

    def patterns(self, text: bytes) -> Patterns:
        """Return the patterns of this text, whose lines have been added."""
        flags = re.DOTALL | (re.IGNORECASE if self._ignore_case else 0)
        runs = (
            _WildcardRun(number, _matcher(names, flags), _matcher(paths, flags))
            for number, (names, paths) in reversed(self._rules.items())
        )
        return Patterns(
            self._names,
            self._paths,
            tuple(runs),
            ignore_case=self._ignore_case,
            lines=text.count(b"\n") + 1,
            size=len(text),
            wildcards=self._bounds.wildcards,
            wildcard_size=self._bounds.size,
            omitted=self._bounds.omitted,
        )


def deciding_line(
    text: bytes, path: bytes, name: bytes, *, ignore_case: bool = False
) -> tuple[int, bytes] | None:
    """Return number (from 1) and text of the line that decides on a path; None if none does.

    A binary search: it parses at most twice the length of the text, within the same bounds.
    """
    bounds = _WildcardBounds()
    lines = [(number, line) for number, line in _numbered_lines(text) if bounds.admit(line)]
    if not _match_any(lines, path, name, ignore_case):
        return None
    while len(lines) > 1:
        half = len(lines) // 2
        later = lines[half:]
        lines = later if _match_any(later, path, name, ignore_case) else lines[:half]
    number = lines[0][0]
    return number, text.removeprefix(_BOM).split(b"\n")[number - 1].strip()


def _match_any(
    lines: Iterable[tuple[int, bytes]], path: bytes, name: bytes, ignore_case: bool
) -> bool:
    parser = _Parser(ignore_case)
    for _, line in lines:
        parser.add(line)
    return parser.patterns(b"").ignores(path, name) is not None


def _numbered_lines(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with patterns, each with its number from 1."""
    for number, raw in enumerate(text.removeprefix(_BOM).split(b"\n"), 1):
        line = _without_trailing_spaces(raw.removesuffix(b"\r").partition(b"\0")[0])
        if line and not line.startswith(b"#"):
            yield number, line


def _without_trailing_spaces(line: bytes) -> bytes:
    if not line.endswith(b" "):
        return line
    end = 0  # spaces behind `end` are trailing so far
    at = 0
    while at < len(line):
        if line[at : at + 1] == b"\\":
            if at + 1 == len(line):
                return line
            at += 2
            end = at
            continue
        at += 1
        if line[at - 1 : at] != b" ":
            end = at
    return line[:end]


def _wildcard_rule(pattern: bytes, ignore_case: bool, *, in_names: bool, directory: bool) -> bytes:
    """Return a regular expression for a pattern with wildcards, without its `/` at the end."""
    # The match of a rule never ends in the `/` that marks a directory.
    tail = rb"(?<!/)/" if directory else rb"(?<!/)/?"
    any_byte = rb"." if in_names else rb"[^/]"
    return _rule(pattern.removeprefix(b"/"), any_byte, ignore_case) + tail


def _matcher(rules: Iterable[bytes], flags: int) -> _Matcher | None:
    """Return a function that matches what one of the rules matches; None without rules."""
    matchers: list[_Matcher] = [re.compile(chunk, flags).match for chunk in _chunks(rules)]
    if len(matchers) > 1:
        return lambda text: any(matcher(text) for matcher in matchers)
    return matchers[0] if matchers else None


def _chunks(rules: Iterable[bytes]) -> Iterator[bytes]:
    """Yield regular expressions of bounded length that match what one of the rules matches."""
    chunk = list[bytes]()
    size = 0
    for rule in rules:
        if chunk and size + len(rule) > _CHUNK_BYTES:
            yield b"(?:" + b"|".join(chunk) + rb")\Z"
            chunk = []
            size = 0
        chunk.append(rule)
        size += len(rule)
    if chunk:
        yield b"(?:" + b"|".join(chunk) + rb")\Z"


def _rule(pattern: bytes, any_byte: bytes, ignore_case: bool) -> bytes:
    """Return a regular expression for a pattern without the mark of a directory.

    It takes linear time, see `_join`. `any_byte` matches one byte of a name: where the text is only
    a name, it matches anything, as that is faster.
    """
    # git compares the part before the first wildcard literally and starts wildmatch behind it:
    # `a**/b` is `a`, `**/b`.
    special = _SPECIAL.search(pattern)
    split = special.start() if special else len(pattern)
    pieces = _pieces(pattern[split:], any_byte, ignore_case)
    return _NEVER if pieces is None else re.escape(pattern[:split]) + _join(pieces, any_byte)


_STAR = b"*"
_ANY = b"**"
_DIRECTORIES = b"**/"
_FIRST_MATCH = {_ANY: rb".*?", _DIRECTORIES: rb"(?:[^/]*+/)*?"}
_EACH_MATCH = {_ANY: rb".*", _DIRECTORIES: rb"(?:.*/)?"}


def _pieces(pattern: bytes, any_byte: bytes, ignore_case: bool) -> list[tuple[bytes, bytes]] | None:
    """Split a wildmatch pattern into wildcards, each with the expression for the text after it.

    These regular expressions have a fixed width, and match `/` only where the pattern has a literal
    `/`. The first wildcard is empty. None if the pattern matches nothing.
    """
    pieces = [(b"", b"")]
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            star, at = _stars(pattern, at)
            pieces.append((star, b""))
            continue
        if char == b"[":
            bracket = _bracket(pattern, at + 1, ignore_case)
            if bracket is None:
                return None
            rule, at = bracket
        elif char == b"\\":
            if at + 1 == len(pattern):
                return None
            escaped = pattern[at + 1 : at + 2]
            # git folds the case of the path, but not of an escaped character
            if ignore_case and escaped.isupper():
                return None
            rule = re.escape(escaped)
            at += 2
        else:
            rule = any_byte if char == b"?" else re.escape(char)
            at += 1
        pieces[-1] = (pieces[-1][0], pieces[-1][1] + rule)
    return pieces


def _join(pieces: list[tuple[bytes, bytes]], any_byte: bytes) -> bytes:
    """Return a regular expression for wildcards and the text after each; it takes linear time.

    A wildcard that is followed by another takes the first position at which the text after it
    matches: `(?>...)` never gives it back. That loses no match:

    - `*`, then `fixed`, then another wildcard in the same stretch between `**`. Let `fixed` match
      at p and at q, p < q, with no `/` up to q. If `fixed` has no `/`, then there is none from p to
      its end at q, and the next wildcard can take that as well. If it has one, say behind u, there
      is a `/` at p + |u|; it is not before q, so u covers it at q, and u matches no `/`: there is
      no such q.
    - `**`, then a stretch, then another `**`. The stretch ends in `/`, as a `**` stands behind one,
      and its end follows from its start, by the count of its `/`. Whatever a later position leaves
      to the next `**`, an earlier one leaves as well, in whole directories.

    The last wildcard tries each position, at the cost of the text after it. Each byte of the
    pattern is therefore compared with each byte of the text at most a few times.
    """
    out = b""
    stretch = b""
    wide_follows = False
    star_follows = False
    for wildcard, fixed in reversed(pieces):
        if wildcard in (_ANY, _DIRECTORIES):
            rest = fixed + stretch
            out = (
                b"(?>" + _FIRST_MATCH[wildcard] + rest + b")"
                if wide_follows
                else _EACH_MATCH[wildcard] + rest
            ) + out
            stretch = b""
            wide_follows = True
            star_follows = False
        elif wildcard == _STAR:
            settled = star_follows or wide_follows
            stretch = (
                b"(?>" + any_byte + b"*?" + fixed + b")" if settled else any_byte + b"*" + fixed
            ) + stretch
            star_follows = True
        else:
            stretch = fixed + stretch
    return stretch + out


def _stars(pattern: bytes, at: int) -> tuple[bytes, int]:
    """Return the wildcard that the stars at a position form, and their end."""
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
    """Return the set whose `[` is before `at`, and its end; None if it is never closed.

    A set that is never closed matches nothing. If case is ignored, git compares the text in lower
    case. It tries ranges and classes in both cases, but single letters as they are: `[A]` then
    matches nothing (wildmatch.c).
    """
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    members = list[bytes]()
    previous = b""
    while not members or pattern[at : at + 1] != b"]":
        member = _set_member(pattern, at, previous, ignore_case)
        if member is None:
            return None
        expression, previous, at = member
        members.append(expression)
    body = b"".join(members)
    inside = (b"[^" if negated else b"[") + body + b"]" if body else (b"." if negated else _NEVER)
    return b"(?!/)" + inside, at + 1


# A member of a set: its expression, the character that a range may begin with, and its end.
_SetMember = tuple[bytes, bytes, int]


def _set_member(pattern: bytes, at: int, previous: bytes, ignore_case: bool) -> _SetMember | None:
    """Return the member of a set at `at`: a range, a class or a character; None if it has no end.

    `previous` is the character before it, if a range may begin with it.
    """
    char = pattern[at : at + 1]
    following = pattern[at + 1 : at + 2]
    if char == b"-" and previous and following not in (b"", b"]"):
        upper, at = _member(pattern, at + 1)
        return (_range(previous, upper), b"", at) if upper else None
    if char == b"[" and following == b":" and (close := pattern.find(b"]", at + 2)) >= 0:
        return _class_member(pattern, at, close, previous)
    return _letter_member(pattern, at, ignore_case)


def _letter_member(pattern: bytes, at: int, ignore_case: bool) -> _SetMember | None:
    letter, at = _member(pattern, at)
    if not letter:
        return None
    return b"" if ignore_case and letter.isupper() else re.escape(letter), letter, at


def _class_member(pattern: bytes, at: int, close: int, previous: bytes) -> _SetMember | None:
    """Return the class such as `[:alpha:]` at `at`; None for an unknown one."""
    if close - 1 < at + 2 or pattern[close - 1 : close] != b":":
        return re.escape(b"["), previous, at + 1  # not closed by `:]`, so a plain `[`
    expression = _CLASSES.get(pattern[at + 2 : close - 1])
    return None if expression is None else (expression, b"", close + 1)


def _member(pattern: bytes, at: int) -> tuple[bytes, int]:
    if pattern[at : at + 1] == b"\\":
        at += 1
    return pattern[at : at + 1], at + 1


def _range(low: bytes, high: bytes) -> bytes:
    return re.escape(low) + b"-" + re.escape(high) if low <= high else b""
