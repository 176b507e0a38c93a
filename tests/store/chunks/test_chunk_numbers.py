"""Which chunks of a file keep their rows, and between which others new ones come."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.store.chunks.chunk_numbers import STEP, assign_numbers

CONTENTS = st.lists(st.sampled_from("abcdefgh"), max_size=12)


def numbered(contents: Sequence[str]) -> dict[int, str]:
    ordinals, kept = assign_numbers({}, contents)
    assert not kept
    return dict(zip(ordinals, contents, strict=True))


@given(CONTENTS, st.lists(CONTENTS, max_size=6))
def test_ordinals_ascend_with_the_places_and_rows_that_stay_are_what_is_wanted(
    first: list[str], later: list[list[str]]
) -> None:
    rows = numbered(first)
    for wanted in later:
        ordinals, kept = assign_numbers(rows, wanted)
        assert len(ordinals) == len(wanted)
        assert ordinals == sorted(set(ordinals))
        assert {ordinal: content for ordinal, content in rows.items() if ordinal in kept} == {
            ordinal: content
            for ordinal, content in zip(ordinals, wanted, strict=True)
            if ordinal in kept
        }
        if wanted == list(rows.values()):
            assert sorted(kept) == ordinals
        rows = dict(zip(ordinals, wanted, strict=True))


@pytest.mark.parametrize(
    ("before", "after", "stay"),
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
def test_as_many_rows_stay_as_can(before: str, after: str, stay: int) -> None:
    _, kept = assign_numbers(numbered(before), after)
    assert len(kept) == stay


def test_there_is_room_in_one_spot_for_long_and_then_all_are_numbered_anew() -> None:
    rows, contents = numbered(["first", "last"]), ["first", "last"]
    for step in range(32):
        contents.insert(1, f"{step}")
        ordinals, kept = assign_numbers(rows, contents)
        assert len(kept) == len(rows), step
        rows = dict(zip(ordinals, contents, strict=True))
    contents.insert(1, "one too many")
    ordinals, kept = assign_numbers(rows, contents)
    assert (ordinals, kept) == ([STEP * place for place in range(35)], frozenset())


def test_what_is_changed_again_and_again_takes_no_room() -> None:
    rows = numbered(["a", "0", "b"])
    for step in range(200):
        ordinals, kept = assign_numbers(rows, ["a", f"{step} changed", "b"])
        assert len(kept) == 2
        rows = dict(zip(ordinals, ["a", f"{step} changed", "b"], strict=True))


@pytest.mark.parametrize("front", [True, False])
def test_a_file_may_grow_at_its_ends_without_end(*, front: bool) -> None:
    contents = ["0"]
    rows = numbered(contents)
    for step in range(1, 300):
        contents = [f"{step}", *contents] if front else [*contents, f"{step}"]
        ordinals, kept = assign_numbers(rows, contents)
        assert len(kept) == step
        rows = dict(zip(ordinals, contents, strict=True))
    assert max(map(abs, rows)) < 1 << 42


@given(CONTENTS, st.lists(CONTENTS, max_size=6))
def test_what_is_taken_is_taken_by_none_as_long_as_there_is_room(
    first: list[str], later: list[list[str]]
) -> None:
    """Of each content the rows stay beside those of the next one."""
    rows, live = numbered(first), first
    for wanted in later:
        taken = frozenset(ordinal for ordinal, content in rows.items() if content in live)
        ordinals, kept = assign_numbers(rows, wanted, taken)
        assert ordinals == sorted(set(ordinals))
        assert len(ordinals) == len(wanted)
        assert kept <= rows.keys()
        assert not (taken - kept) & set(ordinals)
        stay = {ordinal: content for ordinal, content in rows.items() if ordinal in taken | kept}
        rows, live = dict(sorted((stay | dict(zip(ordinals, wanted, strict=True))).items())), wanted


def test_two_contents_that_differ_as_a_whole_take_turns_without_counting_up() -> None:
    rows = numbered("abcdef")
    for step in range(300):
        wanted = [f"{step} {number}" for number in range(6)]
        ordinals, kept = assign_numbers(rows, wanted, rows.keys())
        assert not kept
        assert not rows.keys() & set(ordinals)
        rows = dict(zip(ordinals, wanted, strict=True))
    assert max(map(abs, rows)) < 1 << 40


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize(
    ("head", "tail"), [((), ()), (("head",), ()), ((), ("tail",)), (("head",), ("tail",))]
)
def test_what_changes_for_ever_beside_what_is_taken_does_not_count_up(
    head: tuple[str, ...], tail: tuple[str, ...], *, always: bool
) -> None:
    """The rows that stay beside are those of the content before, or `always` those of the first
    one.
    """
    rows, beside = numbered([*head, *"abcdef", *tail]), dict[int, str]()
    for step in range(1, 300):
        live = {ordinal: content for ordinal, content in rows.items() if ordinal not in beside}
        wanted = [*head, *(f"{step} {number}" for number in range(6)), *tail]
        ordinals, kept = assign_numbers(rows, wanted, rows.keys())
        assert len(kept) == len(head) + len(tail)
        assert not (rows.keys() - kept) & set(ordinals)
        beside = (
            beside
            if always and beside
            else {n: content for n, content in live.items() if n not in kept}
        )
        rows = dict(sorted((beside | dict(zip(ordinals, wanted, strict=True))).items()))
    assert max(map(abs, rows)) < 1 << 40


def test_where_there_is_no_room_beside_what_is_taken_that_is_overwritten() -> None:
    rows = {0: "a", 1: "gone", 2: "b"}
    assert assign_numbers(rows, ["a", "new", "b"], frozenset({1})) == ([0, 1, 2], {0, 2})
    assert assign_numbers(rows, ["a", "new", "newer", "b"], frozenset({1})) == (
        [STEP * n for n in range(4)],
        frozenset(),
    )
