"""Changed snapshots answer like one that was built from the same files at once"""

import random
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.search.lexical import snapshot_changes
from cocosearchd.search.lexical.analysis.documents import make_documents
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    compute_signal_matrix,
    make_snapshot,
)
from cocosearchd.search.lexical.segments.segment import size_bytes
from cocosearchd.search.lexical.snapshot_changes import (
    EMPTY,
    SnapshotChange,
    apply_change,
    build_views,
    find_paths_with_dead_files,
    find_restorable_files,
    make_file_text,
    plan_idle_merge,
)
from cocosearchd.store.reads.index_texts import FileDigest, FileTexts
from tests.search.lexical.toy import SIGNALS

DIMENSION = 4
TERMS = TermCache()
PATHS = tuple(f"src/{name}.py" for name in ("route", "session", "cache", "lock", "queue", "parse"))
TEXTS = (
    "def route(): return session",
    "# a session of a cache",
    "lock = cache",
    "def lock():\n    queue(parse)",
)
QUESTIONS = ("route session", "lock", "how is a cache locked")


def stored(path: str, text: str, generation: int) -> FileTexts:
    """Stored file with one chunk for each line of `text`."""
    chunks = []
    start = 0
    for line in text.split("\n"):
        chunks.append((start, start + len(line), line, list[str](), path, list[str](), list[str]()))
        start += len(line) + 1
    vectors = np.eye(DIMENSION, dtype=np.float32)[[len(chunk[2]) % DIMENSION for chunk in chunks]]
    return FileTexts(
        path, generation, language(text), tuple(chunks), vectors, zlib.crc32(text.encode()) + 1
    )


def language(text: str) -> str:
    return "go" if text.startswith("lock") else "python"


def digest(file: FileTexts) -> FileDigest:
    return FileDigest(file.path, file.generation, file.language, file.digest)


def commit(
    state: IndexSnapshot,
    former: IndexSnapshot,
    files: Mapping[str, FileTexts],
    paths: Iterable[str],
    generation: int,
) -> tuple[IndexSnapshot, IndexSnapshot, SnapshotChange]:
    """Replace `paths` by their state in `files`, as the lexical index does."""
    candidates = find_paths_with_dead_files(state, former, paths)
    restored = find_restorable_files(
        state, former, [digest(files[path]) for path in candidates if path in files]
    )
    read = [
        files[path]
        for path in paths
        if path in files and path not in {file.path for file in restored}
    ]
    texts = [make_file_text(file) for file in read]
    change = SnapshotChange(tuple(paths), generation, list(make_documents(texts, TERMS)), restored)
    return *apply_change(state, former, change, DIMENSION), change


def rested(state: IndexSnapshot, former: IndexSnapshot) -> tuple[IndexSnapshot, IndexSnapshot]:
    merge = plan_idle_merge(state)
    return (state, former) if merge is None else merge.apply(state, former)


def living(state: IndexSnapshot) -> dict[str, int]:
    """Generations by path. Raises `AssertionError` if a path is there twice."""
    result = [
        (path, int(part.generations[number]))
        for part in state.views
        for number, path in enumerate(part.segment.path_list())
        if part.alive is None or part.alive[number]
    ]
    assert max(Counter(path for path, _ in result).values(), default=1) == 1
    return dict(result)


def answers(state: IndexSnapshot, question: str) -> dict[str, list[float]]:
    result = compute_signal_matrix(
        state, TERMS.make_query_terms(question), TERMS, np.eye(DIMENSION, dtype=np.float32)[0]
    )
    return {
        path: [float(result.values[name][n]) for name in SIGNALS]
        for n, path in enumerate(result.paths)
    }


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_any_history_answers_like_what_is_there(seed: int) -> None:
    random_ = random.Random(seed)
    files: dict[str, FileTexts] = {}
    state = make_snapshot((), 0)
    former = EMPTY
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_changes, "_RETIRED_FILES", random_.choice((1, 3)))
        patch.setattr(snapshot_changes, "_RETIRED_SEGMENTS", random_.choice((1, 8)))
        for generation in range(1, 16):
            paths = random_.sample(PATHS, random_.randint(1, len(PATHS)))
            for path in paths:
                files.pop(path, None)
                if random_.random() < 0.8:
                    files[path] = stored(path, random_.choice(TEXTS), generation)
            state, former, _ = commit(state, former, files, paths, generation)
            assert living(state) == {path: file.generation for path, file in files.items()}
            if random_.random() < 0.3:
                state, former = rested(state, former)
    fresh, _, _ = commit(make_snapshot((), 0), EMPTY, files, tuple(files), state.generation)
    assert (state.file_count, state.chunk_count, state.common_language) == (
        fresh.file_count,
        fresh.chunk_count,
        fresh.common_language,
    )
    for question in QUESTIONS:
        actual = answers(state, question)
        right = answers(fresh, question)
        assert actual.keys() == right.keys()
        for path, values in actual.items():
            assert values == pytest.approx(right[path], abs=2e-4), (question, path)


def test_the_last_parts_may_go_while_they_are_put_in_order() -> None:
    """All files of the last segments are deleted during the merge.

    Then there are fewer views than before, and none in their position.
    """
    files = {path: stored(path, TEXTS[0], 1) for path in PATHS}
    parts = [
        part
        for path in PATHS
        for part in build_views(
            list(make_documents([make_file_text(files[path])], TERMS)), DIMENSION
        )
    ]
    state = make_snapshot(parts, 1)
    merges = plan_idle_merge(state)
    assert merges is not None
    later, former, _ = commit(state, EMPTY, {}, PATHS[-2:], 2)
    assert len(later.views) == len(PATHS) - 2
    assert living(merges.apply(later, former)[0]) == dict.fromkeys(PATHS[:-2], 1)


@pytest.mark.parametrize("rest", [False, True])
def test_switching_back_and_forth_reads_nothing_again(
    monkeypatch: pytest.MonkeyPatch, rest: bool
) -> None:
    monkeypatch.setattr(snapshot_changes, "_RETIRED_FILES", 1)
    state = make_snapshot((), 0)
    former = EMPTY
    read = list[int]()
    generation = 0
    for text in (TEXTS[0], TEXTS[1]) * 3:
        for paths in PATHS[:2], PATHS[2:4]:  # the others never change
            generation += 1
            files = {path: stored(path, text, generation) for path in paths}
            files |= {path: stored(path, TEXTS[2], 1) for path in PATHS[4:] if generation == 1}
            state, former, change = commit(state, former, files, tuple(files), generation)
            read.append(sum(len(documents.paths) for documents in change.read))
        if rest:
            state, former = rested(state, former)
    assert read == [4, 2, 2, 2, *[0] * 8]


def test_a_file_of_another_language_or_text_is_not_what_it_was() -> None:
    state, former, _ = commit(
        make_snapshot((), 0), EMPTY, {"a.py": stored("a.py", TEXTS[0], 1)}, ["a.py"], 1
    )
    state = make_snapshot([part.with_deleted([0]) for part in state.views], 2)
    assert find_paths_with_dead_files(state, former, ["a.py", "b.py"]) == ["a.py"]
    same, *rest = [digest(stored("a.py", text, 3)) for text in TEXTS]
    assert find_restorable_files(state, former, [same, *rest]) == [same]
    assert find_restorable_files(state, former, [replace(same, language="go")]) == []
    assert find_restorable_files(state, former, [replace(same, path="b.py")]) == []


def test_a_digest_that_is_not_known_is_of_no_file() -> None:
    unknown = replace(stored("a.py", TEXTS[0], 1), digest=0)
    state, former, _ = commit(make_snapshot((), 0), EMPTY, {"a.py": unknown}, ["a.py"], 1)
    assert find_restorable_files(state, former, [digest(unknown)]) == []


def test_deleted_documents_do_not_count_as_the_main_language() -> None:
    files = {f"{number}.py": stored(f"{number}.py", TEXTS[number > 9], 1) for number in range(20)}
    files |= {f"{number}.go": stored(f"{number}.go", TEXTS[2], 1) for number in range(20)}
    state, *_ = commit(make_snapshot((), 0), EMPTY, files, tuple(files), 1)
    assert state.common_language == ()
    (part,) = state.views
    assert make_snapshot([part.with_deleted(range(20))], 2).common_language == ("go", "golang")
    assert make_snapshot([part.with_deleted(range(19, 40))], 2).common_language == ("python", "py")


def test_retained_segments_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_changes, "_RETIRED_FILES", 2)
    state = make_snapshot((), 0)
    former = EMPTY
    for generation in range(1, 30):
        files = {path: stored(path, f"{TEXTS[0]} {generation}", generation) for path in PATHS}
        state, former, _ = commit(state, former, files, PATHS, generation)
        assert len(former.views) == min(generation - 1, 8)
    size = size_bytes(former.views[-1].segment)
    monkeypatch.setattr(snapshot_changes, "RETIRED_BYTES", 3 * size + 100)
    newest = [part.segment for part in former.views[-2:]]
    state, former, _ = commit(
        state, former, {path: stored(path, "x", 30) for path in PATHS}, PATHS, 30
    )
    assert [part.segment for part in former.views[:-1]] == newest


def test_a_large_repository_retains_more_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch of a large repository replaces more than is retained for a small one."""
    monkeypatch.setattr(snapshot_changes, "RETIRED_BYTES", 0)
    monkeypatch.setattr(snapshot_changes, "_RETIRED_FILES", 2)
    state = make_snapshot((), 0)
    former = EMPTY
    for generation in range(10, 13):
        earlier = [part.segment for part in state.views]
        files = {path: stored(path, f"{TEXTS[0]} {generation}", generation) for path in PATHS}
        state, former, _ = commit(state, former, files, PATHS, generation)
        assert [part.segment for part in former.views] == earlier


def test_a_mostly_live_segment_keeps_its_deleted_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_changes, "_RETIRED_FILES", 1)
    files = {path: stored(path, TEXTS[0], 1) for path in PATHS}
    state, former, _ = commit(make_snapshot((), 0), EMPTY, files, PATHS, 1)
    state, former, _ = commit(
        state, former, {PATHS[0]: stored(PATHS[0], TEXTS[1], 2)}, PATHS[:1], 2
    )
    state, former = rested(state, former)
    assert [part.segment.path_list() for part in former.views] == [[PATHS[0]]]
    state, former, change = commit(
        state, former, {PATHS[0]: stored(PATHS[0], TEXTS[0], 3)}, PATHS[:1], 3
    )
    assert [file.path for file in change.returning] == [PATHS[0]]
    assert former.views == ()
