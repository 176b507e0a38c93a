"""Settings of a project: its `cocosearch.yaml` and `.env`, which may come from a stranger.

A repository that was just cloned may have these files. Therefore they may only shape their own index:
they cannot name a server, a key, a program or a path outside, and cannot read variables of the
environment. An invalid file is rejected as a whole, with one sentence.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocosearchd.config.layers import FREE, PREFIX, expand_variables, variable_names
from cocosearchd.config.setting_effects import PROJECT_SETTINGS
from cocosearchd.config.settings import (
    Layer,
    LayerValue,
    ValueOrigin,
    canonical_key,
    parse_value,
    setting_keys,
    unknown_setting,
)
from cocosearchd.config.settings_files import MAX_KEY, SettingEntry, read_env, read_yaml, stamp
from cocosearchd.errors import BadSettings
from cocosearchd.runtime.files.nofollow import directory_identity

FILES = ("cocosearch.yaml", ".cocosearch.yaml")  # the first existing file counts
# all names of files with settings in a root
_FILE_NAMES = tuple(map(os.fsencode, (*FILES, ".env")))
SETTINGS_FILE_NAMES = frozenset(_FILE_NAMES)
TOP = ("name", "topics", "linked_indexes")
# Sections and keys of CocoSearch's files that have no meaning for an index here: ignored with a
# warning.
_FOREIGN = ("controller.", "search.min_score", "log.")
MAX_ITEMS, MAX_TEXT = 500, 500
# Topics and linked indexes: answers name them, also to assistants.
MAX_NAMES = 20
# Ignored keys that a warning names.
_MAX_IGNORED = 5
MAX_NAME_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Project:
    """Settings of a root's own files. `values` are settings of `PROJECT_SETTINGS`."""

    file: str = ""  # the file that counts; "" for none
    name: str | None = None
    topics: tuple[str, ...] = ()
    linked_indexes: tuple[str, ...] = ()
    values: tuple[LayerValue, ...] = ()
    origins: tuple[tuple[str, ValueOrigin], ...] = ()  # of name, topics and linked_indexes
    warnings: tuple[str, ...] = ()


def stamps(root: bytes) -> tuple[tuple[int, ...], ...]:
    """Return stamps of the files; they differ after any change. Blocking: three `lstat` calls."""
    directory = root.rstrip(b"/") + b"/"
    return tuple(stamp(directory + name) for name in _FILE_NAMES)


def read_stamps(root: bytes) -> tuple[tuple[int, ...], ...] | None:
    """Return stamps of the files; None for a root that is missing or has become a link. Blocking."""
    current = stamps(root)
    return current if directory_identity(root) is not None else None


def read_project(root: bytes, variables: Mapping[str, str]) -> Project:
    """Read the files of a root. Blocking. Raises `BadSettings` with the file and line.

    The files may use `variables` that begin with `FREE`, and such variables of their `.env`.
    """
    directory = Path(os.fsdecode(root))
    warnings: list[str] = []
    file = _choose_file(directory, warnings)
    env_file = _env(directory, warnings)
    file_entries = _read(directory, file) if file else ()
    free = _free_variables(variables, env_file)
    entries = list(_own_entries(expand_variables(file_entries, free.get), warnings))
    top = {entry.key: entry for entry in entries if entry.key in TOP}
    texts = {key: _texts(entry) for key, entry in top.items()}
    settings = [entry for entry in entries if entry.key not in TOP]
    values = (*_parse(settings, "project"), *_parse(_variables(env_file, warnings), ".env"))
    return Project(
        file=file,
        name=texts["name"][0] if "name" in texts else None,
        topics=texts.get("topics", ()),
        linked_indexes=texts.get("linked_indexes", ()),
        values=values,
        origins=tuple((key, ValueOrigin("project", entry.location)) for key, entry in top.items()),
        warnings=tuple(warnings),
    )


def _choose_file(directory: Path, warnings: list[str]) -> str:
    """Return the name of the file that counts, "" for none; warn about a second file."""
    names = [name for name in FILES if stamp(directory / name)]
    if len(names) > 1:
        warnings.append(f"{names[1]} is not read, because {names[0]} is there")
    return names[0] if names else ""


def _free_variables(
    variables: Mapping[str, str], env_file: Iterable[SettingEntry]
) -> dict[str, str]:
    """Return the variables that begin with `FREE`; the daemon's replace those of `.env`."""
    file_variables = {entry.key: entry.value for entry in env_file}
    return {
        name: value
        for name, value in (file_variables | dict(variables)).items()
        if name.startswith(FREE)
    }


def _read(directory: Path, name: str) -> tuple[SettingEntry, ...]:
    try:
        return tuple(
            _shorten_location(entry, directory)
            for entry in read_yaml(directory / name, links=False)
        )
    except BadSettings as error:
        raise BadSettings(_make_relative(error.message, directory), error.hint) from None


def _env(directory: Path, warnings: list[str]) -> tuple[SettingEntry, ...]:
    """Return entries of the `.env` file; none if it cannot be read.

    `.env` may be a link, or a directory of another program.
    """
    try:
        return tuple(
            _shorten_location(entry, directory)
            for entry in read_env(directory / ".env", links=False)
        )
    except BadSettings as error:
        warnings.append(f"{_make_relative(error.message, directory)}; nothing of it is used")
        return ()


def _shorten_location(entry: SettingEntry, directory: Path) -> SettingEntry:
    return SettingEntry(entry.key, entry.value, _make_relative(entry.location, directory))


def _make_relative(text: str, directory: Path) -> str:
    """Replace absolute paths of the project in a text by relative ones."""
    return text.replace(f"{directory}{os.sep}", "")


def _own_entries(entries: Iterable[SettingEntry], warnings: list[str]) -> Iterator[SettingEntry]:
    """Yield entries that a project may set, by canonical keys; warn about ignored ones."""
    daemon_entries: list[SettingEntry] = []
    foreign_entries: list[SettingEntry] = []
    for entry in entries:
        key = {"index_name": "name"}.get(canonical_key(entry.key), canonical_key(entry.key))
        if key in PROJECT_SETTINGS or key in TOP:
            yield SettingEntry(key, entry.value, entry.location)
        elif key in setting_keys():
            daemon_entries.append(entry)
        elif key.startswith(_FOREIGN):
            foreign_entries.append(entry)
        else:
            raise unknown_setting(
                entry.key, [*TOP, *sorted(PROJECT_SETTINGS)], ValueOrigin("project", entry.location)
            )
    warnings += _ignored_warnings(
        daemon_entries, "not for a project; set it in the user's config.yaml"
    )
    warnings += _ignored_warnings(foreign_entries, "CocoSearch's, and means nothing here")


def _ignored_warnings(entries: list[SettingEntry], reason: str) -> Iterator[str]:
    """Yield one warning for all ignored entries; nothing if there are none."""
    if entries:
        names = ", ".join(entry.key[:MAX_KEY] for entry in entries[:_MAX_IGNORED])
        more = f" and {len(entries) - _MAX_IGNORED} more" if len(entries) > _MAX_IGNORED else ""
        yield f"ignored in {entries[0].location}: {names}{more} ({reason})"


def _variables(entries: Iterable[SettingEntry], warnings: list[str]) -> Iterator[SettingEntry]:
    """Yield settings of `.env`. Other programs use the file as well, so nothing in it is an error."""
    names = variable_names()
    ignored: list[SettingEntry] = []
    for entry in entries:
        if names.get(entry.key) in PROJECT_SETTINGS:
            yield SettingEntry(names[entry.key], entry.value, entry.location)
        elif entry.key.startswith(PREFIX) and not entry.key.startswith(FREE):
            ignored.append(entry)
    warnings += _ignored_warnings(ignored, "not for a project; set it for the daemon")


def _parse(entries: Iterable[SettingEntry], layer: Layer) -> Iterator[LayerValue]:
    for entry in entries:
        parsed = parse_value(entry.key, entry.value, ValueOrigin(layer, entry.location))
        if isinstance(parsed.value, tuple):
            _check_size(parsed.value, entry)
        yield parsed


def is_plain(name: str) -> bool:
    """Return True if a topic or a name is short and printable: answers show it, also to assistants."""
    return 0 < len(name) <= MAX_NAME_LENGTH and name.isprintable() and name == name.strip()


def _texts(entry: SettingEntry) -> tuple[str, ...]:
    """Return the texts of an entry; they must be short and printable, as they are shown and stored.

    Raises `BadSettings`.
    """
    items = entry.value if isinstance(entry.value, list) and entry.key != "name" else [entry.value]
    if not all(isinstance(item, str) and is_plain(item) for item in items):
        kind = "a name" if entry.key == "name" else "a list of names"
        raise BadSettings(
            f"{entry.key} in {entry.location} is not {kind}",
            f"use 1 to {MAX_NAME_LENGTH} printable characters",
        )
    names = tuple(dict.fromkeys(items))
    if len(names) > MAX_NAMES:
        raise BadSettings(
            f"{entry.key} in {entry.location} has {len(names)} names", f"use at most {MAX_NAMES}"
        )
    return names


def _check_size(items: tuple[Any, ...], entry: SettingEntry) -> tuple[Any, ...]:
    if len(items) > MAX_ITEMS or any(len(item) > MAX_TEXT for item in items):
        raise BadSettings(
            f"{entry.key} in {entry.location} is too long", f"use at most {MAX_ITEMS} short items"
        )
    return items
