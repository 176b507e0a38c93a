"""Lookup of the running index that a directory belongs to."""

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import anyio
import pytest

from cocosearchd.errors import InvalidInput, NotFound, Refused
from cocosearchd.indexes import lookup
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.watching.root_validation import check_root


@pytest.fixture
def roots(tmp_path: Path) -> tuple[IndexLookup, Path]:
    """`outer` holds `inner`; a lookup of both, which asks nothing of an index but its record. Both
    have the topic `all`, and each has its name as a topic.
    """
    running: dict[str, RunningIndex] = {}
    for name, directory in (("outer", tmp_path / "outer"), ("inner", tmp_path / "outer" / "inner")):
        directory.mkdir()
        record = SimpleNamespace(
            name=name, root=os.fsencode(directory.resolve()), topics=("all", name)
        )
        running[name] = cast(RunningIndex, SimpleNamespace(record=record))
    return IndexLookup(running), tmp_path


def chain(home: Path, end: str, links: int) -> None:
    """`link_0` leads to `link_1`, and so on; the last one leads to `end`."""
    for number in range(links):
        (home / f"link_{number}").symlink_to(f"link_{number + 1}" if number + 1 < links else end)


async def name_around(lookup: IndexLookup, directory: Path) -> str | None:
    index = await lookup.around(str(directory))
    return index.record.name if index else None


async def test_the_nearest_root_is_meant_and_links_are_followed(
    roots: tuple[IndexLookup, Path],
) -> None:
    lookup, home = roots
    (home / "outer" / "sub").mkdir()
    (home / "elsewhere").mkdir()
    (home / "link").symlink_to(home / "outer" / "sub")
    (home / "outer" / "away").symlink_to(home / "elsewhere")
    assert await name_around(lookup, home / "outer") == "outer"
    assert await name_around(lookup, home / "outer" / "inner") == "inner"
    assert await name_around(lookup, home / "outer" / "sub") == "outer"
    assert await name_around(lookup, home / "link") == "outer"
    assert await name_around(lookup, home / "outer" / "away") is None, (
        "a link that leads out of a root"
    )
    assert await name_around(lookup, home) is None


async def test_a_relative_directory_is_refused_wherever_the_daemon_runs(
    roots: tuple[IndexLookup, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lookup, home = roots
    monkeypatch.chdir(home / "outer")
    for directory in ("", ".", "inner", "../outer"):
        with pytest.raises(InvalidInput, match="not an absolute path"):
            await lookup.select(None, directory)


@pytest.mark.parametrize(
    ("names", "topics", "expected"),
    [
        ((), (), ["inner", "outer"]),
        ((("outer", "inner"), ()), (), ["outer", "inner"]),
        ((("outer", "inner"), ("inner",)), (), ["inner"]),
        ((), (("all",), ("inner", "outer")), ["inner", "outer"]),
        ((("outer", "inner"),), (("all",), ("outer",)), ["outer"]),
    ],
)
def test_names_and_topics_of_indexes_narrow_each_other(
    roots: tuple[IndexLookup, Path],
    names: tuple[tuple[str, ...], ...],
    topics: tuple[tuple[str, ...], ...],
    expected: list[str],
) -> None:
    selected = roots[0].intersect(names, topics)
    assert [index.record.name for index in selected] == expected


def test_names_and_topics_that_leave_no_index_are_named_in_one_sentence(
    roots: tuple[IndexLookup, Path],
) -> None:
    with pytest.raises(NotFound, match="no index is left by index outer and index inner"):
        roots[0].intersect((("outer",), ("inner",)))
    with pytest.raises(NotFound, match="no index is left by index outer and topic inner"):
        roots[0].intersect((("outer",),), (("inner",),))
    with pytest.raises(NotFound, match="no index has the topic 'nowhere'"):
        roots[0].intersect((("outer",),), (("nowhere",),))


@pytest.mark.parametrize("links", [50, 1500])
async def test_a_chain_of_links_is_followed_or_refused_in_one_sentence(
    roots: tuple[IndexLookup, Path], links: int
) -> None:
    lookup, home = roots
    chain(home, "outer", links)
    if links < 1000:
        assert await name_around(lookup, home / "link_0") == "outer"
    else:
        with pytest.raises(
            InvalidInput, match="link_0 cannot be followed: it is behind too many symbolic links"
        ):
            await name_around(lookup, home / "link_0")
        with pytest.raises(
            Refused, match="link_0 cannot be followed: it is behind too many symbolic links"
        ):
            check_root(os.fsencode(home / "link_0"), home / "state")


async def test_a_loop_of_links_is_in_no_index(roots: tuple[IndexLookup, Path]) -> None:
    lookup, home = roots
    chain(home, "link_0", 3)
    assert await name_around(lookup, home / "link_0") is None
    with pytest.raises(NotFound, match="there is no directory"):
        check_root(os.fsencode(home / "link_0"), home / "state")


@pytest.mark.parametrize("many", [1, 8])
async def test_a_directory_that_does_not_answer_holds_up_nobody_else(
    roots: tuple[IndexLookup, Path], monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """Patched, because a network file system that is away cannot be had in a test."""
    index_lookup, home = roots
    (home / "outer" / "sub").mkdir()
    back, real = threading.Event(), os.path.realpath

    def away(path: bytes) -> bytes:
        if path.startswith(b"/net/") or path.endswith(b"/sub"):
            back.wait(30)
        return real(path)

    monkeypatch.setattr("cocosearchd.indexes.lookup.os.path.realpath", away)
    monkeypatch.setattr(lookup, "LINKS_S", 1.0)  # five turns of a loop on a busy machine
    try:
        names, turns = list[str | None](), 0

        async def ask() -> None:
            names.append(await name_around(index_lookup, home / "outer" / "sub"))
            assert await name_around(index_lookup, Path("/net/home")) is None

        async with anyio.create_task_group() as tasks:
            for _ in range(many):
                tasks.start_soon(ask)
            began = time.monotonic()
            while len(names) < many:
                await anyio.sleep(0.01)
                turns += 1
        assert turns >= 5, "the event loop goes on"
        assert time.monotonic() - began < 25, "it comes back after 30 s"
        assert names == ["outer"] * many, "what nobody can follow is taken as it is named"
        assert await name_around(index_lookup, home / "outer") == "outer"
    finally:
        back.set()


def followed_index(name: str, root: Path, model: str, error: object = None) -> RunningIndex:
    """An index of another daemon, whose root is a path of its host."""
    record = SimpleNamespace(
        name=name,
        root=os.fsencode(root),
        topics=("theirs",),
        is_followed=True,
        identity=SimpleNamespace(embedder=(("model", model),)),
    )
    return cast(RunningIndex, SimpleNamespace(record=record, error=error))


async def test_an_index_of_another_daemon_is_chosen_by_name_and_topic_alone(
    roots: tuple[IndexLookup, Path],
) -> None:
    lookup, home = roots
    (home / "elsewhere").mkdir()
    followed = followed_index("code@team", home / "elsewhere", "small")
    lookup.add_followed({"code@team": followed})
    assert lookup.get("code@team") is followed
    assert lookup.with_topics(["theirs"]) == (followed,)
    assert [index.record.name for index in lookup.all()] == ["inner", "outer", "code@team"]
    assert [index.record.name for index in lookup.own()] == ["inner", "outer"]
    assert await lookup.around(str(home / "elsewhere")) is None
    only_followed = IndexLookup({})
    only_followed.add_followed({"code@team": followed})
    with pytest.raises(NotFound, match="no index of its own") as missing:
        await only_followed.select(None, str(home / "elsewhere"))
    assert "code@team" in missing.value.hint


def test_an_index_with_another_embedder_is_apart(tmp_path: Path) -> None:
    lookup = IndexLookup({})
    small, large, away = (
        followed_index("a@team", tmp_path, "small"),
        followed_index("b@team", tmp_path, "large"),
        followed_index("c@team", tmp_path, "large", error=Refused("", "")),
    )
    lookup.add_followed({index.record.name: index for index in (small, large, away)})
    assert lookup.other_embedder_indexes() == (large,)
