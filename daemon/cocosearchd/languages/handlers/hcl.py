"""HCL and Terraform: the blocks at the top level, placed as Terraform addresses are."""

from collections.abc import Sequence

from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol


class Hcl:
    """`resource "aws_s3_bucket" "data"` is the block `resource` at
    `resource.aws_s3_bucket.data`.
    """

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """One block for each of HCL's."""
        found = (symbol for symbol in symbols if symbol.kind != "constant")
        return tuple(
            Block(one.kind, one.qualified_name, one.start_byte, one.end_byte) for one in found
        )
