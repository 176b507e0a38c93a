r"""Values that the stages of both flows exchange: frozen, without further behaviour.

Conventions of all modules:
- **Bytes**: every byte range is half-open, counted from 0 in the file as it is on disk (BOM and CR included).
- **Lines**: counted from 1; a line range is inclusive at both ends.
- **Vectors**: float32, L2-normalised, shape ``(dimension,)``; the all-zero vector means "nothing known" and is stored
  as NULL, because its cosine distance is undefined.
- **Paths**: the path of a file inside its root is a `str` made by `path_text`: `/` between parts, backslash doubled,
  and each byte that is not UTF-8 written as ``\xNN``. It is unique, reversible and valid UTF-8, so it can be a key in
  PostgreSQL and in JSON. Only code that opens files turns it back into bytes, with `path_bytes`.
"""

import hashlib
import os
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self

ParseStatus = Literal["ok", "partial", "error", "no_grammar"]
MatchType = Literal["semantic", "keyword", "both"]
# The fingerprint of an embedder as sorted pairs of name and value, see `EmbedderFingerprint.pairs`.
EmbedderPairs = tuple[tuple[str, str], ...]
SkipReason = Literal["binary", "too_large", "minified", "unreadable", "secret", "unsupported"]


def hash_content(data: bytes) -> bytes:
    """Return the content hash of a file: blake2b of its bytes, 16 bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()


# The "racy git" problem: two writes within this time can leave the same timestamps, so equal
# fingerprints do not prove equal content yet.
RACY_NS = 2_000_000_000
# Set in the stored mode of a file that was read within that time after its change; no mode of a kernel
# has this bit.
READ_YOUNG = 1 << 32
_MAX_TIME_NS = (1 << 63) - 1


class Fingerprint(NamedTuple):
    """Fields of `lstat` of a file.

    Equal fingerprints that are old enough prove equal content; unequal fingerprints prove nothing.

    Times are nanoseconds since the epoch, as signed numbers of 64 bits; later times than the year
    2262 wrap around. ctime reveals a restored mtime. A stored fingerprint of which only the device
    is not 0 equals that of no file. It is a tuple for the same reason as `FileRecord`.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int

    @classmethod
    def from_status(cls, status: os.stat_result) -> Self:
        """Return the fingerprint of a file with this status."""
        return cls(
            status.st_dev,
            status.st_ino,
            status.st_size,
            _wrap_time(status.st_mtime_ns),
            _wrap_time(status.st_ctime_ns),
            status.st_mode,
        )


def _wrap_time(time_ns: int) -> int:
    """Wrap a time to a signed number of 64 bits: archives set any time that a file system takes."""
    if -_MAX_TIME_NS <= time_ns <= _MAX_TIME_NS:
        return time_ns
    return (time_ns + _MAX_TIME_NS + 1) % (2 * _MAX_TIME_NS + 2) - _MAX_TIME_NS - 1


class Revision(NamedTuple):
    """A commit of a git repository: its object id, its message, and the paths that it changed.

    Its paths are below the root of an index. A `Commit` is one of an index.
    """

    id: str
    message: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named definition. `signature` is one line of at most 200 characters."""

    # function, method, class, interface, struct, enum, trait, module, type, constant, ...
    kind: str
    name: str  # last part: get_user
    qualified_name: str  # UserService.get_user
    signature: str
    parent: str | None  # qualified name of the enclosing definition
    start_byte: int
    end_byte: int
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class PackedCode:
    """The columns of a file that follow from its parsed code; None: not known.

    Each is packed by the module of `languages` that its comment names.
    """

    scopes: bytes | None = None  # `definition_ranges`
    symbols: bytes | None = None  # `symbol_table`
    facts: bytes | None = None  # `fact_table`
    name_hashes: bytes | None = None  # `name_hashes`


NO_CODE = PackedCode()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A byte range of a file, the unit of embedding and search.

    `text` is the range decoded as UTF-8 with replacement; `header` is the line that is embedded and
    keyword-indexed in front of it (path, enclosing and defined names) and is never shown. A chunk
    that is not inside or around a definition has no symbol.
    """

    start_byte: int
    end_byte: int
    start_line: int
    end_line: int
    text: str
    header: str
    language: str
    block_type: str = ""
    hierarchy: str = ""
    symbol_type: str | None = None
    symbol_name: str | None = None
    symbol_signature: str | None = None
    definitions: tuple[str, ...] = ()  # names defined inside the chunk, in order
    # every definition that starts inside the chunk, for symbol filters
    symbols: tuple[Symbol, ...] = ()


@dataclass(frozen=True, slots=True)
class ParseReport:
    """Parse health of one file."""

    status: ParseStatus
    error_count: int = 0
    error_message: str = ""


class FileRecord(NamedTuple):
    """One stored file of an index. It is a tuple because a restart creates one for each file."""

    path: str
    content_hash: bytes  # blake2b, 16 bytes, of the file's bytes
    fingerprint: Fingerprint | None  # None: unknown, read the file again
    generation: int
    chunk_count: int
    language: str
    skip_reason: SkipReason | None = None


@dataclass(frozen=True, slots=True)
class IndexIdentity:
    """The embedder, chunker and header version of rows. All rows of an index have one identity."""

    embedder: EmbedderPairs
    chunker: str  # name and version: "definitions-1", "recursive-1:1000/300"
    header_version: int

    @property
    def model(self) -> str:
        """Provider and model of the embedder, for messages."""
        embedder = dict(self.embedder)
        return f"{embedder.get('provider')}/{embedder.get('model')}"


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """One row of the registry. Names of tables contain `slug`, names of SQL indexes `number`."""

    number: int
    name: str
    slug: str
    root: bytes  # absolute, resolved
    topics: tuple[str, ...]
    dimension: int
    identity: IndexIdentity
    generation: int
    # sorted pairs: further settings that shaped the rows, see `store.invalidation`
    shaping_settings: tuple[tuple[str, str], ...] = ()
    # of a followed index: the schema of the daemon that owns it; "": this daemon's own index
    schema: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """Schema and number: they identify the index for ever, as a number is never reused."""
        return self.schema, self.number

    @property
    def is_followed(self) -> bool:
        """True if another daemon owns the index: it is only read, and its disk is out of reach."""
        return bool(self.schema)

    @property
    def location(self) -> bytes:
        """The root, made unique among all daemons: two hosts may have roots of the same path."""
        return self.schema.encode() + b":" + self.root if self.schema else self.root

    @property
    def owner_name(self) -> str:
        """The owner's name for the index; `name` adds the schema if the index is followed."""
        return self.name.removesuffix(f"@{self.schema}") if self.schema else self.name


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction that changed an index. It has paths only: readers fetch the rows themselves."""

    index: str
    generation: int
    paths: tuple[str, ...]
    urgent: bool = False  # files that a user has just saved
    # clock of the root before this commit: all earlier changes had been published
    as_of: "Clock | None" = None


@dataclass(frozen=True, slots=True)
class Clock:
    """A point in the life of a root: `seq` counts the changes noticed within one `epoch`."""

    epoch: str
    seq: int


@dataclass(frozen=True, slots=True)
class Place:
    """Another place of a hit's file that answers. Lines are 1-based, inclusive; bytes half-open.

    `line` is the line to open, and `text` is that line. `similar_lines` are the first lines of
    nearly equal places that this one represents. `content` has all lines of the place if a budget has
    room for them, else "".
    """

    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    symbol_type: str | None
    symbol_name: str | None
    symbol_signature: str | None
    relevance: float
    line: int
    text: str
    similar_lines: tuple[int, ...] = ()
    content: str = ""


class RankedPlace(NamedTuple):
    """A place of a file by its bytes. All places of an answer can be compared by `score`.

    It is a tuple because an answer to a report has hundreds of places.
    """

    start_byte: int
    end_byte: int
    score: float
    relevance: float


@dataclass(frozen=True, slots=True)
class Hit:
    """The best place of a file, and its other places that answer (`other_places`), best first.

    `relevance` is the estimated probability, 0 to 1, that the place answers the query. `line` is
    the line to open. `compared_places` are all compared places of the file, best first. They are set
    for a long question if the file is among the first hits: a budget is spent on them.
    """

    index: str
    path: str
    start_byte: int
    end_byte: int
    start_line: int
    end_line: int
    language: str
    score: float
    match_type: MatchType
    block_type: str
    hierarchy: str
    symbol_type: str | None
    symbol_name: str | None
    symbol_signature: str | None
    content: str
    context_before: str = ""
    context_after: str = ""
    # for explain
    signals: tuple[tuple[str, float], ...] = field(default=(), compare=False)
    stale: bool = False  # the file is no longer as it was indexed: `content` is what was stored
    overlay: bool = False  # `content` is a client's unsaved text
    relevance: float = 0.0
    line: int = 0
    other_places: tuple[Place, ...] = ()
    similar_paths: tuple[str, ...] = ()  # other files that are alike
    similar_lines: tuple[int, ...] = ()  # first lines of nearly equal places of the file
    symbol_parent: str | None = None  # of a listed symbol
    # related files: the source of a header; the test of a file, if the question asks for tests
    counterparts: tuple[str, ...] = ()
    frame_lines: tuple[int, ...] = ()  # that frames of the question name, innermost first
    compared_places: tuple[RankedPlace, ...] = field(default=(), compare=False, repr=False)
