"""Batches of texts for a model: a text that fails affects no other text."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import Vectors
from cocosearchd.embedding.batching import embed_by_length
from cocosearchd.embedding.factory import open_embedder
from tests.embedding.tiny_onnx import write_model

pytestmark = pytest.mark.anyio
TEXTS = ("a long text of words", "one", "", "three words here", "two words", "odd")


async def test_batches_are_of_like_length_and_rows_in_the_order_of_the_texts() -> None:
    batches = list[Sequence[str]]()

    async def ask(batch: Sequence[str]) -> Vectors:
        batches.append(batch)
        return np.array([[len(text), np.nan if text == "odd" else 1] for text in batch], np.float32)

    vectors = await embed_by_length(TEXTS, 2, 2, ask)
    assert batches[0] == ["one", "odd"]
    assert batches[-2:] == [["two words", "three words here"], ["a long text of words"]]
    for text, (first, second) in zip(TEXTS, vectors, strict=True):
        expected = 0 if text in {"", "odd"} else len(text)
        assert first == pytest.approx(second * expected)
        assert (second == 0) == (expected == 0)


async def test_a_text_that_a_local_model_makes_no_numbers_of_costs_no_other_its_vector(
    tmp_path: Path,
) -> None:
    pytest.importorskip("onnxruntime")
    write_model(tmp_path, broken="socket")
    embedder = await open_embedder(EmbedderSettings(provider="onnx", model=str(tmp_path)))
    texts = ("open a file", "close the socket", "read")
    lengths = np.linalg.norm(await embedder.embed_documents(texts), axis=1)
    np.testing.assert_allclose(lengths, [1, 0, 1], atol=1e-5)
    assert not (await embedder.embed_query("socket")).any()
    await embedder.aclose()
