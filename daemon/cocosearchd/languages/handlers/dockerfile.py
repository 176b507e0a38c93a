"""Dockerfiles: stages and their instructions."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol

_INSTRUCTION = re.compile(rb"\s*([A-Za-z]+)\b")
_FROM = re.compile(rb"\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)
_WITH_HEREDOC = ("RUN", "COPY", "ADD")
# a word of its own, as BuildKit has it
_HEREDOC = re.compile(rb"(?<!\S)\d*<<-?([\"']?)([^\s<\"']+)\1(?!\S)")


class Dockerfile:
    """`FROM python AS builder` starts the stage at `stage:builder`; each instruction is a block of
    its own in it.
    """

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Stages with their instructions inside. What comes before the first FROM has no stage."""
        instructions = list(_instructions(data))
        froms = [number for number, (word, _, _) in enumerate(instructions) if word == "FROM"]
        found = [
            Block(word, "", start, end)
            for word, start, end in instructions[: froms[0] if froms else None]
        ]
        for number, (first, after) in enumerate(pairwise([*froms, len(instructions)])):
            inside = instructions[first:after]
            place = f"stage:{_stage(data[inside[0][1] : inside[0][2]], number)}"
            found.append(Block("FROM", place, inside[0][1], inside[-1][2]))
            found += (Block(word, place, start, end) for word, start, end in inside[1:])
        return tuple(found)


def _stage(line: bytes, number: int) -> str:
    match = _FROM.match(line)
    name = (match[2] or match[1]) if match else str(number).encode()
    return name.decode("utf-8", "replace")


def _instructions(data: bytes) -> Iterator[tuple[str, int, int]]:
    """(word, start, end) of each instruction with its continued lines and here-documents."""
    word = ""
    start = 0
    end = 0
    after = 0
    # a backslash ended the line; the ends of here-documents
    going_on = False
    waiting = list[bytes]()
    for line in data.splitlines(keepends=True):
        text = line.strip()
        before = after
        after = after + len(line)
        if waiting:
            waiting = waiting[1:] if text == waiting[0] else waiting
        else:
            idle = not text or text.startswith(b"#")
            if not going_on and idle:
                continue
            if not going_on:
                if word:
                    yield word, start, end
                match = _INSTRUCTION.match(line)
                word = match[1].decode("ascii").upper() if match else ""
                start = before
            going_on = text.endswith(b"\\") or (going_on and idle)
            waiting = (
                [found[2] for found in _HEREDOC.finditer(text)] if word in _WITH_HEREDOC else []
            )
        end = after
    if word:
        yield word, start, end
