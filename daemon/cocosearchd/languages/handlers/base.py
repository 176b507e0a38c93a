"""The ports of handlers and grammars, and the value they produce."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cocosearchd.model import Symbol

_PLACE = re.compile(r" > |/(?=[a-z]+:)")
_KIND = re.compile(r"^[a-z]+:(?! )")


@dataclass(frozen=True, slots=True)
class Block:
    """A named part of a file that is no definition of a programming language: a stage, a job, a
    resource, a section.

    Bytes are half-open. Blocks nest or are apart; they never cross. `hierarchy` is what people
    read: `resource.aws_s3_bucket.data`, `stage:builder`, `job:test/step:Checkout`.
    """

    block_type: str
    hierarchy: str
    start_byte: int
    end_byte: int

    @property
    def title(self) -> str:
        """The last part of the place, without its kind: `builder`, `Checkout`; a dotted address
        stays whole.
        """
        return _KIND.sub("", _PLACE.split(self.hierarchy)[-1])


class Handler(Protocol):
    """Says which blocks a file of one language has."""

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """The blocks of a file, outer before inner, in order. `symbols` are what its query found.
        Never raises.
        """


class Grammar(Handler, Protocol):
    """A kind of file within a language, such as a workflow within YAML."""

    @property
    def name(self) -> str:
        """The language id of such files: `github-actions`."""

    @property
    def base_languages(self) -> tuple[str, ...]:
        """The languages it is a kind of; the first is the one it is parsed as."""

    def matches(self, path: str, head: str) -> bool:
        """Whether the file is of this kind, by its path and first kilobytes."""
