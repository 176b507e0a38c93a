"""A real ONNX model and tokenizer of a few words, written by hand: no library to write one is
needed, none to fetch.

The graph is one Gather: token ids -> rows of a table, shape (texts, tokens, dimension), as an
encoder's last layer.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORDS = ("[PAD]", "[UNK]", "open", "close", "file", "socket", "read", "write")
FLOAT, INT64 = 1, 7  # of ONNX's TensorProto.DataType


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: int | bytes | str) -> bytes:
    """A protobuf field: a number as varint, all else length-delimited."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _value(name: str, kind: int, shape: tuple[str | int, ...]) -> bytes:
    dimensions = b"".join(
        _field(1, _field(2 if isinstance(size, str) else 1, size)) for size in shape
    )
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, dimensions)))


def table(dimension: int) -> NDArray[np.float32]:
    """The rows that the model gathers."""
    return np.random.default_rng(3).standard_normal((len(WORDS), dimension)).astype(np.float32)


def write_model(home: Path, dimension: int = 8, broken: str | None = None) -> None:
    """`model.onnx` and `tokenizer.json` into a directory. A text with the `broken` word has no
    numbers.
    """
    weights = table(dimension)
    if broken is not None:
        weights[WORDS.index(broken)] = np.nan
    tensor = (
        _field(1, weights.shape[0])
        + _field(1, weights.shape[1])
        + _field(2, FLOAT)
        + _field(8, "table")
    )
    node = (
        _field(1, "table")
        + _field(1, "input_ids")
        + _field(2, "last_hidden_state")
        + _field(4, "Gather")
    )
    graph = (
        _field(1, node)
        + _field(2, "tiny")
        + _field(5, tensor + _field(9, weights.tobytes()))
        + _field(11, _value("input_ids", INT64, ("texts", "tokens")))
        + _field(12, _value("last_hidden_state", FLOAT, ("texts", "tokens", dimension)))
    )
    (home / "model.onnx").write_bytes(
        _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 13))
    )
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: i for i, word in enumerate(WORDS)},
            "unk_token": "[UNK]",
        },
    }
    (home / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
