"""The benchmark's metric, with values worked out by hand."""

import math

import pytest

from benchmarks.quality.corpus import CATEGORIES, questions, repositories, strict_labels
from benchmarks.quality.metric import Result, Target, found_by, ndcg, ranks


def results(*paths: str) -> list[Result]:
    return [Result(path, 1, 50) for path in paths]


@pytest.mark.parametrize(
    ("target", "path", "agrees"),
    [
        ("src/app.py", "src/app.py", True),
        ("src/app.py", "lib/src/app.py", True),  # the target is a trailing part of the result
        ("src/flask/app.py", "app.py", True),  # and the other way round
        ("app.py", "webapp.py", False),  # parts are whole
        ("src/app.py", "src/app.pyi", False),
    ],
)
def test_paths_agree_by_whole_trailing_parts(target: str, path: str, agrees: bool) -> None:
    assert found_by(Target(target), Result(path, 1, 1)) is agrees


@pytest.mark.parametrize(
    ("lines", "overlaps"),
    [((1, 9), False), ((1, 10), True), ((20, 30), True), ((12, 14), True), ((21, 30), False)],
)
def test_lines_must_overlap(lines: tuple[int, int], overlaps: bool) -> None:
    assert found_by(Target("a.py", 10, 20), Result("a.py", *lines)) is overlaps


def test_one_target_at_rank_three() -> None:
    assert ndcg([Target("c.py")], results("a.py", "b.py", "c.py")) == pytest.approx(
        1 / math.log2(4)
    )


def test_two_targets_of_three() -> None:
    score = ndcg(
        [Target("a.py"), Target("d.py"), Target("x.py")], results("a.py", "b.py", "c.py", "d.py")
    )
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert score == pytest.approx((1 + 1 / math.log2(5)) / ideal)


def test_a_second_chunk_of_the_same_file_wastes_a_rank() -> None:
    assert ranks([Target("a.py"), Target("b.py")], results("a.py", "a.py", "b.py")) == (1, 3)


def test_two_targets_found_by_one_result_count_once() -> None:
    spans = [Target("a.py", 1, 10), Target("a.py", 40, 60)]
    assert ndcg(spans, results("a.py")) == pytest.approx(1 / (1 + 1 / math.log2(3)))


def test_only_ten_results_count_and_the_ideal_has_ten_at_most() -> None:
    many = [Target(f"{n}.py") for n in range(12)]
    assert ndcg(many, results(*(f"{n}.py" for n in range(12)))) == pytest.approx(1.0)
    assert ndcg([Target("late.py")], results(*(f"{n}.py" for n in range(10)), "late.py")) == 0.0


def test_nothing_found_and_nothing_asked() -> None:
    assert ndcg([Target("a.py")], []) == 0.0
    assert ndcg([], results("a.py")) == 0.0


def test_strict_labels_prefer_the_exact_path() -> None:
    paths = ("app.py", "sansio/app.py", "cli.py")
    assert strict_labels((Target("src/flask/app.py"),), "src/flask", paths) == {"app.py"}
    assert strict_labels((Target("cli.py"),), "", paths) == {"cli.py"}
    assert strict_labels((Target("x/y/sansio/app.py"),), "other", paths) == {"sansio/app.py"}
    assert strict_labels((Target("gone.py"),), "", paths) == frozenset()


def test_the_data_are_complete() -> None:
    questions_by_name = {
        repository.name: questions(repository.name) for repository in repositories()
    }
    assert len(questions_by_name) == 25
    counts = {
        category: sum(
            q.category == category for entries in questions_by_name.values() for q in entries
        )
        for category in CATEGORIES
    }
    assert counts == {"architecture": 133, "semantic": 284, "symbol": 82}
    assert (
        sum(
            target.start_line > 0
            for entries in questions_by_name.values()
            for q in entries
            for target in q.targets
        )
        == 11
    )
