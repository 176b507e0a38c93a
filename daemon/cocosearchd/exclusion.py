"""Exclusion reasons: why a file of a root is not searched, and the remedy for users.

One table, from which `status`, `why_not`, `get_file`, the log and the front ends make their
sentences. A part of the daemon that leaves a file out for a reason of its own adds a row here.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from cocosearchd.model import SkipReason

# Stored with the file (`SkipReason`), or known for as long as the daemon runs.
ExclusionCode = (
    SkipReason | Literal["quarantined", "froze", "failed", "embedder_away", "store_away"]
)
STORED_CODES: frozenset[str] = frozenset(get_args(SkipReason))


@dataclass(frozen=True, slots=True)
class Exclusion:
    """One reason. `cause` is a clause whose subject is the file ("it is no text"); `remedy` is an
    imperative clause.
    """

    cause: str
    remedy: str

    @property
    def sentence(self) -> str:
        """Cause and remedy."""
        return f"{self.cause}; {self.remedy}"


EXCLUSIONS: dict[ExclusionCode, Exclusion] = {
    "quarantined": Exclusion(
        "it ended or stalled the process that parses it",
        "change its content, and it is tried again, or exclude it (indexing.extend_exclude)",
    ),
    "froze": Exclusion(
        "the daemon stopped answering while it worked on it",
        "change its content, and it is tried again, or exclude it (indexing.extend_exclude)",
    ),
    "unreadable": Exclusion("it may not be read", "let the daemon's user read it, or exclude it"),
    "too_large": Exclusion(
        "it is larger than indexing.max_file_bytes",
        "raise that setting, or read the file from the disk",
    ),
    "minified": Exclusion(
        "its lines are too long for code that people write", "index the source that it is made from"
    ),
    "secret": Exclusion(
        "it holds a secret (indexing.index_secrets)",
        "remove the secret, or set indexing.index_secrets",
    ),
    "binary": Exclusion("it is no text", "read it from the disk, or save it as UTF-8"),
    "unsupported": Exclusion(
        "its type is not one that is indexed", "name its type in indexing.extend_include"
    ),
    "failed": Exclusion(
        "it could not be indexed", "it is tried again by itself; cocosearchctl logs says more"
    ),
    "embedder_away": Exclusion(
        "the embedder is not available", "start the embedder; the file is indexed when it answers"
    ),
    "store_away": Exclusion(
        "PostgreSQL does not answer", "start PostgreSQL; the file is indexed when it answers"
    ),
}
UNKNOWN = Exclusion(
    "a newer version left it out", "run the newer version, or `cocosearchctl reindex`"
)


def find_exclusion(code: str) -> Exclusion:
    """The exclusion of a code; `UNKNOWN` for a code of a newer version."""
    return next((row for row_code, row in EXCLUSIONS.items() if row_code == code), UNKNOWN)


def unparsed_sentence(path: str, detail: str) -> str:
    """One sentence about a file that is searched as plain text; `detail` is its parser's end."""
    row = EXCLUSIONS["quarantined"]
    return f"{path} is searched as plain text, without definitions: {row.cause} ({detail}); {row.remedy}"


def exclusion_sentence(path: str, code: str, detail: str = "") -> str:
    """One sentence: the path, the cause, made exact by `detail`, and the remedy."""
    row = find_exclusion(code)
    return f"{path} is left out: {row.cause}{f' ({detail})' if detail else ''}; {row.remedy}"
