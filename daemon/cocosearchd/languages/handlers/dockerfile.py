"""Dockerfiles: stages and their instructions."""

import re
from collections.abc import Iterator, Sequence

from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol

_INSTRUCTION = re.compile(rb"\s*([A-Za-z]+)\b")
_FROM = re.compile(rb"\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)
_HEREDOC = re.compile(rb"<<-?\s*[\"']?(\w+)[\"']?")


class Dockerfile:
    """`FROM python AS builder` starts the stage at `stage:builder`; each instruction is a block of its own in it."""

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Stages with their instructions inside. What comes before the first FROM has no stage."""
        instructions = list(_instructions(data))
        froms = [number for number, (word, _, _) in enumerate(instructions) if word == "FROM"]
        found = [Block(word, "", start, end) for word, start, end in instructions[: froms[0] if froms else None]]
        for number, (first, after) in enumerate(zip(froms, [*froms[1:], len(instructions)], strict=True)):
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
    word, start, end, offset = "", 0, 0, 0
    going_on, waiting = False, b""
    for line in data.splitlines(keepends=True):
        text = line.strip()
        if waiting:
            end, waiting = offset + len(line), b"" if text == waiting else waiting
        elif going_on:
            end = offset + len(line)
            going_on = text.endswith(b"\\") or text.startswith(b"#") or not text
        elif text and not text.startswith(b"#"):
            if word:
                yield word, start, end
            match = _INSTRUCTION.match(line)
            word = match[1].decode("ascii").upper() if match else ""
            start, end = offset, offset + len(line)
            going_on = text.endswith(b"\\")
        heredoc = _HEREDOC.search(line) if end == offset + len(line) and not waiting and word in _WITH_HEREDOC else None
        if heredoc is not None and start <= offset:
            waiting = waiting or (heredoc[1] if text != heredoc[1] else b"")
        offset += len(line)
    if word:
        yield word, start, end


_WITH_HEREDOC = ("RUN", "COPY", "ADD")
