"""Effective settings of one index, from all layers and its project, and their differences."""

import os
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from cocosearchd.config.project import Project, read_project, stamps
from cocosearchd.config.settings import (
    ADDRESSES,
    IndexingSettings,
    LoadedSettings,
    SearchSettings,
    Settings,
    ValueOrigin,
    get_value,
    setting_keys,
)
from cocosearchd.errors import BadSettings
from cocosearchd.runtime.masking import mask_address, mask_urls

# Settings that select files: a change of them needs a scan. Files that stay selected are untouched.
SCOPE = (
    "include",
    "exclude",
    "extend_include",
    "extend_exclude",
    "respect_gitignore",
    "index_secrets",
)
_PROJECT_KEYS = ("topics", "linked_indexes")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Effective settings of an index. `error` says why its project's files are not applied."""

    loaded: LoadedSettings = field(default_factory=lambda: LoadedSettings(Settings(), {}))
    project: Project = field(default_factory=Project)
    stamps: tuple[tuple[int, ...], ...] = ()
    error: str = ""

    @property
    def indexing(self) -> IndexingSettings:
        """See `Settings`."""
        return self.loaded.settings.indexing

    @property
    def search(self) -> SearchSettings:
        """See `Settings`."""
        return self.loaded.settings.search

    @property
    def origins(self) -> dict[str, ValueOrigin]:
        """The origin of each value that is not a default, including the project's own keys."""
        return {**dict(self.project.origins), **self.loaded.origins}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the project's files."""
        return ((self.error,) if self.error else ()) + self.project.warnings


def read_index_settings(
    root: bytes, loaded: LoadedSettings, last: Project | None = None
) -> IndexSettings:
    """Read the settings of the index of a root. Blocking; never raises.

    If the project's files cannot be used, `last` (the last valid project) stays in force, if given.
    """
    current = stamps(root)  # before the read: a change meanwhile leads to another read
    problem = ""
    try:
        project = read_project(root, loaded.variables)
        return IndexSettings(loaded.with_values(project.values), project, current)
    except BadSettings as error:
        problem = f"{error.message}: {error.hint}" if error.hint else error.message
    try:
        if last is not None:
            return IndexSettings(
                loaded.with_values(last.values),
                last,
                current,
                f"{problem} (the last valid file stays in force)",
            )
    except BadSettings:  # the last valid project does not fit the other layers any more
        pass
    return IndexSettings(loaded, Project(), current, f"{problem} (the file is not used)")


def project_settings(loaded: LoadedSettings, project: str) -> IndexSettings:
    """Return the settings of the nearest directory, going upwards, with settings files. Blocking."""
    resolved = Path(project).resolve()  # as a root is registered
    for directory in (resolved, *resolved.parents):
        settings = read_index_settings(os.fsencode(directory), loaded)
        if settings.project.file or settings.error:
            return settings
    return IndexSettings(loaded)


def changed_names(old: IndexSettings, new: IndexSettings) -> tuple[str, ...]:
    """Return names of changed settings, without the section, in the order of the tree."""
    own_keys = [key for key in setting_keys() if key.startswith(("indexing.", "search."))]
    differ = [
        key.partition(".")[2]
        for key in own_keys
        if get_value(old.loaded.settings, key) != get_value(new.loaded.settings, key)
    ]
    return (
        *differ,
        *(
            name
            for name in _PROJECT_KEYS
            if getattr(old.project, name) != getattr(new.project, name)
        ),
    )


def change_sentence(differ: tuple[str, ...], files: int) -> str:
    """Return one sentence about a change of settings, after which `files` files are read again."""
    change = f"settings changed: {', '.join(differ)}"
    if files:
        return f"{change}; {files:,} {'files are' if files > 1 else 'file is'} read again"
    if set(differ) & set(SCOPE):
        return f"{change}; only files that come or go are touched"
    return f"{change}; no file is touched"


def list_values(settings: IndexSettings) -> tuple[tuple[str, Any, str, str], ...]:
    """Return (key, value, layer, place) of every setting in tree order, without passwords."""
    origins = settings.origins
    tree = settings.loaded.settings
    project = settings.project
    values = {name: getattr(project, name) for name in ("topics", "linked_indexes") if project.file}
    values |= {key: get_value(tree, key) for key in setting_keys()}
    default = ValueOrigin("default", "")
    return tuple(
        (key, _mask(key, value), *astuple(origins.get(key, default)))
        for key, value in values.items()
    )


def _mask(key: str, value: Any) -> Any:
    """Return the value of a setting without secrets."""
    if isinstance(value, str):
        return mask_address(value) if key in ADDRESSES else mask_urls(value)
    return tuple(map(mask_urls, value)) if isinstance(value, tuple) else value
