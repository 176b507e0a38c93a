"""Excluded files in `status`, each with its reason and its remedy."""

from pathlib import Path
from typing import get_args

import pytest

from cocosearchd.exclusion import (
    EXCLUSIONS,
    SCOPE_EXCLUSIONS,
    ExclusionCode,
    ScopeCode,
    empty_index_sentence,
    exclusion_sentence,
    find_exclusion,
)
from cocosearchd.model import SkipReason
from tests.daemon import Daemon

_KEY = b"-----BEGIN RSA PRIVATE KEY-----\n" + b"MIIEow" * 100 + b"\n-----END RSA PRIVATE KEY-----\n"
LEFT_OUT = {
    "huge.py": ("too_large", b"x = 1\n" * 200_000),
    "key.py": ("secret", _KEY),
    "made.js": ("minified", b"var a=1;" * 20_000),
    "photo.py": ("binary", b"\0\1\2" * 100),
}


def test_each_reason_has_a_cause_and_a_remedy() -> None:
    codes = {code for part in get_args(ExclusionCode) for code in (get_args(part) or (part,))}
    assert codes == set(EXCLUSIONS)
    assert set(get_args(SkipReason)) <= codes
    for row in EXCLUSIONS.values():
        assert row.cause, row
        assert row.remedy, row
        assert "; " not in row.cause, "the sentence has two parts"


def test_a_reason_of_a_newer_version_is_no_error() -> None:
    assert "newer version" in find_exclusion("melted").cause
    assert exclusion_sentence("a.py", "quarantined").startswith(
        "a.py is not searched: it ended or stalled"
    )


def test_status_names_what_is_left_out_and_what_to_do(shared: Daemon, hostile_root: Path) -> None:
    for name, (_, data) in LEFT_OUT.items():
        (hostile_root / name).write_bytes(data)
    (hostile_root / "main.py").write_text("def main():\n    return 1\n")
    shared.ctl("up", str(hostile_root), "--wait")
    (status,) = shared.call("status")["indexes"]
    assert {file["path"]: file["reason"] for file in status["excluded"]} == {
        name: reason for name, (reason, _) in LEFT_OUT.items()
    }
    output = shared.ctl("status").stdout
    for name, (reason, _) in LEFT_OUT.items():
        sentence = exclusion_sentence(name, reason)
        assert sentence in [file["sentence"] for file in status["excluded"]]
        assert sentence in output
        answer = shared.query("main", "--why-not", name)
        assert find_exclusion(reason).remedy in answer["explain"]["why_not"]["reason"]
    listed = shared.ctl("stats", status["name"], "--failures").stdout
    assert all(find_exclusion(reason).remedy in listed for reason, _ in LEFT_OUT.values())


def test_status_names_the_worst_excluded_files_and_counts_the_rest(
    shared: Daemon, hostile_root: Path
) -> None:
    for number in range(40):
        (hostile_root / f"a{number:02}.py").write_bytes(b"\0\1")
    (hostile_root / "z.py").write_bytes(b"x = 1\n" * 200_000)
    shared.ctl("up", str(hostile_root), "--wait")
    (status,) = shared.call("status")["indexes"]
    assert (len(status["excluded"]), status["excluded"][0]["path"]) == (20, "z.py")
    assert (
        "36 more; `cocosearchctl stats hostile --failures` lists them"
        in shared.ctl("status").stdout
    )


def test_each_code_of_a_rule_has_a_cause_and_a_remedy() -> None:
    assert set(get_args(ScopeCode)) == set(SCOPE_EXCLUSIONS)
    assert all(row.cause and row.remedy for row in SCOPE_EXCLUSIONS.values())


@pytest.mark.parametrize(
    ("counts", "is_complete", "sentence"),
    [
        ({}, True, "there are no files yet"),
        ({"type": 1}, True, "its only file is left out: 1 of types that are not indexed; name "),
        (
            {"too_large": 2, "gitignore": 1118},
            True,
            "all 1,120 files are left out: 1,118 by .gitignore, 2 too large; set indexing.",
        ),
        ({"binary": 3}, False, "the first 3 files are all left out: 3 binary; read it"),
    ],
)
def test_the_sentence_names_the_largest_cause_first(
    counts: dict[str, int], is_complete: bool, sentence: str
) -> None:
    assert sentence in empty_index_sentence(counts, is_complete=is_complete)


def test_up_status_and_a_query_say_why_nothing_is_searchable(
    shared: Daemon, hostile_root: Path
) -> None:
    (hostile_root / "a.py").write_text("x = 1\n")
    (hostile_root / "b.py").write_text("x = 1\n")
    (hostile_root / ".gitignore").write_text("*\n")
    sentence = "nothing is searchable: all 3 files are left out: 3 by .gitignore; set indexing"
    name = hostile_root.name
    output = shared.ctl("up", str(hostile_root)).stdout
    assert sentence in output
    assert "try:" not in output  # a query would find nothing
    assert sentence in shared.ctl("status").stdout
    assert sentence in shared.ctl("query", "anything", "--index", name).stdout
    (hostile_root / ".gitignore").write_text("")
    assert "nothing is searchable" not in shared.ctl("sync", name).stdout
    assert "nothing is searchable" not in shared.ctl("status").stdout
