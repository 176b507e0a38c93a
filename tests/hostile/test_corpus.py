"""The short form of `make hostile`: a seeded part of the corpus, small contents, one daemon."""

from collections.abc import Sequence
from pathlib import Path

from tests.daemon import Daemon
from tests.hostile.campaign import run_campaign
from tests.hostile.corpus import Case, cases
from tests.hostile.neighbour import Neighbour

SEED, SIZE_BYTES, OF_EACH_SHAPE, LIMIT_BYTES = 1, 2_000, 5, 2 << 30


def test_every_input_is_searchable_or_left_out_with_a_reason(
    shared: Daemon, neighbour: Neighbour, hostile_root: Path
) -> None:
    """Every shape of content in some languages, every language in some shapes, and all other
    cases.
    """
    inputs = list(cases(SEED, SIZE_BYTES))
    contents = [case for case in inputs if case.group == "content"]
    chosen = [*sampled(contents), *(case for case in inputs if case.group != "content")]
    for names in (shapes_of, languages_of):
        assert names(chosen) == names(contents)
    report = run_campaign(shared, neighbour, hostile_root, chosen, LIMIT_BYTES)
    assert not report.problems, str(report)
    assert report.searchable + report.left_out == len(chosen)


def sampled(contents: Sequence[Case]) -> list[Case]:
    """Some cases of each shape, other languages in each, until all have come."""
    shapes, languages = sorted(shapes_of(contents)), sorted(languages_of(contents))
    chosen = {
        f"{shape} {languages[(number * OF_EACH_SHAPE + offset) % len(languages)]}"
        for number, shape in enumerate(shapes)
        for offset in range(OF_EACH_SHAPE)
    }
    return [case for case in contents if case.name in chosen]


def shapes_of(contents: Sequence[Case]) -> set[str]:
    return {case.name.partition(" ")[0] for case in contents if case.group == "content"}


def languages_of(contents: Sequence[Case]) -> set[str]:
    return {case.name.partition(" ")[2] for case in contents if case.group == "content"}


def test_a_seed_names_its_inputs(tmp_path: Path) -> None:
    first, again = ([*cases(SEED, 200)] for _ in range(2))
    assert [case.path for case in first] == [case.path for case in again]
    assert len({case.path for case in first}) == len(first)
    markers = [case.marker for case in first if case.marker]
    assert len(set(markers)) == len(markers)
    assert len(first) > 1500
