"""Which language a file is in: kinds told by content, then file names, then extensions, then the
shebang line.
"""

import re

from cocosearchd.languages import blocks, language_table
from cocosearchd.model import SkipReason

# What `detect` needs of a file.
HEAD_BYTES = 4096
# A file is minified when it is larger than this and most of it is in lines longer than that
# (bytes).
MINIFIED_MIN_BYTES = 4096
MINIFIED_LINE_BYTES = 1000

_SHEBANG = re.compile(rb"#!\s*(?:\S*/)?(\S+)(?:\s+(.*))?")
_VERSION = "0123456789."  # of an interpreter
_CPP_HEADER = re.compile(
    rb"^[^\S\n]*+(?:class\s+\w|namespace\b|template\s*<|using\s+\w|(?:public|private|protected)\s*:)",
    re.MULTILINE,
)


def detect(path: str, head: bytes) -> str:
    """The language id of a file from its path and its first `HEAD_BYTES`; "" where it is not
    supported.
    """
    head = head.removeprefix(blocks.BOM)
    info = _by_path(path)
    if info is None:
        info = _by_shebang(head) if _has_no_extension(path) else None
    if info is None:
        return ""
    if info.name == "c" and path.endswith(".h") and _CPP_HEADER.search(head[:HEAD_BYTES]):
        return "cpp"
    return blocks.detect_kind(path, head[:HEAD_BYTES].decode("utf-8", "replace"), info.name)


def is_supported(path: str) -> bool:
    """Whether a path may be of a supported type, by name only. Names without extension may: a
    shebang line decides.
    """
    return _by_path(path) is not None or _has_no_extension(path)


def skip_reason(data: bytes, limit: int) -> SkipReason | None:
    """Why a file is not worth indexing: larger than `limit` bytes, not text, or generated in a few
    huge lines.
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


def _by_path(path: str) -> language_table.LanguageInfo | None:
    name = path.rpartition("/")[2].lower()
    named = language_table.by_file_name().get(name)
    if named is not None:
        return named
    if name.startswith(("dockerfile.", "containerfile.")) and not name.endswith(
        (".md", ".txt", ".dockerignore")
    ):
        return language_table.by_name()["dockerfile"]
    if name.startswith(("jenkinsfile.", "makefile.")):
        return language_table.by_file_name()[name.partition(".")[0]]
    stem, dot, extension = name.rpartition(".")
    return language_table.by_extension().get(dot + extension) if stem else None


def _has_no_extension(path: str) -> bool:
    return "." not in path.rpartition("/")[2].lstrip(".")


def _by_shebang(head: bytes) -> language_table.LanguageInfo | None:
    first = _SHEBANG.match(head.partition(b"\n")[0])
    if first is None:
        return None
    program = first[1].decode("utf-8", "replace")
    rest = (first[2] or b"").decode("utf-8", "replace").split()
    if program == "env":
        words = (word for word in rest if not word.startswith("-") and "=" not in word)
        program = next(words, "").rpartition("/")[2]
    return language_table.by_interpreter().get(program.rstrip(_VERSION).lower())
