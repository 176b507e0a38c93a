"""The shipped model: the very bytes that were trained, the very vectors, fast enough, and robust to any text."""

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.embedding.builtin import DATA, NAME
from cocosearchd.embedding.static import PARTS, REMEMBERED_RUNS, Encoder, digest_of, load, runs
from cocosearchd.embedding.tokens import words
from cocosearchd.errors import EmbedderUnavailable

GOLDEN = Path(__file__).parent / "golden_static.json"
MODEL = load(DATA, NAME)
SHARED = Encoder(MODEL)


@pytest.fixture
def encoder() -> Encoder:
    return Encoder(MODEL)


def test_golden_vectors(encoder: Encoder) -> None:
    """Made by `python -m tests.embedding.golden`; they change only with the model."""
    golden = json.loads(GOLDEN.read_text("utf-8"))
    assert golden["sha256"] == MODEL.sha256
    vectors = encoder.encode([case["text"] for case in golden["cases"]])
    expected = np.array([case["vector"] for case in golden["cases"]], dtype=np.float32)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_the_files_are_whole() -> None:
    assert digest_of(DATA, NAME) == MODEL.sha256
    assert MODEL.rows.shape == (len(MODEL.words) + MODEL.buckets, 256)
    assert MODEL.rows.dtype == np.int8
    assert MODEL.scales.shape == (len(MODEL.rows),)
    assert len(set(MODEL.words)) == len(MODEL.words)
    assert all(words(word) == [word] for word in MODEL.words)
    assert sum((DATA / f"{NAME}{part}").stat().st_size for part in PARTS) < 8_000_000


@pytest.mark.parametrize("part", PARTS)
def test_a_damaged_file_is_refused(tmp_path: Path, part: str) -> None:
    for path in DATA.glob(f"{NAME}*"):
        shutil.copy(path, tmp_path)
    data = bytearray((tmp_path / f"{NAME}{part}").read_bytes())
    data[-1] ^= 1
    (tmp_path / f"{NAME}{part}").write_bytes(data)
    with pytest.raises(EmbedderUnavailable, match="damaged"):
        load(tmp_path, NAME)
    (tmp_path / f"{NAME}{part}").unlink()
    with pytest.raises(EmbedderUnavailable, match="cannot be read"):
        load(tmp_path, NAME)


@given(st.lists(st.text(), max_size=4))
def test_every_text_gives_a_unit_row_or_zero(texts: list[str]) -> None:
    vectors = SHARED.encode(texts)
    assert vectors.shape == (len(texts), 256)
    assert np.isfinite(vectors).all()
    for text, length in zip(texts, np.linalg.norm(vectors, axis=1), strict=True):
        assert length == pytest.approx(1.0 if words(text) else 0.0, abs=1e-4)


@given(st.text())
def test_remembering_runs_changes_no_word(text: str) -> None:
    assert [word for run in runs(text) for word in words(run)] == words(text)


def test_what_was_asked_before_changes_nothing(encoder: Encoder) -> None:
    text = "def frobnicateQuuxes(zyzzyva): return unheardOfIdentifier(zyzzyva)"
    before = encoder.encode([text])
    encoder.encode([f"strange{number}word{number}" for number in range(REMEMBERED_RUNS + 10)])
    np.testing.assert_array_equal(encoder.encode([text]), before)


def test_words_never_seen_resemble_their_kin(encoder: Encoder) -> None:
    unheard, kin, stranger = "zstandardisers", "zstandardiser", "qwghlmiana"
    assert not {unheard, kin, stranger} & set(MODEL.words)
    first, second, third = encoder.encode([unheard, kin, stranger])
    assert first @ second > 0.7
    assert first @ third < first @ second - 0.3


def test_order_and_repetition_of_queries_do_not_matter(encoder: Encoder) -> None:
    one, other = encoder.encode(["open the file", "file, the OPEN"])
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_it_is_fast(encoder: Encoder) -> None:
    """Ten times slower than measured on an idle machine still passes: this is for the day it becomes a loop."""
    code = Path(__file__).read_text("utf-8")
    texts = [code[start : start + 900] for start in range(0, len(code) - 900, 40)] * 4
    encoder.encode(texts)
    start = time.process_time()
    encoder.encode(texts)
    assert len(texts) / (time.process_time() - start) > 1500
    start = time.process_time()
    for _ in range(100):
        encoder.encode(["where is the retry back-off of the connection pool decided"])
    assert (time.process_time() - start) / 100 < 1e-3


def test_sentences_find_their_functions(encoder: Encoder) -> None:
    """A floor, on a few functions of our own that no training saw; the real figures are in the model card."""
    pairs = json.loads((Path(__file__).parent / "sentences.json").read_text("utf-8"))
    queries = encoder.encode([pair["query"] for pair in pairs])
    codes = encoder.encode([pair["code"] for pair in pairs])
    scores = queries @ codes.T
    ranks = (scores >= scores.diagonal()[:, None]).sum(axis=1)
    assert (1 / ranks).mean() > 0.8
