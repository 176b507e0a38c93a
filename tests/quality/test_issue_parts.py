"""The benchmark of the parts of a bug report: a part that is left out no longer ranks."""

import numpy as np

from benchmarks.quality.issue_outcomes import Case
from benchmarks.quality.issue_parts import (
    ALIKE,
    HISTORY,
    SHIPPED,
    SIGNALS_OF_PART,
    UNLEARNED,
    VECTORS,
    Ranks,
    rank_case,
)
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import make_snapshot
from cocosearchd.search.lexical.segments.segment import SegmentView, build_segment
from tests.search.lexical.toy import DIMENSION, documents

FILES = {
    "src/shop/basket.py": "def add_all(items): ...\n",
    "src/shop/payment.py": "def charge(amount): ...\n",
    "docs/adding.md": "adding an item fails\n",
}
REPORT = """Adding an item fails
while the basket is full

```
Traceback (most recent call last):
  File "/srv/shop/payment.py", line 1, in charge
ValueError: full
```
"""


def rank(query: str, *gold: str) -> dict[str, Ranks]:
    snapshot = make_snapshot((SegmentView(build_segment(documents(FILES, {}), DIMENSION)),), 1)
    case = Case("shop-1", "toy", "someone/shop", "", query, gold)
    return dict(rank_case(case, snapshot, TermCache(), np.zeros(DIMENSION, np.float32)))


def test_every_part_is_left_out_once() -> None:
    parts = {SHIPPED, ALIKE, HISTORY, UNLEARNED, VECTORS, *SIGNALS_OF_PART}
    assert rank(REPORT, "src/shop/payment.py", "src/shop/gone.py").keys() == parts


def test_the_file_of_a_frame_falls_behind_without_stack_frames() -> None:
    ranks = rank(REPORT, "src/shop/payment.py")
    assert ranks[SHIPPED] == (1,)
    assert ranks["stack frames"] > (1,)


def test_files_that_are_not_found_have_no_rank() -> None:
    assert rank(REPORT, "src/shop/gone.py")[SHIPPED] == (None,)


def test_a_short_question_has_ranks_as_well() -> None:
    assert rank("charge an amount", "src/shop/payment.py")[SHIPPED] == (1,)
