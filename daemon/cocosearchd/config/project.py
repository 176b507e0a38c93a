"""What a directory's own `cocosearch.yaml` and `.env` say of its index. A repository that was just
cloned has one too.

So only what shapes this one index may stand there; nothing that names a server, a key, a program or
a place outside; and variables of the environment stay out of reach. A file that is wrong is refused
as a whole, with one sentence.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocosearchd.config.layers import FREE, PREFIX, expanded, variable_names
from cocosearchd.config.settings import (
    Layer,
    LayerValue,
    ValueOrigin,
    canonical,
    given,
    keys,
    unknown,
)
from cocosearchd.config.settings_files import SettingEntry, read_env, read_yaml, stamp
from cocosearchd.errors import BadSettings
from cocosearchd.runtime.files.nofollow import directory_identity

FILES = ("cocosearch.yaml", ".cocosearch.yaml")  # the first one that is there counts
# all names of a root that say anything of it
SOURCES = frozenset(map(os.fsencode, (*FILES, ".env")))
# The settings that may stand in a project's file; every other one is the daemon's.
OWN = frozenset(
    {
        "indexing.chunker",
        "indexing.chunk_size",
        "indexing.chunk_overlap",
        "indexing.include",
        "indexing.exclude",
        "indexing.extend_include",
        "indexing.extend_exclude",
        "indexing.respect_gitignore",
        "search.profile",
        "search.limit",
        "search.reranker",
    }
)
TOP = ("name", "topics", "linked_indexes")
# Sections and keys of CocoSearch's files that have no meaning for one index here: passed over, and
# said so.
_FOREIGN = ("controller.", "search.min_score", "log.")
MAX_ITEMS, MAX_TEXT = 500, 500
_PLAIN = re.compile(r"[^\x00-\x1f\x7f]{1,100}")


@dataclass(frozen=True, slots=True)
class Project:
    """What a root says of itself. `given` are settings of `OWN`; `said` what a person should know
    of the files.
    """

    file: str = ""  # the one that counts; "" for none
    name: str | None = None
    topics: tuple[str, ...] = ()
    linked_indexes: tuple[str, ...] = ()
    given: tuple[LayerValue, ...] = ()
    origins: tuple[tuple[str, ValueOrigin], ...] = ()  # of name, topics and linked_indexes
    said: tuple[str, ...] = ()


def stamps(root: bytes) -> tuple[tuple[int, ...], ...]:
    """Changes whenever one of the files may have. Blocking, three `lstat`."""
    directory = Path(os.fsdecode(root))
    return tuple(stamp(directory / name) for name in (*FILES, ".env"))


def seen(root: bytes) -> tuple[tuple[int, ...], ...] | None:
    """As `stamps`; None for a root that is not there, or is a link now: that says nothing of its
    files. Blocking.
    """
    found = stamps(root)
    return found if directory_identity(root) is not None else None


def read_project(root: bytes, variables: Mapping[str, str]) -> Project:
    """The files of a root as they are; they may name `variables` that begin with `FREE`, and those
    of their `.env`.

    Blocking. Raises `BadSettings`, one sentence that names the place.
    """
    directory = Path(os.fsdecode(root))
    there = [name for name in FILES if stamp(directory / name)]
    said = [f"{there[1]} is not read, because {there[0]} is there"] if len(there) > 1 else []
    env_file = _env(directory, said)
    free = {name: value for name, value in variables.items() if name.startswith(FREE)}
    free = {entry.key: entry.value for entry in env_file if entry.key.startswith(FREE)} | free
    written = _read(directory, there[0]) if there else ()
    entries = list(_ours(expanded(written, free.get), said))
    top = {entry.key: entry for entry in entries if entry.key in TOP}
    texts = {key: _texts(entry) for key, entry in top.items()}
    return Project(
        file=there[0] if there else "",
        name=texts["name"][0] if "name" in texts else None,
        topics=texts.get("topics", ()),
        linked_indexes=texts.get("linked_indexes", ()),
        given=(
            *_given((entry for entry in entries if entry.key not in TOP), "project"),
            *_given(_variables(env_file, said), ".env"),
        ),
        origins=tuple((key, ValueOrigin("project", entry.place)) for key, entry in top.items()),
        said=tuple(said),
    )


def _read(directory: Path, name: str) -> tuple[SettingEntry, ...]:
    try:
        return tuple(_short(entry, directory) for entry in read_yaml(directory / name, links=False))
    except BadSettings as error:
        raise BadSettings(_as_said(error.message, directory), error.hint) from None


def _env(directory: Path, said: list[str]) -> tuple[SettingEntry, ...]:
    """Of the `.env` file; none of one that cannot be read (a link, a virtual environment): it may
    not be ours.
    """
    try:
        return tuple(
            _short(entry, directory) for entry in read_env(directory / ".env", links=False)
        )
    except BadSettings as error:
        said.append(f"{_as_said(error.message, directory)}; nothing of it is used")
        return ()


def _short(entry: SettingEntry, directory: Path) -> SettingEntry:
    return SettingEntry(entry.key, entry.value, _as_said(entry.place, directory))


def _as_said(text: str, directory: Path) -> str:
    """With places as a person in the project would say them."""
    return text.replace(f"{directory}{os.sep}", "")


def _ours(entries: Iterable[SettingEntry], said: list[str]) -> Iterator[SettingEntry]:
    """Those that may stand here, under their own names; the daemon's are passed over and said."""
    passed, strange = list[SettingEntry](), list[SettingEntry]()
    for entry in entries:
        known = {"index_name": "name"}.get(canonical(entry.key), canonical(entry.key))
        if known in OWN or known in TOP:
            yield SettingEntry(known, entry.value, entry.place)
        elif known in keys() or known.startswith(_FOREIGN):
            passed.append(entry) if known in keys() else strange.append(entry)
        else:
            raise unknown(entry.key, [*TOP, *sorted(OWN)], ValueOrigin("project", entry.place))
    said += _passed_over(passed, "not for a project; set it in the user's config.yaml")
    said += _passed_over(strange, "CocoSearch's, and means nothing here")


def _passed_over(entries: list[SettingEntry], why: str) -> Iterator[str]:
    """One sentence for all of them."""
    if entries:
        yield f"passed over in {entries[0].place}: {', '.join(entry.key for entry in entries)} ({why})"


def _variables(entries: Iterable[SettingEntry], said: list[str]) -> Iterator[SettingEntry]:
    """What `.env` sets of these settings. The file is other programs' as well, so nothing in it is
    an error.
    """
    names, passed = variable_names(), list[SettingEntry]()
    for entry in entries:
        if names.get(entry.key) in OWN:
            yield SettingEntry(names[entry.key], entry.value, entry.place)
        elif entry.key.startswith(PREFIX) and not entry.key.startswith(FREE):
            passed.append(entry)
    said += _passed_over(passed, "not for a project; set it for the daemon")


def _given(entries: Iterable[SettingEntry], layer: Layer) -> Iterator[LayerValue]:
    for entry in entries:
        one = given(entry.key, entry.value, ValueOrigin(layer, entry.place))
        if isinstance(one.value, tuple):
            _limited(one.value, entry)
        yield one


def _texts(entry: SettingEntry) -> tuple[str, ...]:
    """One text or a list of them, printable and short: they are shown, and stored. Raises
    `BadSettings`.
    """
    items = entry.value if isinstance(entry.value, list) and entry.key != "name" else [entry.value]
    if not all(
        isinstance(item, str) and _PLAIN.fullmatch(item) and item == item.strip() for item in items
    ):
        what = "a name" if entry.key == "name" else "a list of names"
        raise BadSettings(
            f"{entry.key} in {entry.place} is not {what}", "use 1 to 100 printable characters"
        )
    return _limited(tuple(dict.fromkeys(items)), entry)


def _limited(items: tuple[Any, ...], entry: SettingEntry) -> tuple[Any, ...]:
    if len(items) > MAX_ITEMS or any(len(item) > MAX_TEXT for item in items):
        raise BadSettings(
            f"{entry.key} in {entry.place} is too long", f"use at most {MAX_ITEMS} short items"
        )
    return items
