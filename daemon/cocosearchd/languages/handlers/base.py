"""The interfaces of handlers and dialects, and their result."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cocosearchd.model import Symbol

_HIERARCHY_SEPARATOR = re.compile(r" > |/(?=[a-z]+:)")
_KIND = re.compile(r"^[a-z]+:(?! )")


@dataclass(frozen=True, slots=True)
class Block:
    """A named part of a file that is no definition: a stage, a job, a resource, a section.

    Bytes are half-open. Blocks nest or are disjoint; they never cross. `hierarchy` is for people:
    `resource.aws_s3_bucket.data`, `stage:builder`, `job:test/step:Checkout`.
    """

    block_type: str
    hierarchy: str
    start_byte: int
    end_byte: int

    @property
    def title(self) -> str:
        """The last part of the hierarchy, without its kind: `builder`, `Checkout`.

        A dotted address is one part.
        """
        return _KIND.sub("", _HIERARCHY_SEPARATOR.split(self.hierarchy)[-1])


class Handler(Protocol):
    """Reads the blocks of files of one language."""

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return the blocks of a file, outer before inner, in order. Never raises.

        `symbols` are the results of the language's query.
        """


class Dialect(Handler, Protocol):
    """Files of a language with a structure of their own, such as workflows within YAML."""

    @property
    def name(self) -> str:
        """The language id of such files: `github-actions`."""

    @property
    def base_languages(self) -> tuple[str, ...]:
        """The languages of which it is a dialect; the first one's grammar parses it."""

    @property
    def version(self) -> int:
        """The number of its rules: raise it if it matches other files or reads other blocks.

        Files of its languages are then read again.
        """

    def matches(self, path: str, head: str) -> bool:
        """Return True if a file is of this dialect, by its path and first kilobytes."""
