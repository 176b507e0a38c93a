"""HCL and Terraform: top-level blocks, named like Terraform addresses."""

from collections.abc import Sequence

from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol


class Hcl:
    """Top-level blocks: `resource "aws_s3_bucket" "data"` is at `resource.aws_s3_bucket.data`."""

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return one block for each top-level HCL block."""
        hcl_blocks = (symbol for symbol in symbols if symbol.kind != "constant")
        return tuple(
            Block(symbol.kind, symbol.qualified_name, symbol.start_byte, symbol.end_byte)
            for symbol in hcl_blocks
        )
