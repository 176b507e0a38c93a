"""Changed files over parsed sources: removed definitions, within the time of a question."""

from dataclasses import replace

import pytest

from benchmarks.graph.parsed_files import names_used
from cocosearchd.api.graph import changed_files
from cocosearchd.api.graph.changed_files import ChangeComparison, ChangeSource, compare_changes
from cocosearchd.api.graph.earlier_code import EarlierCode
from cocosearchd.api.graph.graph_questions import GraphMoment
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.graph.earlier_files import EarlierFile
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.watching.git.git_changes import GitChanges, GitFileChange, LineHunk
from tests.graph.sources import parse_source, parse_sources

FILES = parse_sources(
    {
        "shop.py": "def tax(rate):\n    return rate\n",
        "user.py": "from shop import price\n",
    }
)
EARLIER = parse_source("shop.py", "def price():\n    return 1\n\n\ndef tax():\n    return 1\n")
CHANGE = GitFileChange("shop.py", "modified", (LineHunk(1, 6, 1, 2),))


def compare(*changes: GitFileChange, unread: int = 0) -> ChangeComparison:
    target = replace(parse_target(""), paths=("",))
    moment = GraphMoment(FILES, Resolver(FILES), target, Filter(), lambda: False)
    used_names = frozenset(names_used(EARLIER.facts))
    versions = {
        change.path: EarlierFile(replace(EARLIER, path=change.path), used_names)
        for change in changes
    }
    git_changes = GitChanges("a" * 40, None, changes, frozenset(FILES.paths()))
    return compare_changes(moment, ChangeSource(git_changes, EarlierCode(versions, unread)))


def test_what_is_gone_and_new_signatures_are_named() -> None:
    comparison = compare(CHANGE)
    [file] = comparison.files
    [entry] = file.removed_symbols
    assert (entry.symbol.name, entry.uses, entry.moved_to) == ("price", 1, None)
    [signature] = file.signatures
    assert (signature.symbol.name, signature.earlier) == ("tax", "def tax()")
    assert [definition.name for definition in comparison.removed] == ["price"]
    assert (comparison.is_complete, comparison.notes) == (True, ())


def test_a_file_that_is_not_indexed_is_not_taken_for_one_that_is_gone() -> None:
    [file] = compare(GitFileChange("vendored.py", "modified", (LineHunk(1, 1, 1, 1),))).files
    assert not file.removed


def test_the_time_for_what_is_gone_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_files, "REMOVAL_S", -1.0)
    comparison = compare(CHANGE, unread=2)
    [file] = comparison.files
    assert [symbol.name for symbol in file.symbols] == ["tax"]
    assert not file.removed
    assert not comparison.is_complete
    assert comparison.notes == (
        "the earlier text of 2 changed files was not compared",
        "more definitions are gone, or used, than were looked for",
    )
