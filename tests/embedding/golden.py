"""Writes `golden_static.json` from the shipped model: `python -m tests.embedding.golden`, after a
new model only.
"""

import json
from pathlib import Path

from cocosearchd.embedding.base import Vectors
from cocosearchd.embedding.providers.builtin import DATA, NAME
from cocosearchd.embedding.providers.static_model import Encoder, load

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
    """Full vectors of each text as a query and as a document, rounded to seven digits."""
    model = load(DATA, NAME)
    encoder = Encoder(model)
    cases = [
        {"text": text, "query": _rounded(query), "document": _rounded(document)}
        for text, query, document in zip(
            TEXTS, encoder.queries(TEXTS), encoder.documents(TEXTS), strict=True
        )
    ]
    target = Path(__file__).parent / "golden_static.json"
    target.write_text(
        json.dumps({"sha256": model.sha256, "cases": cases}, ensure_ascii=False) + "\n", "utf-8"
    )


def _rounded(vector: Vectors) -> list[float]:
    return [round(float(value), 7) for value in vector]


if __name__ == "__main__":
    main()
