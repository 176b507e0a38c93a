"""Restarts after a process froze or died while it applied files"""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from cocosearchd.search.lexical.apply_journal import ENDS, FIRST_PAUSE_S, ApplyJournal


@dataclass(frozen=True)
class File:
    path: str
    generation: int = 1


FILES = [File("a.py"), File("b.py"), File("c.py")]


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "lexical" / "code.journal", tmp_path / "froze"


def die(places: tuple[Path, Path], files: list[File], *, frozen: bool = False) -> None:
    """Leave the journal of a process that ends while it applies these files."""
    with ApplyJournal(*places).applying(files):
        journal = places[0].read_bytes()
    places[0].write_bytes(journal)
    if frozen:
        places[1].write_text("")


def paths(journal: ApplyJournal, files: list[File] = FILES) -> list[list[str]]:
    return [[file.path for file in part] for part in journal.batches(files)]


def test_files_that_were_taken_in_are_not_suspected(places: tuple[Path, Path]) -> None:
    journal = ApplyJournal(*places)
    with journal.applying(FILES):
        pass
    places[1].write_text("")
    assert paths(ApplyJournal(*places)) == [["a.py", "b.py", "c.py"]]


def test_a_file_that_was_alone_at_a_freeze_is_left_out_until_it_changes(
    places: tuple[Path, Path],
) -> None:
    die(places, [File("b.py")], frozen=True)
    journal = ApplyJournal(*places)
    assert paths(journal) == [["a.py", "c.py"]]
    assert journal.warnings[0].startswith(
        "b.py is not searched: the daemon stopped answering while it worked on it"
    )
    assert paths(ApplyJournal(*places)) == [["a.py", "c.py"]], "also at the start after that"
    changed = [File("a.py"), File("b.py", 2)]
    assert paths(journal, changed) == [["a.py", "b.py"]]
    with journal.applying(changed):
        pass
    assert journal.warnings == ()


def test_the_harmful_one_of_several_files_is_found(places: tuple[Path, Path]) -> None:
    die(places, FILES, frozen=True)
    journal = ApplyJournal(*places)
    assert paths(journal) == [["a.py"], ["b.py"], ["c.py"]]
    with journal.applying([FILES[0]]):
        pass
    die(places, [FILES[1]], frozen=True)
    assert paths(ApplyJournal(*places)) == [["a.py"], ["c.py"]]


def test_kills_exclude_a_file_for_a_while_at_most(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may come from outside: memory ran out, or somebody killed the process."""
    for _ in range(ENDS - 1):
        die(places, [File("b.py")])
        assert paths(ApplyJournal(*places)) == [["a.py", "c.py"], ["b.py"]]
    die(places, [File("b.py")])
    journal = ApplyJournal(*places)
    assert paths(journal) == [["a.py", "c.py"]]
    assert journal.excluded_paths == ("b.py",)
    assert journal.warnings[0].startswith("b.py is not searched: the daemon ended several times")
    assert paths(journal, [File("b.py", 2)]) == [["b.py"]], "another content is tried at once"

    pass_a_pause(monkeypatch)
    assert journal.due_files() == {"b.py": 1}
    assert paths(journal) == [["a.py", "c.py"], ["b.py"]]
    die(places, [File("b.py")])
    journal = ApplyJournal(*places)
    pass_a_pause(monkeypatch)
    assert journal.due_files() == {}, "the second pause is longer"
    pass_a_pause(monkeypatch)
    assert journal.due_files() == {"b.py": 1}
    with journal.applying([File("b.py")]):
        pass
    assert journal.warnings == ()
    assert paths(ApplyJournal(*places)) == [["a.py", "b.py", "c.py"]]


def pass_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    later = time.time() + FIRST_PAUSE_S + 1
    monkeypatch.setattr(time, "time", lambda: later)


def test_a_clock_that_is_set_back_prolongs_no_pause(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(ENDS):
        die(places, [File("b.py")])
    journal = ApplyJournal(*places)
    assert journal.due_files() == {}
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert journal.due_files() == {"b.py": 1}


@pytest.mark.parametrize("frozen", [True, False])
def test_files_that_are_gone_are_not_excluded_any_more(
    places: tuple[Path, Path], frozen: bool
) -> None:
    for _ in range(ENDS):
        die(places, [File("b.py")], frozen=frozen)
    journal = ApplyJournal(*places)
    assert journal.excluded_paths == ("b.py",)
    journal.retain({"a.py": 1, "b.py": 1})
    assert journal.excluded_paths == ("b.py",)
    journal.retain({"a.py": 1})
    assert ApplyJournal(*places).excluded_paths == ()


def test_words_wait_after_two_freezes_that_no_file_explains(places: tuple[Path, Path]) -> None:
    for paused in (False, False, True, False):
        journal = ApplyJournal(*places)
        assert journal.paused == paused
        assert bool(journal.warnings) == paused
        end_while_catching_up(places, journal)
        places[1].write_text("")


def test_kills_pause_nothing(places: tuple[Path, Path]) -> None:
    """A daemon that is killed while it starts, however often, starts as usual."""
    for _ in range(5):
        journal = ApplyJournal(*places)
        assert not journal.paused
        end_while_catching_up(places, journal)


def end_while_catching_up(places: tuple[Path, Path], journal: ApplyJournal) -> None:
    with journal.catching_up():
        actual = places[0].read_bytes()
    places[0].write_bytes(actual)


@pytest.mark.parametrize("content", [b"", b"\0\0", b"[1]", b'{"other": 1}', b"{" * 100])
def test_a_torn_journal_is_none(places: tuple[Path, Path], content: bytes) -> None:
    places[0].parent.mkdir()
    places[0].write_bytes(content)
    assert paths(ApplyJournal(*places)) == [["a.py", "b.py", "c.py"]]
