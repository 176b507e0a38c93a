"""The short form of `make hostile`: a seeded part of the corpus, small contents, one daemon."""

import random
from pathlib import Path

import pytest

from tests.daemon import Daemon
from tests.hostile.campaign import run_campaign
from tests.hostile.corpus import cases
from tests.hostile.neighbour import Neighbour

SEED, SIZE_BYTES, CONTENTS, LIMIT_BYTES = 1, 2_000, 400, 2 << 30


@pytest.mark.timeout(240)
def test_every_input_is_searchable_or_left_out_with_a_reason(
    daemon: Daemon, neighbour: Neighbour, hostile_root: Path
) -> None:
    inputs = list(cases(SEED, SIZE_BYTES))
    contents = [case for case in inputs if case.group == "content"]
    others = [case for case in inputs if case.group != "content"]
    chosen = [*random.Random(SEED).sample(contents, CONTENTS), *others]
    assert len(chosen) >= 500
    report = run_campaign(daemon, neighbour, hostile_root, chosen, LIMIT_BYTES)
    assert not report.problems, str(report)
    assert report.searchable + report.left_out == len(chosen)


def test_a_seed_names_its_inputs(tmp_path: Path) -> None:
    first, again = ([*cases(SEED, SIZE_BYTES)] for _ in range(2))
    assert [case.path for case in first] == [case.path for case in again]
    assert len({case.path for case in first}) == len(first)
    markers = [case.marker for case in first if case.marker]
    assert len(set(markers)) == len(markers)
    assert len(first) > 1500
