"""Shell: functions."""

from collections.abc import Sequence

from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol


class Bash:
    """`deploy() {` is the block `function` at `function:deploy`."""

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """One block for each function."""
        found = (symbol for symbol in symbols if symbol.kind == "function")
        return tuple(
            Block("function", f"function:{one.qualified_name}", one.start_byte, one.end_byte)
            for one in found
        )
