"""Changed lines of a fix, and the share of them that an answer shows."""

import subprocess
from pathlib import Path
from typing import Any

from benchmarks.quality.bundles import FixHistory, share_shown, shown_lines
from tests.daemon import git


def commit(root: Path, message: str, text: str) -> None:
    (root / "store.py").write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message)


def head(root: Path) -> str:
    command = ["git", "-C", str(root), "branch", "--show-current"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_lines_of_the_change_with_a_number(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    commit(tmp_path, "Begin", "a\nb\nc\nd\n")
    commit(tmp_path, "Mend c, and add e (#12)", "a\nb\nC\nd\ne\n")
    commit(tmp_path, "Mend a (#123)", "A\nb\nC\nd\ne\n")
    repository = tmp_path / ".git"
    history = FixHistory(repository)
    assert history.changed_lines("12", ["store.py"]) == {"store.py": {3, 4}}
    assert history.changed_lines("123", ["store.py", "none.py"]) == {"store.py": {1}}
    assert history.changed_lines("7", ["store.py"]) == {}
    assert history.changed_lines("x", ["store.py"]) == {}


def test_a_merge_is_the_change_of_its_branch(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    commit(tmp_path, "Begin", "a\nb\nc\nd\ne\nf\ng\n")
    main = head(tmp_path)
    git(tmp_path, "checkout", "-q", "-b", "fix")
    commit(tmp_path, "Mend g", "a\nb\nc\nd\ne\nf\nG\n")
    git(tmp_path, "checkout", "-q", main)
    commit(tmp_path, "Mend a", "A\nb\nc\nd\ne\nf\ng\n")
    git(tmp_path, "merge", "-q", "--no-ff", "-m", "Merge pull request #5 from fix", "fix")
    assert FixHistory(tmp_path / ".git").changed_lines("5", ["store.py"]) == {"store.py": {7}}


def hit(**fields: Any) -> dict[str, Any]:
    return {"path": "a.py", "start_line": 10, "context_before": "", "context_after": ""} | fields


def test_lines_beside_a_hit_are_shown_lines_behind_a_gap_are_not() -> None:
    uncut = hit(content="x\ny", context_before="def f():\n…\nw", context_after="z")
    cut = hit(path="b.py", content="x\n...")
    assert shown_lines({"results": [uncut, cut]}) == {"a.py": {9, 10, 11, 12}, "b.py": {10}}


def test_the_share_of_the_changed_lines() -> None:
    assert share_shown({"a.py": {1, 2}, "b.py": {3, 4}}, {"a.py": {2, 3}}) == 0.25
    assert share_shown({}, {"a.py": {1}}) is None
