"""Writes `golden_static.json` from the shipped model: `python -m tests.embedding.golden`, after a new model only."""

import json
from pathlib import Path

from cocosearchd.embedding.builtin import DATA, NAME
from cocosearchd.embedding.static import Encoder, load

TEXTS = (
    "where is the retry back-off decided",
    "HTTPServer2",
    "snake_case_name and camelCaseName and URLs",
    "src/store/pool.py Database connection\nasync def connection(self):\n    return self._pool.connection()",
    "func (r *Reader) ReadAll(ctx context.Context) ([]byte, error) { return io.ReadAll(r) }",
    "unheardOfIdentifier zyzzyva frobnicate",
    "größe имяФайла 打开文件",
    "x" * 100,
    "0 1 22 4096 123456789",
    " \t\n ___ !!",
)


def main() -> None:
    """Full vectors, rounded to seven digits."""
    model = load(DATA, NAME)
    vectors = Encoder(model).encode(TEXTS)
    cases = [
        {"text": text, "vector": [round(float(value), 7) for value in vector]}
        for text, vector in zip(TEXTS, vectors, strict=True)
    ]
    target = Path(__file__).parent / "golden_static.json"
    target.write_text(json.dumps({"sha256": model.sha256, "cases": cases}, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
