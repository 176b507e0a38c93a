"""Shell: functions."""

from collections.abc import Sequence

from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol


class Bash:
    """`deploy() {` is the block `function` at `function:deploy`."""

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return one block for each function."""
        functions = (symbol for symbol in symbols if symbol.kind == "function")
        return tuple(
            Block(
                "function",
                f"function:{function.qualified_name}",
                function.start_byte,
                function.end_byte,
            )
            for function in functions
        )
