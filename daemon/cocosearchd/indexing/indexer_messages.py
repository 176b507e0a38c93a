"""Messages between the daemon and the indexer process: one JSON object a line in each direction.

    daemon -> indexer first line: an IndexerSpec
                      {"do": "open", "record", "rules"}        an index whose batches will follow
                      {"do": "work", "id", "index", "paths", "gone", "force", "urgent"}
                      {"do": "close", "id", "index", "forget"} forget: drop CocoIndex's memory of it as well
                      {"do": "set_aside", "index", "path", "reason"}  its content ended the process: never index it
                      {"do": "ping", "id"}
    indexer -> daemon {"ready": true}                          it holds the lock and listens
                      {"id", "generation", "failed": {path: text}, "set_aside": [path],
                       "done": {"computed", "reused", "parsed"}}
                      {"id", "committed": generation}          all rows of an urgent batch; its answer follows
                      {"id"}                                   closed, or alive

`done` counts embedded texts, reused vectors and parsed contents since the process started. End of
file means stop. The order of lines matters only within one index. Both ends import this module, which
imports neither CocoIndex nor sockets.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from cocosearchd.config.settings import DatabaseSettings, EmbedderSettings, IndexingSettings
from cocosearchd.forms.path_forms import path_bytes, path_text
from cocosearchd.model import IndexIdentity, IndexRecord

LINE_BYTES = 1 << 22  # 128 paths of 4 kB, escaped, fit a line

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IndexerSpec:
    """All values that the indexer process needs to start.

    It reads neither settings files nor the environment.
    """

    dsn: str
    state_dir: str
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    indexing: IndexingSettings = field(default_factory=IndexingSettings)
    api_key: str = field(default="", repr=False)
    # time that a file waits for a restarting PostgreSQL before it fails
    store_wait_s: float = 10.0
    # Only tests set these two: the process aborts, or stops answering, when it is about to index a
    # file with this path suffix. The recovery needs tests, and no real file is known that ends or
    # stalls the process reliably.
    crash_on: str = ""
    hang_on: str = ""
    # the owner of the registry, see `instance_lock`; "": the server is the daemon's alone
    owner: str = ""

    @property
    def cocoindex_dir(self) -> Path:
        """The folder of CocoIndex's state, of all databases."""
        return Path(self.state_dir) / "cocoindex"

    @property
    def series(self) -> str:
        """Name of the indexer processes of this state directory; one runs at a time."""
        return path_text(os.fsencode(self.cocoindex_dir))


@dataclass(frozen=True, slots=True)
class IndexRules:
    """Settings of one index that shape its rows, and the user's symbol queries by language."""

    indexing: IndexingSettings = field(default_factory=IndexingSettings)
    queries: tuple[tuple[str, str], ...] = ()


def encode_message(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line. Paths are plain UTF-8, because of `path_forms.path_text`."""
    return json.dumps(message).encode() + b"\n"


def decode_message(line: bytes) -> dict[str, Any]:
    """Return the message of a line. Raises `ValueError` for anything else."""
    try:
        message = json.loads(line)
    except RecursionError as error:
        raise ValueError("a message with too deep nesting") from error
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message


def decode_answer(line: bytes) -> dict[str, Any]:
    """Return the message of a line of the indexer process. Raises `ValueError`."""
    message = decode_message(line)
    valid = message.get("ready") is True or type(message.get("id")) is int
    valid &= type(message.get("committed", 0)) is int
    if not valid or ("generation" in message and not _is_outcome(message)):
        raise ValueError("not an answer")
    return message


def _is_outcome(message: Mapping[str, Any]) -> bool:
    failed = message.get("failed")
    set_aside = message.get("set_aside")
    done = message.get("done")
    if not (isinstance(failed, dict) and isinstance(set_aside, list) and isinstance(done, dict)):
        return False
    are_texts = all(isinstance(text, str) for text in failed.values())
    are_failed_paths = all(isinstance(path, str) and path in failed for path in set_aside)
    numbers = [message["generation"], *done.values()]
    return are_texts and are_failed_paths and all(type(number) is int for number in numbers)


def spec_to_json(spec: IndexerSpec) -> dict[str, Any]:
    """Return the first line as an object."""
    return asdict(spec)


def spec_from_json(message: Mapping[str, Any]) -> IndexerSpec:
    """Return the inverse of `spec_to_json`."""
    sections = {
        "database": DatabaseSettings,
        "embedder": EmbedderSettings,
        "indexing": IndexingSettings,
    }
    return IndexerSpec(
        **{k: _section(sections[k], v) if k in sections else v for k, v in message.items()}
    )


def rules_to_json(rules: IndexRules) -> dict[str, Any]:
    """Return the rules of an index as an object."""
    return asdict(rules)


def rules_from_json(message: Mapping[str, Any]) -> IndexRules:
    """Return the inverse of `rules_to_json`."""
    queries = tuple((language, text) for language, text in message["queries"])
    return IndexRules(_section(IndexingSettings, message["indexing"]), queries)


def record_to_json(record: IndexRecord) -> dict[str, Any]:
    """Return a row of the registry as an object."""
    return asdict(record) | {"root": path_text(record.root)}


def record_from_json(message: Mapping[str, Any]) -> IndexRecord:
    """Return the inverse of `record_to_json`."""
    identity = message["identity"]
    return IndexRecord(
        **{
            **message,
            "root": path_bytes(message["root"]),
            "topics": tuple(message["topics"]),
            "shaping_settings": tuple((name, value) for name, value in message["shaping_settings"]),
            "identity": IndexIdentity(
                tuple((name, value) for name, value in identity["embedder"]),
                identity["chunker"],
                identity["header_version"],
            ),
        }
    )


def _section(kind: type[T], values: Mapping[str, Any]) -> T:
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(
        **{k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k in names}
    )
