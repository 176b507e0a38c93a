"""Step 3: pairs -> weights. `python -m training.train PAIRS OUT.npz [--set name=value …]`. Needs
torch; see README.md.

A text is the sum of the vectors of its words, at length 1; a sentence must lie nearer to its code
than to the other code of its batch (symmetric InfoNCE). Batches are made of runs from one package,
because near neighbours are what a search in one project must tell apart. Everything is drawn from
one seed: same pairs, same library, same bytes.
"""

import argparse
import json
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from training.features import (
    BagRows,
    Bags,
    Floats,
    Ints,
    Lexicon,
    Vocabulary,
    bags,
    choose_vocabulary,
    piece_rows,
)

# Ways to ask that say nothing about what is asked for. Training sees them before sentences, so
# their words lose weight.
LEAD_INS = (
    "how to", "where is", "where do we", "how does it", "function that", "function to", "code that", "method which",
    "find the code that", "what", "which part", "show me", "implementation of", "where is the code for", "how are",
    "what is responsible for", "class that", "logic for", "handling of", "how can I", "when does it",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that shapes the weights apart from the pairs."""

    seed: int = 7
    dimension: int = 256
    words: int = 20_480
    minimum: int = 5
    buckets: int = 4096
    epochs: int = 4
    batch: int = 1024
    run: int = 32  # pairs in a row from one package
    rate: float = 4e-3
    beta1: float = 0.9
    beta2: float = 0.99
    warm_up: int = 20
    temperature: float = 0.05
    sif: float = 1e-3  # Arora et al. 2017: a / (a + p(word)), here only as the start
    headers: float = 0.7  # share of codes with their header line
    lead_ins: float = 0.2
    soups: float = 0.3  # share of queries that lose words
    kept: float = 0.6  # of which each word stays with this probability
    # share of known words that are spelled out in pieces, another choice for each epoch
    unknown: float = 0.1
    power: float = 0.5  # these three: see `static_model.TermWeights`
    header: float = 0.5
    path: float = 0.25
    python: int = 140_000
    others: int = 80_000
    types: int = 1


def load(path: Path, recipe: Recipe) -> list[dict[str, Any]]:
    """Pairs, capped for each language, in a shuffled order."""
    generator = np.random.default_rng(recipe.seed)
    with path.open(encoding="utf-8") as file:
        pairs = [json.loads(line) for line in file]
    taken_by_language, chosen = Counter[str](), []
    for number in generator.permutation(len(pairs)):
        pair = pairs[number]
        cap = recipe.python if pair["language"] == "python" else recipe.others
        if taken_by_language[pair["language"]] < cap and (
            recipe.types or pair["kind"] == "function"
        ):
            taken_by_language[pair["language"]] += 1
            chosen.append(pair)
    return chosen


class Encoder(torch.nn.Module):
    """Bags of rows -> unit vectors."""

    def __init__(self, start: NDArray[np.float32]) -> None:
        super().__init__()
        self.bag = torch.nn.EmbeddingBag.from_pretrained(
            torch.from_numpy(start), freeze=False, mode="sum"
        )

    def forward(
        self, rows: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor
    ) -> torch.Tensor:
        """Shape ``(len(offsets), d)``."""
        return torch.nn.functional.normalize(
            self.bag(rows, offsets, per_sample_weights=weights), dim=1
        )


class Batches:
    """Turns choices of texts into the three tensors of `Encoder.forward`."""

    def __init__(self, lexicon: Lexicon, vocabulary: Vocabulary) -> None:
        self._pieces = piece_rows(lexicon, vocabulary)
        self._row_of = vocabulary.row_of
        self._spelled = self._row_of < 0

    def redraw(self, generator: np.random.Generator, share: float) -> None:
        """Choose which known words are spelled out from now on."""
        self._spelled = (self._row_of < 0) | (generator.random(len(self._row_of)) < share)

    def tensors(self, ids: Ints, weights: Floats, lengths: Ints) -> list[torch.Tensor]:
        """(rows, weights, offsets) of texts given as `Bags.take` gives them, weights in the place
        of counts.
        """
        owner = np.repeat(np.arange(len(lengths)), lengths)
        is_whole = ~self._spelled[ids]
        split_ids, split_owner, split_weights = ids[~is_whole], owner[~is_whole], weights[~is_whole]
        rows, shares, parts = self._pieces.take(split_ids)
        all_rows = np.concatenate([self._row_of[ids[is_whole]], rows])
        all_weights = np.concatenate([weights[is_whole], shares * np.repeat(split_weights, parts)])
        all_owners = np.concatenate([owner[is_whole], np.repeat(split_owner, parts)])
        order = np.argsort(all_owners, kind="stable")
        offsets = np.searchsorted(all_owners[order], np.arange(len(lengths)))
        return [
            torch.from_numpy(all_rows[order]),
            torch.from_numpy(all_weights[order].astype(np.float32)),
            torch.from_numpy(offsets),
        ]


def start_matrix(vocabulary: Vocabulary, recipe: Recipe) -> NDArray[np.float32]:
    """Random directions; the length of a known word falls with its frequency."""
    generator = np.random.default_rng(recipe.seed)
    matrix = generator.standard_normal((vocabulary.rows, recipe.dimension)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    matrix[: len(vocabulary.shares)] *= (recipe.sif / (recipe.sif + vocabulary.shares))[:, None]
    return matrix


def ordered(
    packages: NDArray[np.int64], recipe: Recipe, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Numbers of all pairs: shuffled runs of `recipe.run` pairs of one package."""
    shuffled = generator.permutation(len(packages))
    by_package = shuffled[np.argsort(packages[shuffled], kind="stable")]
    runs = np.array_split(by_package, max(1, len(by_package) // recipe.run))
    return np.concatenate([runs[number] for number in generator.permutation(len(runs))])


def vary(bag: BagRows, lead_ins: Bags, recipe: Recipe, generator: np.random.Generator) -> BagRows:
    """Queries as people put them: some with a lead-in, some as a few key words out of the
    sentence.
    """
    ids, counts, lengths = bag
    owner = np.repeat(np.arange(len(lengths)), lengths)
    souped = generator.random(len(lengths)) < recipe.soups
    keep = ~souped[owner] | (generator.random(len(ids)) < recipe.kept)
    led = np.flatnonzero(generator.random(len(lengths)) < recipe.lead_ins)
    more, more_counts, more_lengths = lead_ins.take(
        generator.integers(0, len(lead_ins.starts) - 1, len(led))
    )
    remaining = (ids[keep], counts[keep], np.bincount(owner[keep], minlength=len(lengths)))
    added = np.zeros(len(lengths), np.int64)
    added[led] = more_lengths
    ids, counts, lengths = joined(remaining, (more, more_counts, added))
    return ids, counts**recipe.power, lengths


def documents(
    bodies: BagRows, headers: BagRows, recipe: Recipe, headed: NDArray[np.bool_]
) -> BagRows:
    """Bodies, the `headed` ones with their header, weighed as `static.Encoder` weighs them."""
    ids, counts, lengths = bodies
    weights = counts**recipe.power
    keep = np.repeat(headed, headers[2])
    head_ids, head_lengths = headers[0][keep], np.where(headed, headers[2], 0)
    head_weights = headers[1][keep] ** recipe.power
    inside = np.bincount(np.repeat(np.arange(len(lengths)), lengths), weights, len(lengths)) + 1
    head_owner = np.repeat(np.arange(len(lengths)), head_lengths)
    above = np.bincount(head_owner, head_weights, len(lengths))
    head_weights *= (recipe.header * inside / np.maximum(above, 1e-6))[head_owner].astype(
        np.float32
    )
    return joined((ids, weights, lengths), (head_ids, head_weights, head_lengths))


def joined(first: BagRows, second: BagRows) -> BagRows:
    """Join text i of `first` and text i of `second`."""
    owner = np.concatenate(
        [np.repeat(np.arange(len(side[2])), side[2]) for side in (first, second)]
    )
    order = np.argsort(owner, kind="stable")
    return (
        np.concatenate([first[0], second[0]])[order],
        np.concatenate([first[1], second[1]])[order].astype(np.float32),
        first[2] + second[2],
    )


def train(pairs: list[dict[str, Any]], recipe: Recipe) -> tuple[Vocabulary, NDArray[np.float32]]:
    """The vocabulary and the trained matrix."""
    torch.manual_seed(recipe.seed)
    torch.use_deterministic_algorithms(True)
    lexicon = Lexicon()
    queries = bags(lexicon.counter(pair["doc"]) for pair in pairs)
    bodies = bags(lexicon.counter(pair["text"]) for pair in pairs)
    headers = bags(
        lexicon.header(pair["path"], f"{pair['parent']} {pair['name']}", recipe.path)
        for pair in pairs
    )
    lead_ins = bags(lexicon.counter(text) for text in LEAD_INS)
    vocabulary = choose_vocabulary(
        lexicon, (queries, bodies, headers), recipe.words, recipe.minimum, recipe.buckets
    )
    names = {
        name: number for number, name in enumerate(sorted({pair["package"] for pair in pairs}))
    }
    packages = np.array([names[pair["package"]] for pair in pairs])
    batches = Batches(lexicon, vocabulary)
    encoder = Encoder(start_matrix(vocabulary, recipe))
    # Dense on purpose: with a thousand texts a step the gradient is not sparse enough to pay for
    # being so.
    optimiser = torch.optim.Adam(
        encoder.parameters(), lr=recipe.rate, betas=(recipe.beta1, recipe.beta2), fused=True
    )
    steps = recipe.epochs * (len(pairs) // recipe.batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps, recipe))
    generator, cross = np.random.default_rng(recipe.seed), torch.nn.functional.cross_entropy
    for epoch in range(recipe.epochs):
        order = ordered(packages, recipe, generator)
        batches.redraw(generator, recipe.unknown)
        losses = []
        for start in range(0, len(order) - recipe.batch + 1, recipe.batch):
            chosen = order[start : start + recipe.batch]
            headed = generator.random(len(chosen)) < recipe.headers
            question_vectors = encoder(
                *batches.tensors(*vary(queries.take(chosen), lead_ins, recipe, generator))
            )
            code = encoder(
                *batches.tensors(
                    *documents(bodies.take(chosen), headers.take(chosen), recipe, headed)
                )
            )
            scores = question_vectors @ code.T / recipe.temperature
            right = torch.arange(len(chosen))
            loss = (cross(scores, right) + cross(scores.T, right)) / 2
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)
    return vocabulary, encoder.bag.weight.detach().numpy()


def _rate(step: int, steps: int, recipe: Recipe) -> float:
    """Share of the full rate: up in the first steps, then down in a line to a tenth."""
    return min(1.0, (step + 1) / recipe.warm_up) * (1.0 - 0.9 * step / max(1, steps))


def recipe_from(settings: list[str]) -> Recipe:
    """The default recipe with some `name=value` changed."""
    changes = dict(setting.split("=", 1) for setting in settings)
    kinds = {
        field.name: float if field.type in (float, "float") else int for field in fields(Recipe)
    }
    return Recipe(**{name: kinds[name](value) for name, value in changes.items()})


def main() -> None:
    """Train and save the float32 matrix, the words and the recipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", nargs="*", default=[])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    recipe = recipe_from(arguments.set)
    vocabulary, matrix = train(load(arguments.pairs, recipe), recipe)
    words, weighing = np.array(vocabulary.known), [recipe.power, recipe.header, recipe.path]
    np.savez(
        arguments.out, matrix=matrix, words=words, buckets=vocabulary.buckets, weighing=weighing
    )


if __name__ == "__main__":
    main()
