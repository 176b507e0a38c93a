"""Training of the places of long questions: what is right in a file, and what is learned of it."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.factory import open_embedder
from tests.daemon import git
from training.ranking import reports
from training.ranking.report_places import NAMES, PlaceExample, fit, make_examples
from training.ranking.reports import TreeReader, read_pairs, run_git

MESSAGE = """Refuse a coupon that was redeemed before

A coupon could be redeemed twice, since `redeem_coupon` did not look at the flag that says that a
coupon was used. The discount of a basket was then counted twice, which nobody noticed until a
customer had emptied the shop. Look at the flag first, and refuse the coupon with an error, so that
the caller can tell the customer what is wrong with it and why the discount is not in the basket.
"""


def test_weights_are_logarithms_of_shares() -> None:
    generator = np.random.default_rng(7)
    true_weights = np.arange(1.0, len(NAMES) + 1) / len(NAMES)  # small: large ones are held back
    examples = list[PlaceExample]()
    for _ in range(400):
        signals = generator.normal(size=(8, len(NAMES)))
        shares = np.exp(signals @ true_weights)
        examples.append(PlaceExample(signals, shares / shares.sum()))
    weights = fit(examples)
    assert list(weights) == list(NAMES)
    assert np.allclose(list(weights.values()), true_weights, rtol=0.1)


def test_missing_repositories_are_cloned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = tmp_path / "site" / "shop" / "basket"
    origin.mkdir(parents=True)
    git(origin, "init", "-q")
    (origin / "shop.py").write_text("def redeem(): ...\n")
    git(origin, "add", "-A")
    git(origin, "commit", "-q", "-m", "Begin")
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps([{"name": "shop/basket", "newest": "HEAD"}]))
    monkeypatch.setattr(reports, "LIST", listed)
    folder = tmp_path / "clones"
    (folder / "shop+basket" / "partial").mkdir(parents=True)  # of a clone that was interrupted
    for _ in range(2):
        reports.clone_missing(folder, f"file://{tmp_path}/site/")
    repository = folder / "shop+basket" / "repo"
    assert run_git(repository, "ls-tree", "--name-only", "HEAD") == "shop.py\n"


def test_the_chunks_with_changed_lines_are_right(tmp_path: Path) -> None:
    code = "".join(
        f"def step_{number}(basket):\n" + f"    basket.value_{number} = {number}\n" * 20 + "\n\n"
        for number in range(8)
    )
    old_code = f"{code}def redeem_coupon(basket, coupon):\n    basket.discount = coupon.discount\n"
    git(tmp_path, "init", "-q")
    (tmp_path / "shop.py").write_text(old_code)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "Begin")
    (tmp_path / "shop.py").write_text(
        old_code.replace("    basket.discount", "    assert not coupon.used\n    basket.discount")
    )
    git(tmp_path, "commit", "-q", "-a", "-m", MESSAGE)
    repository = tmp_path / ".git"
    (pair,) = read_pairs(repository, run_git(repository, "rev-parse", "HEAD").strip())
    embedder = asyncio.run(open_embedder(EmbedderSettings()))
    with TreeReader(repository, embedder) as reader:
        snapshot = reader.read(pair.parent)
        (example,) = make_examples(pair, snapshot, reader, embedder, repository)
    assert len(example.shares) > 3
    assert example.shares.tolist() == [0.0] * (len(example.shares) - 1) + [1.0]
    lexical = example.signals[:, NAMES.index("lexical")]
    assert lexical.argmax() == len(lexical) - 1
