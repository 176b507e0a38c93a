"""Skip reasons: why a file in scope is not indexed, decided by its content. Pure.

These rules hold for files on disk and for unsaved text. `SkipReason` in `model` lists the codes,
`exclusion` has their sentences, in the order in which `status` names files. A file that cannot be
read gets its reason from `file_reader`. If other contents are skipped, raise `chunker.VERSION`.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from cocosearchd.model import SkipReason

# A file is minified if it is larger than the first number of bytes, and if more than half of it is in
# lines of at least the second number of bytes.
MINIFIED_MIN_BYTES = 4096
MINIFIED_LINE_BYTES = 1000
_KEY_LINE = re.compile(rb"^-----(BEGIN|END) ([A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SkipRules:
    """Rules that decide which files are skipped."""

    max_file_bytes: int
    index_secrets: bool
    any_type: bool  # the user includes files by name: an unknown language is plain text


def skip_reason(data: bytes, language: str, rules: SkipRules) -> SkipReason | None:
    """Return the reason to skip a content, or None to index it; `language` is "" if unsupported."""
    skip = content_skip_reason(data, rules.max_file_bytes)
    if skip is None and not rules.index_secrets and is_secret(data):
        return "secret"
    return "unsupported" if skip is None and not language and not rules.any_type else skip


def content_skip_reason(data: bytes, limit: int) -> SkipReason | None:
    """Return the reason not to index a content of any language, or None.

    The reasons are: larger than `limit` bytes, not text, or minified into a few huge lines.
    """
    if len(data) > limit:
        return "too_large"
    if b"\0" in data:
        return "binary"
    if len(data) > MINIFIED_MIN_BYTES and 2 * sum(
        filter(_is_long, map(len, data.split(b"\n")))
    ) > len(data):
        return "minified"
    return None


def _is_long(line_bytes: int) -> bool:
    return line_bytes >= MINIFIED_LINE_BYTES


def is_secret(data: bytes) -> bool:
    """Return true if private key blocks make up more than half of the content.

    A source file that quotes a key in a test stays searchable.
    """
    if b"PRIVATE KEY" not in data:
        return False
    return 2 * sum(map(len, _keys(data.replace(b"\r\n", b"\n")))) > len(data)


def _keys(data: bytes) -> Iterator[bytes]:
    """Yield the private key blocks: each from a begin line to the next end line of its kind.

    This is one pass. A single pattern would take quadratic time on a content with many begin lines
    and no end line.
    """
    lines = list(_KEY_LINE.finditer(data))
    ends = defaultdict[bytes, deque[int]](deque)
    for line in lines:
        if line[1] == b"END":
            ends[line[2]].append(line.end())
    after = 0  # end of the previous block
    for line in lines:
        last = ends[line[2]]
        while last and last[0] <= line.start():
            last.popleft()
        if line[1] == b"BEGIN" and last and line.start() >= after:
            after = last[0]
            yield data[line.start() : after]
