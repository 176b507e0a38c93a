"""The settings tree, read once: defaults, then the config file, then the environment, then the command line.

Every field of a section is a key of the config file (YAML: `section: {field: value}`) and an environment variable
`COCOSEARCH_SECTION_FIELD`. Unknown keys are refused with the nearest valid one. Lists in the environment are separated
by commas. `${VAR}` and `${VAR:-default}` are replaced in the config file.
"""

import difflib
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from cocosearchd.errors import BadSettings

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}
# Names that a person would guess, for fields whose derived name is another.
ALIASES = {
    "COCOSEARCH_OLLAMA_URL": "embedder.ollama_url",
    "COCOSEARCH_LOG_LEVEL": "log.level",
}
# Read elsewhere: where the daemon lives (both programs must agree on it: `cocosearch_ipc.address`), secrets, and where
# PostgreSQL's binaries are.
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


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """PostgreSQL. Without a URL an embedded server is run below the state directory."""

    url: str = ""
    pool_min: int = 2
    pool_max: int = 8
    statement_timeout_ms: int = 5000
    shared_buffers: str = "128MB"


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    """Which model makes the vectors. Empty fields take the provider's default."""

    provider: Literal["builtin", "ollama", "openai", "onnx", "sentence-transformers"] = "builtin"
    model: str = ""
    url: str = ""
    ollama_url: str = "http://localhost:11434"
    api_key_variable: str = "OPENAI_API_KEY"
    dimension: int = 0
    document_prefix: str | None = None
    query_prefix: str | None = None
    max_tokens: int = 0
    batch_size: int = 32
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class IndexingSettings:
    """What is indexed, and how it is cut. Sizes are bytes."""

    chunker: Literal["definitions", "recursive"] = "definitions"
    chunk_size: int = 1000
    chunk_overlap: int = 300  # used by `recursive` only: overlap buys nothing for aligned chunks
    max_file_bytes: int = 1 << 20
    include: tuple[str, ...] = ()  # globs; empty: every supported type
    exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    index_secrets: bool = False
    queries_dir: str = ""  # <language>.scm files that extend or replace the built-in symbol queries
    inflight_files: int = 24  # files between read and commit: what a kill may lose (measured optimum 16 to 32)
    nice: int = 5


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Defaults of a query."""

    profile: Literal["code", "classic"] = "code"
    limit: int = 10
    sync_timeout_ms: int = 2000
    reranker: Literal["auto", "functional", "spacy", "disabled"] = "disabled"
    cache_bytes: int = 64 << 20
    cache_ttl_s: float = 86_400.0
    context_lines: int = 50
    line_width: int = 200
    weights_file: str = ""  # of the profile `code`, as training.ranking.fit writes it; empty: those that ship


@dataclass(frozen=True, slots=True)
class WatchingSettings:
    """How changes are noticed."""

    backend: Literal["auto", "inotify", "watchfiles", "polling"] = "auto"
    debounce_ms: int = 100  # watchfiles only; measured: below 50 it costs idle CPU
    rescan_s: float = 600.0
    idle_rescan_s: float = 60.0
    retry_base_s: float = 1.0
    retry_max_s: float = 300.0
    poll_s: float = 2.0


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The loopback listener for MCP. Port 0 takes any free one."""

    host: str = "127.0.0.1"
    port: int = 8765
    enabled: bool = True
    max_body_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged to stderr. `auto`: for people on a terminal, JSON elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one daemon. Frozen: a reload makes a new tree."""

    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    indexing: IndexingSettings = field(default_factory=IndexingSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    watching: WatchingSettings = field(default_factory=WatchingSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    log: LogSettings = field(default_factory=LogSettings)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings and, for every key that is not a default, the name of the layer that set it."""

    settings: Settings
    origins: Mapping[str, str]


def load(
    config_file: Path | None,
    environment: Mapping[str, str],
    overrides: Mapping[str, Any] | None = None,
) -> Loaded:
    """Merge the layers, later ones win. `overrides` maps `section.field` to a value from the command line.

    A `config_file` that does not exist counts as empty. Raises `BadSettings`.
    """
    layers: list[tuple[str, dict[str, Any]]] = []
    if config_file is not None and config_file.exists():
        layers.append((str(config_file), _from_yaml(config_file, environment)))
    layers.append(("environment", _from_environment(environment)))
    layers.append(("command line", dict(overrides or {})))
    settings, origins = Settings(), dict[str, str]()
    for origin, values in layers:
        for key, value in values.items():
            settings = _with(settings, key, value, origin)
            origins[key] = origin
    return Loaded(settings, origins)


def keys() -> tuple[str, ...]:
    """Every `section.field`, in the order of the tree."""
    return tuple(f"{s.name}.{f.name}" for s in fields(Settings) for f in fields(_section_type(s.name)))


def value_of(settings: Settings, key: str) -> Any:
    """The value of a `section.field`."""
    section, _, name = key.partition(".")
    return getattr(getattr(settings, section), name)


def _section_type(section: str) -> type[Any]:
    found = typing.get_type_hints(Settings)[section]
    assert is_dataclass(found)
    return typing.cast(type[Any], found)


def _with(settings: Settings, key: str, value: Any, origin: str) -> Settings:
    if key not in keys():
        near = difflib.get_close_matches(key, keys(), 1)
        raise BadSettings(f"unknown setting {key!r} in {origin}", f"did you mean {near[0]}?" if near else "")
    section, _, name = key.partition(".")
    annotation = typing.get_type_hints(_section_type(section))[name]
    converted = _convert(annotation, value, f"{key} in {origin}")
    return replace(settings, **{section: replace(getattr(settings, section), **{name: converted})})


def _convert(annotation: Any, value: Any, where: str) -> Any:
    """`value` (YAML's or the environment's text) as the annotated type. Raises `BadSettings`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is types.UnionType:
        return None if value is None else _convert(arguments[0], value, where)
    if origin is Literal:
        if value not in arguments:
            raise BadSettings(f"{where} is {value!r}", f"use one of {', '.join(map(str, arguments))}")
        return value
    if origin is tuple:
        items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise BadSettings(f"{where} is not a list of texts", "write [a, b] in the file, a,b in the environment")
        return tuple(item for item in items if item)
    return _scalar(annotation, value, where)


def _scalar(kind: type, value: Any, where: str) -> Any:
    text = str(value).strip()
    if kind is bool:
        if text.lower() not in _TRUE | _FALSE:
            raise BadSettings(f"{where} is {value!r}", "use true or false")
        return text.lower() in _TRUE
    if kind is str:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        raise BadSettings(f"{where} is not a text", "")
    try:
        return kind(text)
    except ValueError:
        raise BadSettings(f"{where} is {value!r}", f"use a number ({kind.__name__})") from None


def _from_yaml(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text("utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadSettings(f"cannot read {path}: {error}", "mend the file or set COCOSEARCH_CONFIG") from error
    found = dict[str, Any]()
    if not isinstance(tree, dict) or not all(isinstance(section, dict) for section in tree.values()):
        raise BadSettings(f"{path} is not sections of settings", "write `section:` and below it `  field: value`")
    for section, values in tree.items():
        for name, value in values.items():
            found[f"{section}.{name}"] = _expand(value, environment)
    return found


def _expand(value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda m: environment.get(m[1]) or m[2] or "", value)
    if isinstance(value, list):
        return [_expand(item, environment) for item in value]
    return value


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    names = {f"COCOSEARCH_{key.replace('.', '_').upper()}": key for key in keys()} | ALIASES
    found = dict[str, Any]()
    for variable, value in environment.items():
        if not variable.startswith("COCOSEARCH_") or variable in NOT_SETTINGS:
            continue
        if variable not in names:
            near = difflib.get_close_matches(variable, names, 1)
            raise BadSettings(f"unknown variable {variable}", f"did you mean {near[0]}?" if near else "unset it")
        found[names[variable]] = value
    return found
