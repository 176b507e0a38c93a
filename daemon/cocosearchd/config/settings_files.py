"""Reads settings files, YAML and `.env`, as entries with file and line. It knows no setting.

The files may come from a stranger (a repository that was just cloned): links are not followed,
sizes are limited, and no error quotes more of a file than a key.
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
from cocosearchd.runtime.files.nofollow import ABSENT
from cocosearchd.runtime.files.regular_files import read_in_tree, read_regular

MAX_SETTINGS_BYTES = 256 * 1024
# Values of a YAML file, including items of lists. An alias repeats all values of its anchor, so their
# number may grow with the square of the file's length.
MAX_VALUES = 5_000
MAX_KEY = 100  # characters: errors and warnings quote keys
MAX_PROBLEM = 100  # characters of PyYAML's errors, which quote tags, anchors and aliases
_MAX_BITS = 64  # of a number: Python refuses to write one of more than 4,300 digits
# python-dotenv searches a comment after each blank of a value: n blanks in a row cost n^2 steps.
_LONG_BLANK = re.compile(r"[^\S\r\n]{200}")


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """A value as written. `key` is dotted; `location` is `file:line`."""

    key: str
    value: Any
    location: str


def read_yaml(path: Path, *, links: bool = True) -> tuple[SettingEntry, ...]:
    """Read the entries of a YAML file of sections, in order; none if it is missing. Blocking.

    Raises `BadSettings` for an invalid file, for a duplicate key, and for a link unless `links`.
    """
    text = _text(path, links=links)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader) if text else None
        return tuple(_EntryReader(path).entries(node)) if node is not None else ()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        location = f"{path}:{mark.line + 1}" if mark else str(path)
        raise BadSettings(
            f"cannot read {location}: {(error.problem or 'it is not YAML')[:MAX_PROBLEM]}",
            "mend the file",
        ) from None
    # PyYAML raises these for a tag that does not fit its value: `!!bool maybe`, `!!int ""`,
    # `!!timestamp x`.
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError):
        raise BadSettings(f"cannot read {path}: it is not YAML", "mend the file") from None


def read_env(path: Path, *, links: bool = True) -> tuple[SettingEntry, ...]:
    """Read the variables of an `.env` file, in order; none if it is missing. Blocking.

    The file has lines of `NAME=value`, with quotes, comments and `export`. Other lines, which shell
    files have, are ignored. Raises `BadSettings`.
    """
    text = _text(path, links=links)
    if _LONG_BLANK.search(text):
        raise BadSettings(f"cannot read {path}: it has 200 blanks in a row", "mend the file")
    bindings = parse_stream(StringIO(text))
    return tuple(
        SettingEntry(binding.key, binding.value or "", f"{path}:{binding.original.line}")
        for binding in bindings
        if binding.key and not binding.error
    )


def stamp(path: Path | bytes) -> tuple[int, ...]:
    """Return the stamp of a file; it differs after any change, and is empty without a file.

    A file whose status cannot be read now, for example for an error of its server, is not missing.
    Blocking: one `lstat` call.
    """
    try:
        status = os.lstat(path)
    except OSError as error:
        return () if error.errno in ABSENT else (error.errno or 0,)
    return (
        status.st_ino,
        status.st_dev,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_mode,
    )


def _text(path: Path, *, links: bool) -> str:
    """Return the content of a regular file; "" if it is missing."""
    try:
        if links:
            data = read_regular(path, limit=MAX_SETTINGS_BYTES, follow_links=True)
        else:
            data = read_in_tree(os.fsencode(path.absolute()), limit=MAX_SETTINGS_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise BadSettings(f"cannot read {path}: {error.strerror}", "mend the file") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadSettings(f"cannot read {path}: it is not UTF-8", "mend the file") from None


class _EntryReader:
    """Reads the entries of one YAML file, and counts their values."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._value_count = 0

    def entries(self, node: yaml.Node, section: str = "") -> Iterator[SettingEntry]:
        """Yield the entries of a mapping and of its sections. Raises `BadSettings`."""
        if not isinstance(node, yaml.MappingNode):
            if not section and isinstance(node, yaml.ScalarNode) and not node.value:
                return  # only comments
            raise BadSettings(
                f"{self._path}:{node.start_mark.line + 1} is not sections of settings",
                "write `section:` and below it `  field: value`",
            )
        lines: dict[str, int] = {}
        for key_node, value in node.value:
            key = self._key(key_node)
            line = key_node.start_mark.line + 1
            if key in lines:
                raise BadSettings(
                    f"{section}{key} stands twice in {self._path}: lines {lines[key]} and {line}",
                    "keep one",
                )
            lines[key] = line
            if isinstance(value, yaml.MappingNode) and not section:
                yield from self.entries(value, f"{key}.")
            # a key without a value, such as `exclude:` with all of its lines commented out
            elif value.tag != "tag:yaml.org,2002:null":
                yield SettingEntry(f"{section}{key}", self._value(value), f"{self._path}:{line}")

    def _key(self, node: yaml.Node) -> str:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode):
            raise BadSettings(
                f"{self._path}:{line} has a key that is not a text", "write `field: value`"
            )
        if len(node.value) > MAX_KEY:
            raise BadSettings(
                f"{self._path}:{line} has a key of more than {MAX_KEY} characters", "mend the file"
            )
        return str(node.value)

    def _value(self, node: yaml.Node) -> Any:
        """Convert a scalar, or a list of scalars, by YAML's rules; anything deeper becomes a mapping.

        The conversion to a setting rejects the mapping.
        """
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        self._value_count += len(items) + 1
        if self._value_count > MAX_VALUES:
            raise BadSettings(f"{self._path} has more than {MAX_VALUES} values", "use fewer")
        loader = yaml.SafeLoader("")
        try:
            values = [
                self._check_storable(loader.construct_object(item), item)
                if isinstance(item, yaml.ScalarNode)
                else {}
                for item in items
            ]
        finally:
            loader.dispose()
        return values if isinstance(node, yaml.SequenceNode) else values[0]

    def _check_storable(self, value: Any, node: yaml.ScalarNode) -> Any:
        """Return a value that paths, PostgreSQL and UTF-8 can hold, and that Python can write as a text.

        Escapes can write any character, and hexadecimal digits a number of any length. Raises
        `ValueError`, and `BadSettings` for a number, such as the name of a directory of digits.
        """
        if isinstance(value, str) and "\0" in value.encode().decode():
            raise ValueError("a text with a NUL")
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            raise BadSettings(
                f"{self._path}:{node.start_mark.line + 1} has a number that is larger than that of "
                "any setting",
                "put it in quotes if it is a text",
            )
        return value
