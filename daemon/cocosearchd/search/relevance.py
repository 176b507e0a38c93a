"""Relevance: the estimated probability that a result answers, the same scale for all rankings. Pure.

A logistic model over what a ranking knows of a result. See `training/ranking/places.py` for the data
and for the table of expected against seen.
"""

from collections.abc import Mapping

import numpy as np

from cocosearchd.search.lexical.array_types import Floats

INTERCEPT = "intercept"
# An answer whose most relevant result lies below this says that nothing matches well. Of the questions
# of training/ranking/places.py, 7 % of the annotated ones have no result above it, and 75 % of those
# that are about another repository.
WEAK = 0.25


def probability(weights: Mapping[str, float], signals: Mapping[str, Floats]) -> Floats:
    """Return the logistic function of the weighted sum of the signals; arrays have one shape.

    A signal without a weight counts nothing. `INTERCEPT` is the constant.
    """
    total = np.zeros(len(next(iter(signals.values()))), np.float32)
    total += np.float32(weights.get(INTERCEPT, 0.0))
    for name, values in signals.items():
        total += np.float32(weights.get(name, 0.0)) * values
    # beyond, `exp` of a float32 would overflow
    result: Floats = (1 / (1 + np.exp(-np.clip(total, -80, 80)))).astype(np.float32)
    return result
