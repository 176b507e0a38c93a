"""Forms of paths: bytes as on disk, the text of an index, texts of clients, text for people. Pure."""

import re

_SURROGATE = re.compile("[\udc80-\udcff]")


_ESCAPE = re.compile(rb"\\(\\|x[0-9a-f]{2})")


def describe_root(root: bytes) -> str:
    """Return the absolute path of a root for people."""
    return root.decode("utf-8", "backslashreplace")


def path_text(raw: bytes) -> str:
    """Return the text form of a relative path, which `cocosearchd.model` describes."""
    return raw.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def path_from_client(text: str) -> str:
    """Return the text form of a client's path, which has lone surrogates for bytes (PEP 383)."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def glob_from_client(text: str) -> str:
    """Return the text form of a client's glob.

    A byte that is not UTF-8 matches any such byte: no glob can express the backslash of its text form.
    """
    return _SURROGATE.sub("????", text)


def path_bytes(text: str) -> bytes:
    """Return the bytes of a path made by `path_text`: its exact inverse."""
    if "\\" not in text:
        return text.encode("utf-8")
    return _ESCAPE.sub(
        lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1][1:], 16)]),
        text.encode("utf-8"),
    )
