"""Reads the layers of settings: config file, its `.env`, environment, command line; later ones win.

`${VAR}` and `${VAR:-default}` in the config file are replaced by variables of the environment, else of
that `.env`.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cocosearchd.config.settings import (
    Layer,
    LayerValue,
    LoadedSettings,
    ValueOrigin,
    merge_values,
    parse_value,
    setting_keys,
)
from cocosearchd.config.settings_files import MAX_KEY, SettingEntry, read_env, read_yaml
from cocosearchd.errors import BadSettings

PREFIX = "COCOSEARCH_"
# Further names of variables: names that users would guess, and those of CocoSearch.
ALIASES = {
    "COCOSEARCH_OLLAMA_URL": "embedder.ollama_url",
    "COCOSEARCH_LOG_LEVEL": "log.level",
    "COCOSEARCH_EMBEDDING_PROVIDER": "embedder.provider",
    "COCOSEARCH_EMBEDDING_MODEL": "embedder.model",
    "COCOSEARCH_EMBEDDING_BASE_URL": "embedder.url",
    "COCOSEARCH_EMBEDDING_OUTPUT_DIMENSION": "embedder.dimension",
}
# Variables that are read elsewhere: the directories of the daemon (both programs must agree on them:
# `cocosearch_ipc.address`), secrets, and the directory of PostgreSQL's binaries.
NOT_SETTINGS = frozenset(
    {
        "COCOSEARCH_CONFIG",
        "COCOSEARCH_STATE_DIR",
        "COCOSEARCH_RUNTIME_DIR",
        "COCOSEARCH_PG_BIN",
        "COCOSEARCH_TOKEN",
        "COCOSEARCH_PROJECT",
        "COCOSEARCH_EMBEDDER_API_KEY",
    }
)
# prefix of variables that are no settings: a project's file may name only these
FREE = "COCOSEARCH_VAR_"

MAX_EXPANDED = 256 * 1024  # characters that replace the variables of one file

# An unclosed default matches to the end of the text and stays as it is. Otherwise the rest of the
# text would be searched again for each of many unclosed defaults.
_VARIABLE = re.compile(r"\$\{(\w+)(?:\}|:-([^}]*)(?:\}|\Z))")


def load_settings(
    config_file: Path | None,
    environment: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Load all layers except those of projects. Blocking. Raises `BadSettings`.

    `overrides` maps `section.field` to a value of the command line. A missing file counts as empty.
    """
    env_file = read_env(config_file.with_name(".env")) if config_file is not None else ()
    config_entries = read_yaml(config_file) if config_file is not None else ()
    variables = {entry.key: entry.value for entry in env_file} | dict(environment)
    flags = (SettingEntry(key, value, f"--set {key}") for key, value in (overrides or {}).items())
    loaded = merge_values(
        (
            *_parse(expand_variables(config_entries, variables.get), "config file"),
            *_parse(select_settings(env_file), ".env"),
            *_parse(
                select_settings(
                    SettingEntry(name, value, name) for name, value in environment.items()
                ),
                "environment",
            ),
            *_parse(flags, "command line"),
        )
    )
    project_variables = {name: value for name, value in variables.items() if name.startswith(FREE)}
    return replace(loaded, variables=project_variables)


def _parse(entries: Iterable[SettingEntry], layer: Layer) -> Iterator[LayerValue]:
    return (
        parse_value(entry.key, entry.value, ValueOrigin(layer, entry.location)) for entry in entries
    )


def variable_names() -> dict[str, str]:
    """Return environment variables that set a field, each with the key of the field."""
    return {f"{PREFIX}{key.replace('.', '_').upper()}": key for key in setting_keys()} | ALIASES


def select_settings(variables: Iterable[SettingEntry]) -> Iterator[SettingEntry]:
    """Yield entries of the variables that are settings, by the keys of their fields.

    Raises `BadSettings` for a variable with our prefix that sets nothing.
    """
    names = variable_names()
    for entry in variables:
        if entry.key in names:
            yield SettingEntry(names[entry.key], entry.value, entry.location)
        elif (
            entry.key.startswith(PREFIX)
            and entry.key not in NOT_SETTINGS
            and not entry.key.startswith(FREE)
        ):
            matches = difflib.get_close_matches(entry.key, names, 1)
            suffix = "" if entry.location == entry.key else f" in {entry.location}"
            raise BadSettings(
                f"unknown variable {entry.key}{suffix}",
                f"did you mean {matches[0]}?" if matches else "unset it",
            )


def expand_variables(
    entries: Iterable[SettingEntry], variable: Callable[[str], str | None]
) -> Iterator[SettingEntry]:
    """Replace variables in the values of entries. Raises `BadSettings` for an unset variable.

    Also if the replaced texts have more than `MAX_EXPANDED` characters together: the variables of a
    project may be those of its own `.env`.
    """
    room = MAX_EXPANDED
    for entry in entries:
        expansion = _Expansion(entry, variable, room)
        yield SettingEntry(entry.key, expansion.expand(entry.value), entry.location)
        room = expansion.room


class _Expansion:
    """The expansion of the values of one entry. `room` is left for the texts of variables."""

    def __init__(
        self, entry: SettingEntry, variable: Callable[[str], str | None], room: int
    ) -> None:
        self._entry = entry
        self._variable = variable
        self.room = room

    def expand(self, value: Any) -> Any:
        """Replace variables in a text, or in the texts of a list."""
        if isinstance(value, list):
            return [self.expand(item) for item in value]
        return _VARIABLE.sub(self._replace, value) if isinstance(value, str) else value

    def _replace(self, match: re.Match[str]) -> str:
        if not match[0].endswith("}"):
            return match[0]
        entry = self._entry
        text = self._variable(match[1])
        text = match[2] if not text and match[2] is not None else text
        name = match[1][:MAX_KEY]
        if text is None:
            raise BadSettings(
                f"{entry.key} in {entry.location} needs the variable {name}, which is not set",
                f"set it, or write ${{{name}:-default}}",
            )
        self.room -= len(text)
        if self.room < 0:
            raise BadSettings(
                f"the variables in {entry.location} have more than {MAX_EXPANDED} characters",
                "use shorter ones",
            )
        return text
