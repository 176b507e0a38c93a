"""Texts that hold settings, as entries with their places: YAML of sections, and `.env` files. Knows
no setting.

What is read may be anybody's (a repository that was just cloned): links are not followed, sizes are
limited, and no error quotes more of a file than a key.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import yaml
from dotenv.parser import parse_stream

from cocosearchd.errors import BadSettings
from cocosearchd.runtime.files.regular_files import read_in_tree, read_regular

MAX_BYTES = 256 * 1024
# python-dotenv looks for a comment after each blank of a value: n blanks in a row cost n^2 steps.
_LONG_BLANK = re.compile(r"[^\S\r\n]{200}")


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """A value as written. `key` is dotted; `place` is `file:line`."""

    key: str
    value: Any
    place: str


def read_yaml(path: Path, *, links: bool = True) -> tuple[SettingEntry, ...]:
    """The entries of a file of sections, in order; none for a file that is not there. Blocking.

    Raises `BadSettings` for what is no such file, for a key that stands twice, and for a link
    unless `links` are fine.
    """
    text = _text(path, links=links)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader) if text else None
        return tuple(_entries(node, path)) if node is not None else ()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise BadSettings(
            f"cannot read {place}: {error.problem or 'it is not YAML'}", "mend the file"
        ) from None
    # PyYAML fails so itself for a tag that does not fit its value: `!!bool maybe`, `!!int ""`,
    # `!!timestamp x`.
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError):
        raise BadSettings(f"cannot read {path}: it is not YAML", "mend the file") from None


def read_env(path: Path, *, links: bool = True) -> tuple[SettingEntry, ...]:
    """The variables of an `.env` file (`NAME=value`, quotes, comments, `export`), in order; none
    without one. Blocking.

    Lines that are no assignments are passed over, as shells' own files have them. Raises
    `BadSettings`.
    """
    text = _text(path, links=links)
    if _LONG_BLANK.search(text):
        raise BadSettings(f"cannot read {path}: it has 200 blanks in a row", "mend the file")
    bindings = parse_stream(StringIO(text))
    return tuple(
        SettingEntry(one.key, one.value or "", f"{path}:{one.original.line}")
        for one in bindings
        if one.key and not one.error
    )


def stamp(path: Path) -> tuple[int, ...]:
    """Changes whenever a file may have; empty for one that is not there. Blocking, one `lstat`."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return (
        found.st_ino,
        found.st_dev,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_mode,
    )


def _text(path: Path, *, links: bool) -> str:
    """The content of a regular file; "" for none."""
    try:
        if links:
            data = read_regular(path, limit=MAX_BYTES, follow_links=True)
        else:
            data = read_in_tree(os.fsencode(path.absolute()), limit=MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise BadSettings(f"cannot read {path}: {error.strerror}", "mend the file") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadSettings(f"cannot read {path}: it is not UTF-8", "mend the file") from None


def _entries(node: yaml.Node, path: Path, section: str = "") -> Iterator[SettingEntry]:
    if not isinstance(node, yaml.MappingNode):
        if not section and isinstance(node, yaml.ScalarNode) and not node.value:
            return  # nothing but comments
        raise BadSettings(
            f"{path}:{node.start_mark.line + 1} is not sections of settings",
            "write `section:` and below it `  field: value`",
        )
    seen: dict[str, int] = {}
    for key_node, value in node.value:
        key, line = str(getattr(key_node, "value", "")), key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise BadSettings(f"{path}:{line} has a key that is not a text", "write `field: value`")
        if key in seen:
            raise BadSettings(
                f"{section}{key} stands twice in {path}: lines {seen[key]} and {line}", "keep one"
            )
        seen[key] = line
        if isinstance(value, yaml.MappingNode) and not section:
            yield from _entries(value, path, f"{key}.")
        # `exclude:` with all of its lines commented out says nothing
        elif value.tag != "tag:yaml.org,2002:null":
            yield SettingEntry(f"{section}{key}", _value(value), f"{path}:{line}")


def _value(node: yaml.Node) -> Any:
    """Scalars by YAML's rules; lists of them; anything deeper stays as it is, for whoever converts
    it to refuse.
    """
    loader = yaml.SafeLoader("")
    try:
        if isinstance(node, yaml.SequenceNode):
            return [
                _value(item) if isinstance(item, yaml.ScalarNode) else {} for item in node.value
            ]
        return _storable(loader.construct_object(node)) if isinstance(node, yaml.ScalarNode) else {}
    finally:
        loader.dispose()


def _storable(value: Any) -> Any:
    """The value, if paths, PostgreSQL and UTF-8 can hold it: escapes write what no file can. Raises
    `ValueError`.
    """
    if isinstance(value, str) and "\0" in value.encode().decode():
        raise ValueError("a text with a NUL")
    return value
