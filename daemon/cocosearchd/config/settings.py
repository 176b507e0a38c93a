"""The settings tree, and the merging of layers of values into one.

Every field of a section is a key of the config file (YAML: `section: {field: value}`) and an
environment variable `COCOSEARCH_SECTION_FIELD`. Keys in camelCase mean the same. Unknown keys are
refused with the nearest valid one. Lists in the environment are separated by commas.
`layers` reads the layers.
"""

import difflib
import re
import types
import typing
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from cocosearchd.errors import BadSettings

Layer = Literal["default", "config file", "project", ".env", "environment", "command line"]
# The choices of settings; tables and modules implement each of them.
Provider = Literal["builtin", "ollama", "openai", "onnx", "sentence-transformers"]
Chunker = Literal["definitions", "recursive"]
Profile = Literal["code", "classic"]
SearchEngine = Literal["memory", "postgresql"]
RerankerName = Literal["auto", "functional", "spacy", "disabled"]
# Later layers win.
LAYERS: tuple[Layer, ...] = typing.get_args(Layer)
# Each layer adds to the values of the layers below it.
ADDITIVE_KEYS = frozenset({"indexing.extend_include", "indexing.extend_exclude"})
# Addresses of servers, which are shown without their secrets.
ADDRESSES = ("database.url", "embedder.url", "embedder.ollama_url")

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
# Other names of sections and fields: those of CocoSearch's settings files, and common ones.
_SECTION_ALIASES = {"embedding": "embedder", "logging": "log"}
_FIELD_ALIASES = {
    "sources": "watching.sources",
    "indexing.include_patterns": "indexing.include",
    "indexing.exclude_patterns": "indexing.exclude",
    "indexing.extend_include_patterns": "indexing.extend_include",
    "indexing.extend_exclude_patterns": "indexing.extend_exclude",
    "indexing.max_file_size": "indexing.max_file_bytes",
    "search.result_limit": "search.limit",
    "embedder.base_url": "embedder.url",
    "embedder.output_dimension": "embedder.dimension",
}


# Upper bound on the bytes that are read of one file, for any `max_file_bytes`: a file may have grown
# before a search reads it.
LARGEST_FILE_BYTES = 64 << 20
MAX_RESULTS = 200  # of one search, or of a search for related code
_DAY_S = 86_400
_TERABYTE = 1 << 40
# An amount of memory in the syntax of PostgreSQL. A number without a unit counts blocks of 8 kB.
_MEMORY = re.compile(r"([0-9]{1,13}(?:\.[0-9]{1,3})?) ?(B|kB|MB|GB|TB|)")
_UNIT_BYTES = {"": 8192, "B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_MIN_SHARED_BUFFERS = 128 << 10  # PostgreSQL does not start with less
_MAX_SHOWN = 60  # characters of a wrong value that an error quotes
_VECTOR_CACHE_BYTES = 256 << 20  # for a model that takes milliseconds for each text


def _number(default: float | None, low: float, high: float) -> Any:
    """Return a field that may be set from `low` to `high`."""
    return field(default=default, metadata=MappingProxyType({"within": (low, high)}))


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """PostgreSQL. Without a URL, an embedded server runs below the state directory."""

    url: str = ""
    pool_min: int = _number(2, 1, 1000)
    pool_max: int = _number(8, 1, 1000)
    statement_timeout_ms: int = _number(5000, 0, 3_600_000)  # 0: never
    shared_buffers: str = "128MB"
    follow: tuple[str, ...] = ()  # schemas of other daemons: their indexes can be searched as well
    # of all followed indexes together
    follow_max_chunks: int = _number(1_000_000, 1, 1_000_000_000)


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    """Model of the vectors. Empty fields take the provider's default."""

    provider: Provider = "builtin"
    model: str = ""
    url: str = ""
    ollama_url: str = "http://localhost:11434"
    api_key_variable: str = "OPENAI_API_KEY"
    dimension: int = _number(0, 0, 4000)
    document_prefix: str | None = None
    query_prefix: str | None = None
    max_tokens: int = _number(0, 0, 1_000_000)
    batch_size: int = _number(32, 1, 10_000)
    timeout_s: float = _number(60.0, 0.1, 3600)
    # after this time a question is answered without its vector
    query_timeout_s: float = _number(5.0, 0.1, 3600)
    # size of the vector cache of each embedder; 0: no cache; None: by the provider
    cache_bytes: int | None = _number(None, 0, _TERABYTE)

    @property
    def vector_cache_bytes(self) -> int:
        """The size of the vector cache. By default the built-in model has no cache.

        The built-in model takes 0.1 ms of CPU for a text, and a cache entry takes as much disk as the
        text (measured).
        """
        if self.cache_bytes is not None:
            return self.cache_bytes
        return 0 if self.provider == "builtin" else _VECTOR_CACHE_BYTES


@dataclass(frozen=True, slots=True)
class IndexingSettings:
    """Selection, chunking and processing of files. Sizes are bytes."""

    chunker: Chunker = "definitions"
    chunk_size: int = _number(1000, 100, 100_000)
    # for the chunker `recursive` only: chunks of `definitions` need no overlap
    chunk_overlap: int = _number(300, 0, 50_000)
    max_file_bytes: int = _number(1 << 20, 1, LARGEST_FILE_BYTES)
    include: tuple[str, ...] = ()  # globs; empty: every supported type
    exclude: tuple[str, ...] = ()
    # added to `include`, or to the supported types if that is empty
    extend_include: tuple[str, ...] = ()
    extend_exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    index_secrets: bool = False
    queries_dir: str = ""  # <language>.scm files that extend or replace the built-in symbol queries
    # files between read and commit: a kill loses their work, but with fewer files each costs more
    inflight_files: int = _number(256, 1, 4096)
    # size of the manifest cache of all indexes; 0: no cache
    cache_bytes: int = _number(256 << 20, 0, _TERABYTE)
    nice: int = _number(5, 0, 19)
    # worker processes of the bulk pool; None: by the number of cores
    processes: int | None = _number(None, 0, 16)
    # bulk work waits while the disk of the state directory has less room
    min_free_bytes: int = _number(512 << 20, 0, _TERABYTE)
    pause_on_battery: bool = False  # bulk work waits while the computer runs on its battery


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Defaults of a query, which a request may override, and the cache of answers."""

    profile: Profile = "code"
    # `postgresql`: PostgreSQL keeps words and vector indexes for `classic`, used or not
    engine: SearchEngine = "memory"
    limit: int = _number(10, 1, MAX_RESULTS)
    # at most half of the time that clients wait for an answer
    sync_timeout_ms: int = _number(2000, 0, 30_000)
    reranker: RerankerName = "disabled"
    cache_bytes: int = _number(64 << 20, 0, _TERABYTE)
    cache_ttl_s: float = _number(86_400.0, 0, 3650 * _DAY_S)
    context_lines: int = _number(50, 0, 10_000)
    line_width: int = _number(200, 10, 100_000)
    # the commits of a repository order the later files of long questions
    history: bool = True
    # weights of the profile `code`, as training.ranking.fit writes them; empty: the shipped weights
    weights_file: str = ""


@dataclass(frozen=True, slots=True)
class WatchingSettings:
    """Detection of changes."""

    backend: Literal["auto", "inotify", "watchfiles", "polling"] = "auto"
    sources: tuple[str, ...] = ()  # directories that are watched from the start; see `sources`
    # for the backend `watchfiles` only; a value below 50 costs CPU at rest (measured)
    debounce_ms: int = _number(100, 1, 60_000)
    rescan_s: float = _number(600.0, 1, 365 * _DAY_S)
    idle_rescan_s: float = _number(60.0, 1, 365 * _DAY_S)
    retry_base_s: float = _number(1.0, 0.01, _DAY_S)
    retry_max_s: float = _number(300.0, 0.01, _DAY_S)
    poll_s: float = _number(2.0, 0.05, _DAY_S)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The TCP listener for MCP and the status page. Port 0 takes any free port.

    A `host` other than loopback needs `remote`, and TLS: `tls_cert` and `tls_key` name PEM files.
    """

    host: str = "127.0.0.1"
    port: int = _number(8765, 0, 65_535)
    enabled: bool = True
    remote: bool = False
    # further names of this host that clients use, beside `host` and the names of loopback
    hosts: tuple[str, ...] = ()
    tls_cert: str = ""
    tls_key: str = ""
    max_body_bytes: int = _number(1 << 20, 1024, 1 << 30)
    # assistants may add directories below these to the indexes
    allowed_roots: tuple[str, ...] = ("~",)
    answer_tokens: int = _number(1500, 300, 100_000)  # approximate size of an answer over MCP
    watchdog_s: float = _number(30, 0, 3600)  # 0: never


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Log records on stderr. `auto`: text on a terminal, JSON elsewhere."""

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
class ValueOrigin:
    """Origin of a value: the layer, and its file and line, variable or option."""

    layer: Layer
    location: str


@dataclass(frozen=True, slots=True)
class LayerValue:
    """A converted value of a `section.field`, with its origin."""

    key: str
    value: Any
    origin: ValueOrigin


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, the origins of values that are not defaults, and all values in layer order."""

    settings: Settings
    origins: Mapping[str, ValueOrigin]
    values: tuple[LayerValue, ...] = ()
    # variables that a project's file may use
    variables: Mapping[str, str] = field(default_factory=dict)

    def with_values(self, values: Iterable[LayerValue]) -> "LoadedSettings":
        """Add values, each at its layer. Raises `BadSettings` if they do not fit together."""
        return replace(merge_values((*self.values, *values)), variables=self.variables)


def merge_values(values: Iterable[LayerValue]) -> LoadedSettings:
    """Merge values: later layers win, and later values within a layer. Raises `BadSettings`."""
    ordered = tuple(sorted(values, key=lambda entry: LAYERS.index(entry.origin.layer)))
    settings = Settings()
    origins: dict[str, ValueOrigin] = {}
    for item in ordered:
        value = item.value
        origin = item.origin
        if item.key in ADDITIVE_KEYS and item.key in origins:
            value = (*get_value(settings, item.key), *value)
            origin = ValueOrigin(
                origin.layer, f"{origin.location} and {origins[item.key].location}"
            )
        settings = _with_value(settings, item.key, value)
        origins[item.key] = origin
    _check(settings, origins)
    return LoadedSettings(settings, origins, ordered)


def parse_value(key: str, value: Any, origin: ValueOrigin) -> LayerValue:
    """Convert a value of a key, both as written in a layer. Raises `BadSettings`."""
    full_key = canonical_key(key)
    if full_key not in setting_keys():
        raise unknown_setting(key, setting_keys(), origin)
    section, _, name = full_key.partition(".")
    kind = _section_type(section)
    where = f"{key} in {origin.location}"
    converted = _convert(typing.get_type_hints(kind)[name], value, where)
    within = next(f for f in fields(kind) if f.name == name).metadata.get("within")
    if within and converted is not None and not within[0] <= converted <= within[1]:
        raise BadSettings(
            f"{where} is {_shorten_value(converted)}", f"use {within[0]} to {within[1]}"
        )
    return LayerValue(full_key, converted, origin)


def unknown_setting(key: str, valid: Iterable[str], origin: ValueOrigin) -> BadSettings:
    """Make the error for an unknown key; its hint is the nearest valid key in the user's spelling."""
    matches = difflib.get_close_matches(canonical_key(key), list(valid), 1)
    hint = "docs/settings.md lists the settings"
    if matches:
        hint = f"did you mean {_camel_case(matches[0]) if _HUMP.search(key) else matches[0]}?"
    return BadSettings(f"unknown setting {key!r} in {origin.location}", hint)


@cache
def setting_keys() -> tuple[str, ...]:
    """Return every `section.field`, in the order of the tree."""
    return tuple(
        f"{s.name}.{f.name}" for s in fields(Settings) for f in fields(_section_type(s.name))
    )


def canonical_key(key: str) -> str:
    """Return the `section.field` of a key, which may be in camelCase or have another name."""
    section, dot, name = _HUMP.sub(lambda m: f"_{m[1].lower()}", key).partition(".")
    full_key = f"{_SECTION_ALIASES.get(section, section)}{dot}{name}"
    return _FIELD_ALIASES.get(full_key, full_key)


def get_value(settings: Settings, key: str) -> Any:
    """Return the value of a `section.field`."""
    section, _, name = key.partition(".")
    return getattr(getattr(settings, section), name)


def _camel_case(key: str) -> str:
    return re.sub(r"_([a-z])", lambda m: m[1].upper(), key)


def _section_type(section: str) -> type[Any]:
    section_type = typing.get_type_hints(Settings)[section]
    assert is_dataclass(section_type)
    return typing.cast(type[Any], section_type)


def _with_value(settings: Settings, key: str, value: Any) -> Settings:
    section, _, name = key.partition(".")
    return replace(settings, **{section: replace(getattr(settings, section), **{name: value})})


def _check(settings: Settings, origins: Mapping[str, ValueOrigin]) -> None:
    """Check what types and ranges do not state. Raises `BadSettings`."""
    _check_database(settings, origins)
    _check_sizes(settings, origins)
    for key in ("server.allowed_roots", "watching.sources"):
        for path in get_value(settings, key):
            if not path.startswith(("/", "~/")) and path != "~":
                raise BadSettings(
                    f"{key}{_source(origins, key)} has {path!r}",
                    "write absolute paths, or such as ~/work",
                )
    variable = settings.embedder.api_key_variable
    if variable and not variable.isidentifier():  # not shown: it may be the key itself
        where = _source(origins, "embedder.api_key_variable")
        raise BadSettings(
            f"embedder.api_key_variable{where} is not the name of a variable",
            "write the name of the environment variable that holds the key, such as OPENAI_API_KEY",
        )
    for key in ("embedder.url", "embedder.ollama_url"):
        if not _is_url(get_value(settings, key)):
            raise BadSettings(
                f"{key}{_source(origins, key)} is not a URL", "write http://HOST:PORT"
            )


def _check_database(settings: Settings, origins: Mapping[str, ValueOrigin]) -> None:
    """Check the memory of the embedded server, and that followed schemas are on a shared one.

    Raises `BadSettings`.
    """
    memory = _MEMORY.fullmatch(settings.database.shared_buffers)
    if memory is None or not _is_shared_memory(float(memory[1]) * _UNIT_BYTES[memory[2]]):
        where = _source(origins, "database.shared_buffers")
        raise BadSettings(
            f"database.shared_buffers{where} is {_shorten_value(settings.database.shared_buffers)}",
            "write a size from 128kB to 1TB, such as 128MB",
        )
    if settings.database.follow and not settings.database.url:
        raise BadSettings(
            f"database.follow{_source(origins, 'database.follow')} needs database.url",
            "set database.url to the PostgreSQL that the daemons share",
        )


def _is_shared_memory(size: float) -> bool:
    return _MIN_SHARED_BUFFERS <= size <= _TERABYTE


def _check_sizes(settings: Settings, origins: Mapping[str, ValueOrigin]) -> None:
    """Check pairs of numbers in which one limits the other. Raises `BadSettings`."""
    pool = settings.database
    if pool.pool_min > pool.pool_max:
        where = _source(origins, "database.pool_min", "database.pool_max")
        raise BadSettings(
            f"database.pool_min{where} is {pool.pool_min}, more than pool_max {pool.pool_max}",
            "use as many or fewer",
        )
    size = settings.indexing.chunk_size
    overlap = settings.indexing.chunk_overlap
    if settings.indexing.chunker == "recursive" and overlap >= size:
        where = _source(origins, "indexing.chunk_overlap", "indexing.chunk_size")
        raise BadSettings(
            f"indexing.chunk_overlap{where} is {overlap}, as large as chunk_size {size}",
            "use a smaller overlap, or a larger chunk_size",
        )


def _source(origins: Mapping[str, ValueOrigin], *keys: str) -> str:
    """Return " in PLACE" for the first key that is set; "" if all are defaults."""
    origin = next((origins[key] for key in keys if key in origins), None)
    return f" in {origin.location}" if origin else ""


def _is_url(text: str) -> bool:
    """Return True if clients can parse a URL; its scheme may be missing, and the text may be empty."""
    try:
        return (
            text.isprintable()
            and urllib.parse.urlsplit(text if "//" in text else f"//{text}").port != 0
        )
    except ValueError:
        return False


def _convert(annotation: Any, value: Any, where: str) -> Any:
    """Convert a value of YAML or the environment to the annotated type. Raises `BadSettings`."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is types.UnionType:
        return None if value is None else _convert(arguments[0], value, where)
    if origin is Literal:
        if value not in arguments:
            choices = ", ".join(map(str, arguments))
            raise BadSettings(f"{where} is {_shorten_value(value)}", f"use one of {choices}")
        return value
    return _texts(value, where) if origin is tuple else _scalar(annotation, value, where)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise BadSettings(
            f"{where} is not a list of texts",
            "write [a, b] in the file, numbers and dates in quotes, a,b in the environment",
        )
    return tuple(item for item in items if item)


def _scalar(kind: type, value: Any, where: str) -> Any:
    text = str(value).strip()
    if kind is bool:
        if text.lower() not in _TRUE | _FALSE:
            raise BadSettings(f"{where} is {_shorten_value(value)}", "use true or false")
        return text.lower() in _TRUE
    if kind is str:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        raise BadSettings(f"{where} is not a text", "put it in quotes if it is one")
    try:
        return kind(text)
    except ValueError:
        raise BadSettings(
            f"{where} is {_shorten_value(value)}", f"use a number ({kind.__name__})"
        ) from None


def _shorten_value(value: Any) -> str:
    """Return the beginning of a value for an error: assistants read what a stranger may have written."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
