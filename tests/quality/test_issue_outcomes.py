"""A benchmark over bug reports that was interrupted goes on, and is a fair sample at any point."""

import subprocess
from pathlib import Path

import pytest

from benchmarks.quality.issue_outcomes import (
    Bundle,
    Case,
    Outcome,
    OutcomeFile,
    print_table,
    take_turns,
)
from benchmarks.quality.issues import check_out, run_cases
from tests.daemon import Daemon, git


def case(name: str, base: str = "", gold: tuple[str, ...] = ("a.py",)) -> Case:
    return Case(name, "lite", "owner/shop", base, "Where is the price rounded?", gold)


def outcome(name: str, *ranks: int | None) -> Outcome:
    return Outcome(case(name), ranks, 1.5, (Bundle(3, True, None), Bundle(4, True, 0.5)))


def test_outcomes_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = OutcomeFile(tmp_path / "outcomes.jsonl")
    assert file.read([case("shop-1")]) == []
    outcomes = [outcome("shop-1", 1, None), outcome("shop-2", 7)]
    for row in outcomes:
        file.append(row)
    assert file.read([case("shop-1"), case("shop-2")]) == outcomes
    assert file.read([case("shop-2")]) == outcomes[1:]


def test_half_a_line_is_not_an_outcome(tmp_path: Path) -> None:
    file = OutcomeFile(tmp_path / "outcomes.jsonl")
    file.append(outcome("shop-1", 1))
    file.append(outcome("shop-2", 2))
    file.path.write_text(file.path.read_text()[:-5])
    cases = [case("shop-1"), case("shop-2")]
    assert file.read(cases) == [outcome("shop-1", 1)]
    file.append(outcome("shop-2", 2))
    assert file.read(cases) == [outcome("shop-1", 1), outcome("shop-2", 2)]


def test_every_turn_has_cases_of_all_times() -> None:
    cases = [case(f"shop-{number}") for number in range(7)]
    parts = list(take_turns(cases, 3))
    assert [[member.name[-1] for member in part] for part in parts] == [
        ["0", "3", "6"],
        ["1", "4"],
        ["2", "5"],
    ]
    assert list(take_turns(cases, 1)) == [cases]


def test_all_files_of_a_fix_count(capsys: pytest.CaptureFixture[str]) -> None:
    three_bundles = (Bundle(2, True, 0.5), Bundle(4, True, None), Bundle(4, False, 1.0))
    print_table(
        [
            Outcome(case("shop-1", gold=("a.py", "b.py")), (1, 4), 2.0, three_bundles),
            Outcome(case("shop-2"), (None,), 4.0, three_bundles),
        ]
    )
    printed = capsys.readouterr().out
    assert "| all | 2 | 0.000 | 0.500 | 0.500 | 0.500 |" in printed
    assert "| owner/shop | 2 | 0.000 | 0.500 | 0.500 | 0.500 |" in printed
    assert "within 2,000 tokens: all files 1.000 (n=2), changed lines 0.500 (n=2)" in printed
    assert "within 4,000 tokens: all files 1.000 (n=2), changed lines nan (n=0)" in printed


def output_of_git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path, text: str, message: str) -> str:
    (root / "price.py").write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message)
    return output_of_git(root, "rev-parse", "HEAD")


@pytest.mark.parametrize("all_indexes", [False, True])
def test_each_case_is_asked_of_its_own_commit(
    tmp_path: Path, shared: Daemon, all_indexes: bool
) -> None:
    repository = tmp_path / "shop"
    repository.mkdir()
    git(repository, "init", "-q")
    first = commit(repository, "def sum_up(items):\n    return sum(items)\n", "Begin")
    (repository / "rounding.py").write_text("def round_price(price):\n    return price\n")
    second = commit(repository, "def sum_up(items):\n    return 0\n", "Round prices (#2)")
    commit(repository, "def sum_up(items):\n    return 1\n", "Sum up (#1)")
    cases = [
        case("shop-2", second, ("rounding.py",)),
        case("shop-1", first, ("rounding.py",)),
    ]
    folders = {"owner/shop": repository / ".git"}
    outcomes = {
        result.case.name: result
        for result in run_cases(shared, folders, cases, turns=2, all_indexes=all_indexes)
    }
    assert outcomes["shop-1"].ranks == (None,)
    assert outcomes["shop-2"].ranks == (1,)
    assert all(bundle.has_all for bundle in outcomes["shop-2"].bundles)


def test_a_tree_follows_its_commit(tmp_path: Path) -> None:
    repository = tmp_path / "shop"
    repository.mkdir()
    git(repository, "init", "-q")
    first = commit(repository, "old\n", "Begin")
    (repository / "rates").mkdir()
    (repository / "rates" / "eu.txt").write_text("1\n")
    second = commit(repository, "new\n", "Add rates")
    root = tmp_path / "tree" / "shop"
    root.mkdir(parents=True)
    for revision, text, has_rates in (
        (first, "old\n", False),
        (second, "new\n", True),
        (first, "old\n", False),
    ):
        check_out(repository / ".git", revision, root)
        assert (root / "price.py").read_text() == text
        assert (root / "rates" / "eu.txt").exists() == has_rates


def test_a_tree_lacks_a_file_that_the_copy_lacks(tmp_path: Path) -> None:
    repository = tmp_path / "shop"
    repository.mkdir()
    git(repository, "init", "-q")
    (repository / "song.mp3").write_bytes(b"la la")
    revision = commit(repository, "text\n", "Begin")
    blob = output_of_git(repository, "rev-parse", "HEAD:song.mp3")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    root = tmp_path / "tree" / "shop"
    root.mkdir(parents=True)
    check_out(repository / ".git", revision, root)
    assert [path.name for path in root.iterdir()] == ["price.py"]
