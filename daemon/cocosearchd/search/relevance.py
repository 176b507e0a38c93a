"""Estimates relevance: the probability that a result answers, on one scale for all rankings. Pure.

The model is a logistic function of the signals of a result. See `training/ranking/places.py` for
the data and for the table of expected and observed frequencies.
"""

from collections.abc import Mapping

import numpy as np

from cocosearchd.search.lexical.array_types import Floats

INTERCEPT = "intercept"
# If the most relevant result of an answer is below this, the answer says that nothing matches well.
# In the data of training/ranking/places.py, this is so for 7 % of the annotated questions, and for
# 75 % of the questions about another repository.
WEAK = 0.25


def probability(weights: Mapping[str, float], signals: Mapping[str, Floats]) -> Floats:
    """Compute the logistic function of the weighted sum of the signals. All arrays have one shape.

    A signal without a weight is ignored. `INTERCEPT` is the constant term.
    """
    total = np.zeros(len(next(iter(signals.values()))), np.float32)
    total += np.float32(weights.get(INTERCEPT, 0.0))
    for name, values in signals.items():
        total += np.float32(weights.get(name, 0.0)) * values
    # beyond these limits, `exp` of a float32 would overflow
    result: Floats = (1 / (1 + np.exp(-np.clip(total, -80, 80)))).astype(np.float32)
    return result
