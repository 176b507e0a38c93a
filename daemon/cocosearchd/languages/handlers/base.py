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

    The byte range is half-open. Two blocks are nested or disjoint; they never overlap partly.
    `hierarchy` is for people: `resource.aws_s3_bucket.data`, `stage:builder`,
    `job:test/step:Checkout`.
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
        """Return the blocks of a file in order, outer before inner. Never raises.

        `symbols` are the results of the symbol query of the language.
        """


class Dialect(Handler, Protocol):
    """Reads files of a language that have a structure of their own, such as workflows in YAML."""

    @property
    def name(self) -> str:
        """The language id of such files: `github-actions`."""

    @property
    def base_languages(self) -> tuple[str, ...]:
        """The languages that it is a dialect of. The grammar of the first one parses its files."""

    @property
    def version(self) -> int:
        """The number of its rules: raise it if it matches other files or reads other blocks.

        Files of its languages are then read again.
        """

    def matches(self, path: str, head: str) -> bool:
        """Return True if a file is of this dialect, judged by its path and first kilobytes."""
