"""Detects the language of a file by `language_table`: shebang line, file name, extension.

A shebang line counts only in files without extension. There it has priority over the name, because
a script may be called `build`. Content decides between the dialects of a language, and between C
and C++ headers.
"""

import re

from cocosearchd.languages import blocks, language_table

# Bytes of a file that `detect` reads: the licence comment before a header may be long.
HEAD_BYTES = 65_536
# Bytes that decide: from the first line, or from the first line of code in a header.
DECIDING_BYTES = 4096

# Suffixes of files to copy and fill in, such as `terraform.tfvars.example`: the name before decides.
_TEMPLATE_SUFFIXES = (".example", ".sample", ".template", ".dist")
_SHEBANG = re.compile(rb"#!\s*(?:\S*/)?(\S+)(?:\s+(.*))?")
_VERSION_CHARACTERS = "0123456789."  # characters of an interpreter's version
# Blanks and comments of C. Possessive, so that each byte is read once.
_LEADING_COMMENTS = re.compile(rb"(?:\s++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
_CPP_HEADER = re.compile(
    rb"^[^\S\n]*+(?:class\s+\w|namespace\b|template\s*<|using\s+\w|(?:public|private|protected)\s*:)",
    re.MULTILINE,
)


def detect(path: str, head: bytes) -> str:
    """Return the language id of a path and its first `HEAD_BYTES`; "" if unsupported."""
    head = head.removeprefix(blocks.BOM)
    language_row = (_by_shebang(head) if _has_no_extension(path) else None) or _by_path(path)
    if language_row is None:
        return ""
    if language_row.name == "c" and path.endswith(".h") and _is_cpp_header(head[:HEAD_BYTES]):
        return "cpp"
    return blocks.detect_dialect(
        path, head[:DECIDING_BYTES].decode("utf-8", "replace"), language_row.name
    )


def _is_cpp_header(head: bytes) -> bool:
    comments = _LEADING_COMMENTS.match(head)
    begin = comments.end() if comments else 0
    return _CPP_HEADER.search(head, begin, begin + DECIDING_BYTES) is not None


def is_supported(path: str) -> bool:
    """Return True if a file may be of a supported type, judged by its name alone.

    Names without extension may be supported: a shebang line decides.
    """
    return _by_path(path) is not None or _has_no_extension(path)


def _by_path(path: str) -> language_table.LanguageInfo | None:
    name = path.rpartition("/")[2].lower()
    if name.endswith(_TEMPLATE_SUFFIXES):
        name = name.rpartition(".")[0]
    by_name = language_table.by_file_name().get(name)
    if by_name is not None:
        return by_name
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
    shebang = _SHEBANG.match(head.partition(b"\n")[0])
    if shebang is None:
        return None
    program = shebang[1].decode("utf-8", "replace")
    arguments = (shebang[2] or b"").decode("utf-8", "replace").split()
    if program == "env":
        words = (word for word in arguments if not word.startswith("-") and "=" not in word)
        program = next(words, "").rpartition("/")[2]
    return language_table.by_interpreter().get(program.rstrip(_VERSION_CHARACTERS).lower())
