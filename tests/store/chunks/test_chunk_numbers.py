"""Chunk numbers: rows stay where possible, and new chunks get numbers between them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.store.chunks.chunk_numbers import STEP, assign_numbers

CONTENTS = st.lists(st.sampled_from("abcdefgh"), max_size=12)


def numbered(contents: Sequence[str]) -> dict[int, str]:
    numbers, staying = assign_numbers({}, contents)
    assert not staying
    return dict(zip(numbers, contents, strict=True))


@given(CONTENTS, st.lists(CONTENTS, max_size=6))
def test_numbers_ascend_by_position_and_staying_rows_have_the_contents(
    first: list[str], later: list[list[str]]
) -> None:
    rows = numbered(first)
    for contents in later:
        numbers, staying = assign_numbers(rows, contents)
        assert len(numbers) == len(contents)
        assert numbers == sorted(set(numbers))
        assert {
            chunk_number: content
            for chunk_number, content in rows.items()
            if chunk_number in staying
        } == {
            chunk_number: content
            for chunk_number, content in zip(numbers, contents, strict=True)
            if chunk_number in staying
        }
        if contents == list(rows.values()):
            assert sorted(staying) == numbers
        rows = dict(zip(numbers, contents, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "stay"),
    [
        ("abcd", "abcd", 4),
        ("abcd", "xabcd", 4),
        ("abcd", "abxcd", 4),
        ("abcd", "acd", 3),
        ("abcd", "axyzd", 2),
        ("abcdef", "bcdefa", 5),  # one of them changes its place among the others
        ("abcdef", "fabcde", 5),
        ("abcdef", "fedcba", 1),
        ("aaaa", "aaaaaa", 4),
        ("aaaa", "aa", 2),
        ("axaya", "ayaxa", 3),
        ("", "ab", 0),
        ("ab", "", 0),
        ("abc", "xyz", 0),
    ],
)
def test_the_largest_possible_number_of_rows_stays(old: str, new: str, stay: int) -> None:
    _, staying = assign_numbers(numbered(old), new)
    assert len(staying) == stay


def test_there_is_room_in_one_spot_for_long_and_then_all_are_numbered_anew() -> None:
    rows, contents = numbered(["first", "last"]), ["first", "last"]
    for step in range(32):
        contents.insert(1, f"{step}")
        numbers, staying = assign_numbers(rows, contents)
        assert len(staying) == len(rows), step
        rows = dict(zip(numbers, contents, strict=True))
    contents.insert(1, "one too many")
    numbers, staying = assign_numbers(rows, contents)
    assert (numbers, staying) == ([STEP * position for position in range(35)], frozenset())


def test_repeated_edits_exhaust_no_chunk_numbers() -> None:
    rows = numbered(["a", "0", "b"])
    for step in range(200):
        numbers, staying = assign_numbers(rows, ["a", f"{step} changed", "b"])
        assert len(staying) == 2
        rows = dict(zip(numbers, ["a", f"{step} changed", "b"], strict=True))


@pytest.mark.parametrize("front", [True, False])
def test_a_file_may_grow_at_its_ends_without_end(*, front: bool) -> None:
    contents = ["0"]
    rows = numbered(contents)
    for step in range(1, 300):
        contents = [f"{step}", *contents] if front else [*contents, f"{step}"]
        numbers, staying = assign_numbers(rows, contents)
        assert len(staying) == step
        rows = dict(zip(numbers, contents, strict=True))
    assert max(map(abs, rows)) < 1 << 42


@given(CONTENTS, st.lists(CONTENTS, max_size=6))
def test_reserved_numbers_are_avoided_while_there_is_room(
    first: list[str], later: list[list[str]]
) -> None:
    """The rows of each content stay beside those of the next one."""
    rows, live = numbered(first), first
    for contents in later:
        reserved = frozenset(
            chunk_number for chunk_number, content in rows.items() if content in live
        )
        numbers, staying = assign_numbers(rows, contents, reserved)
        assert numbers == sorted(set(numbers))
        assert len(numbers) == len(contents)
        assert staying <= rows.keys()
        assert not (reserved - staying) & set(numbers)
        stay = {
            chunk_number: content
            for chunk_number, content in rows.items()
            if chunk_number in reserved | staying
        }
        rows, live = (
            dict(sorted((stay | dict(zip(numbers, contents, strict=True))).items())),
            contents,
        )


def test_two_contents_that_differ_as_a_whole_take_turns_without_counting_up() -> None:
    rows = numbered("abcdef")
    for step in range(300):
        contents = [f"{step} {number}" for number in range(6)]
        numbers, staying = assign_numbers(rows, contents, rows.keys())
        assert not staying
        assert not rows.keys() & set(numbers)
        rows = dict(zip(numbers, contents, strict=True))
    assert max(map(abs, rows)) < 1 << 40


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize(
    ("head", "tail"), [((), ()), (("head",), ()), ((), ("tail",)), (("head",), ("tail",))]
)
def test_endless_changes_beside_reserved_numbers_do_not_count_up(
    head: tuple[str, ...], tail: tuple[str, ...], *, always: bool
) -> None:
    """The rows beside are those of the previous content, or `always` those of the first."""
    rows, beside = numbered([*head, *"abcdef", *tail]), dict[int, str]()
    for step in range(1, 300):
        live = {
            chunk_number: content
            for chunk_number, content in rows.items()
            if chunk_number not in beside
        }
        contents = [*head, *(f"{step} {number}" for number in range(6)), *tail]
        numbers, staying = assign_numbers(rows, contents, rows.keys())
        assert len(staying) == len(head) + len(tail)
        assert not (rows.keys() - staying) & set(numbers)
        beside = (
            beside
            if always and beside
            else {n: content for n, content in live.items() if n not in staying}
        )
        rows = dict(sorted((beside | dict(zip(numbers, contents, strict=True))).items()))
    assert max(map(abs, rows)) < 1 << 40


def test_reserved_numbers_are_used_where_there_is_no_room_beside_them() -> None:
    rows = {0: "a", 1: "gone", 2: "b"}
    assert assign_numbers(rows, ["a", "new", "b"], frozenset({1})) == ([0, 1, 2], {0, 2})
    assert assign_numbers(rows, ["a", "new", "newer", "b"], frozenset({1})) == (
        [STEP * n for n in range(4)],
        frozenset(),
    )
