"""Sentences of comments as questions: which are taken, and that their comments are removed."""

import asyncio

import pytest

from cocosearchd.config.settings import EmbedderSettings, IndexingSettings
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.indexing.pipeline.chunker import chunk_file
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages.parse import parse
from cocosearchd.search.lexical.analysis.terms import TermCache
from training.ranking.sentences import Sample, first_sentence, weakened, without_comments
from training.ranking.signals import indexed

TEXT = '''def renew(lease, seconds):
    """Give a lease more time before somebody else may take it. Never shortens it."""
    # The clock of the store counts, not ours.
    lease.until = max(lease.until, lease.store.clock() + seconds)
    return lease.until
'''


@pytest.mark.parametrize(
    ("comment", "sentence"),
    [
        (
            "/** Sends what was changed while offline. Twice. */",
            "Sends what was changed while offline",
        ),
        ("# Too short.", ""),
        ("# TODO find out why this is so slow", ""),  # speaks of the work, not of the code
        ("# sets x = y + 1 for every second row", ""),  # no plain words
    ],
)
def test_first_sentence(comment: str, sentence: str) -> None:
    assert first_sentence(comment) == sentence


def test_a_sentence_is_asked_of_code_without_it() -> None:
    samples, silent = without_comments(
        [
            (
                "lease.py",
                "python",
                chunk_file(parse("lease.py", TEXT.encode()), chunker_limits(IndexingSettings())),
            )
        ]
    )
    assert [(sample.text, sample.place) for sample in samples] == [
        ("Give a lease more time before somebody else may take it", ("lease.py", 0))
    ]
    rest = "".join(chunk.text for _, _, chunks in silent for chunk in chunks)
    assert "lease.until = max" in rest
    assert "somebody" not in rest
    assert "clock of the store" not in rest


async def test_a_weakened_sentence_has_lost_the_word_that_finds_its_answer() -> None:
    terms = TermCache()
    embedder = await open_embedder(EmbedderSettings())
    texts = {
        "1.py": "def renew(lease):\n    return lease.more()",
        "2.py": "def take(key):\n    return key.more()",
    }
    files = [
        (path, "python", chunk_file(parse(path, text.encode()), chunker_limits(IndexingSettings())))
        for path, text in texts.items()
    ]
    state = await asyncio.to_thread(indexed, files, terms, embedder)
    variants = weakened(Sample("give a lease more time", ("lease.py", 0)), "1.py", state, terms)
    assert [sample.text for sample in variants] == ["give a more time"]
    assert not list(
        weakened(Sample("nothing of this is there", ("lease.py", 0)), "1.py", state, terms)
    )
