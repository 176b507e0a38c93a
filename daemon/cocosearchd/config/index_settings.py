"""The settings of one index: every layer, its project's files among them; what a change of them
means, in words.
"""

from dataclasses import astuple, dataclass, field
from typing import Any

from cocosearchd.config.project import Project, read_project, stamps
from cocosearchd.config.settings import (
    ADDRESSES,
    IndexingSettings,
    LoadedSettings,
    SearchSettings,
    Settings,
    ValueOrigin,
    keys,
    value_of,
)
from cocosearchd.errors import BadSettings
from cocosearchd.runtime.masking import mask_address, mask_urls

# What decides which files are in: a change is a matter for a scan, and touches no other file.
SCOPE = (
    "include",
    "exclude",
    "extend_include",
    "extend_exclude",
    "respect_gitignore",
    "index_secrets",
)
_SEARCHING = ("topics", "linked_indexes")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """What holds for an index. `trouble` is why the files of its project are not followed as they
    are now.
    """

    loaded: LoadedSettings = field(default_factory=lambda: LoadedSettings(Settings(), {}))
    project: Project = field(default_factory=Project)
    stamps: tuple[tuple[int, ...], ...] = ()
    trouble: str = ""

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
        """Who said each value that is not a default, those beside the tree included."""
        return {**dict(self.project.origins), **self.loaded.origins}

    @property
    def said(self) -> tuple[str, ...]:
        """What a person should know of the files."""
        return ((self.trouble,) if self.trouble else ()) + self.project.said


def read_index_settings(
    root: bytes, loaded: LoadedSettings, last: Project | None = None
) -> IndexSettings:
    """The settings of the index of a root, as of now. Blocking; never raises.

    Where the project's files cannot be used, `last` (the last good ones) goes on, or nothing of
    them at all.
    """
    seen = stamps(root)  # before they are read: what changes meanwhile is seen again
    trouble = ""
    try:
        project = read_project(root, loaded.free)
        return IndexSettings(loaded.beside(project.given), project, seen)
    except BadSettings as error:
        trouble = f"{error.message}: {error.hint}" if error.hint else error.message
    try:
        if last is not None:
            return IndexSettings(
                loaded.beside(last.given),
                last,
                seen,
                f"{trouble} (what was there before it holds on)",
            )
    except BadSettings:  # what was good does not fit the other layers of now
        pass
    return IndexSettings(loaded, Project(), seen, f"{trouble} (the file is not used)")


def changed(before: IndexSettings, now: IndexSettings) -> tuple[str, ...]:
    """The names of what holds differently, without the section; in the order of the tree."""
    own = [key for key in keys() if key.startswith(("indexing.", "search."))]
    settings = before.loaded.settings, now.loaded.settings
    differ = [
        key.partition(".")[2]
        for key in own
        if value_of(settings[0], key) != value_of(settings[1], key)
    ]
    return (
        *differ,
        *(
            name
            for name in _SEARCHING
            if getattr(before.project, name) != getattr(now.project, name)
        ),
    )


def sentence(differ: tuple[str, ...], files: int) -> str:
    """What a change of settings did: `files` are read again for it."""
    what = f"settings changed: {', '.join(differ)}"
    if files:
        return f"{what}; {files:,} {'files are' if files > 1 else 'file is'} read again"
    if set(differ) & set(SCOPE):
        return f"{what}; only files that come or go are touched"
    return f"{what}; no file is touched"


def shown(settings: IndexSettings) -> tuple[tuple[str, Any, str, str], ...]:
    """(key, value, layer, place) of every setting, in the order of the tree; without passwords."""
    origins, tree, project = settings.origins, settings.loaded.settings, settings.project
    values = {name: getattr(project, name) for name in ("topics", "linked_indexes") if project.file}
    values |= {key: value_of(tree, key) for key in keys()}
    plain = ValueOrigin("default", "")
    return tuple(
        (key, _open(key, value), *astuple(origins.get(key, plain))) for key, value in values.items()
    )


def _open(key: str, value: Any) -> Any:
    """The value of a setting without secrets."""
    if isinstance(value, str):
        return mask_address(value) if key in ADDRESSES else mask_urls(value)
    return tuple(map(mask_urls, value)) if isinstance(value, tuple) else value
