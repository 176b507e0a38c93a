"""Dockerfiles: stages and their instructions."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol

_INSTRUCTION = re.compile(rb"\s*([A-Za-z]+)\b")
_FROM = re.compile(rb"\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)
_WITH_HEREDOC = ("RUN", "COPY", "ADD")
# the mark is a separate word, as in BuildKit
_HEREDOC = re.compile(rb"(?<!\S)\d*<<-?([\"']?)([^\s<\"']+)\1(?!\S)")


class Dockerfile:
    """Stages and instructions: `FROM python AS builder` starts the stage at `stage:builder`.

    Each instruction of a stage is a separate block.
    """

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return stages with their instructions.

        Instructions before the first FROM have no stage.
        """
        instructions = list(_instructions(data))
        froms = [number for number, (word, _, _) in enumerate(instructions) if word == "FROM"]
        blocks = [
            Block(word, "", start, end)
            for word, start, end in instructions[: froms[0] if froms else None]
        ]
        for number, (first, end_number) in enumerate(pairwise([*froms, len(instructions)])):
            stage = instructions[first:end_number]
            hierarchy = f"stage:{_stage(data[stage[0][1] : stage[0][2]], number)}"
            blocks.append(Block("FROM", hierarchy, stage[0][1], stage[-1][2]))
            blocks += (Block(word, hierarchy, start, end) for word, start, end in stage[1:])
        return tuple(blocks)


def _stage(line: bytes, number: int) -> str:
    match = _FROM.match(line)
    name = (match[2] or match[1]) if match else str(number).encode()
    return name.decode("utf-8", "replace")


def _instructions(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield (word, start, end) for each instruction, including continued lines and here-documents."""
    word = ""
    start = 0
    end = 0
    for line_start, line_end, is_first in _instruction_lines(data):
        if is_first:
            if word:
                yield word, start, end
            word = _instruction_word(data[line_start:line_end])
            start = line_start
        end = line_end
    if word:
        yield word, start, end


def _instruction_lines(data: bytes) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, is_first) for each line of an instruction; other lines are skipped."""
    line_end = 0
    takes_heredoc = False
    # True if the last line ended with a backslash
    continued = False
    heredoc_ends = list[bytes]()
    for line in data.splitlines(keepends=True):
        text = line.strip()
        line_start = line_end
        line_end += len(line)
        if heredoc_ends:
            if text == heredoc_ends[0]:
                heredoc_ends.pop(0)
            yield line_start, line_end, False
            continue
        is_blank = not text or text.startswith(b"#")
        if is_blank and not continued:
            continue
        yield line_start, line_end, not continued
        if not continued:
            takes_heredoc = _instruction_word(line) in _WITH_HEREDOC
        continued = is_blank or text.endswith(b"\\")
        if takes_heredoc:
            heredoc_ends = _heredoc_ends(text)


def _heredoc_ends(line: bytes) -> list[bytes]:
    return [heredoc[2] for heredoc in _HEREDOC.finditer(line)]


def _instruction_word(line: bytes) -> str:
    match = _INSTRUCTION.match(line)
    return match[1].decode("ascii").upper() if match else ""
