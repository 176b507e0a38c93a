"""Segments and views: built, merged, deleted and queried, without a database"""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cocosearchd.search.lexical.analysis.documents import (
    ChunkText,
    FileText,
    extract_header_names,
    make_document,
)
from cocosearchd.search.lexical.analysis.terms import TermCache, term_hash
from cocosearchd.search.lexical.index_snapshot import (
    IndexSnapshot,
    compute_signal_matrix,
    make_snapshot,
)
from cocosearchd.search.lexical.scoring import candidate_selection
from cocosearchd.search.lexical.scoring.nearest_vectors import compare_vectors
from cocosearchd.search.lexical.scoring.vector_products import (
    multiply_rows,
    widen_rows,
)
from cocosearchd.search.lexical.segments.segment import (
    SegmentView,
    build_segment,
    quantise_to_bits,
    size_bytes,
)
from cocosearchd.search.lexical.segments.segment_merge import (
    BUSY,
    QUIET,
    RESTING,
    SEGMENT_CHUNKS,
    MergePolicy,
    apply_merges,
    compact,
    merge_segments,
    perform_merges,
)
from tests.search.lexical.toy import DIMENSION, SIGNALS, documents

ALL_LARGE = replace(QUIET, floor_chunks=0)  # as if these few files were many
LARGE = replace(QUIET, ratio=1, floor_chunks=3, max_chunks=100)
WORDS = ("route", "session", "cache", "lock", "queue", "Router", "parseHeader")
FILES = {
    f"src/{first}_{second}.py": f"def {first}_{second}(): return {third}\n---\n# {second} of {first}\n{third} = 1"
    for first, second, third in itertools.permutations(("route", "session", "cache", "lock"), 3)
}


def answers(state: IndexSnapshot, query: str) -> dict[str, tuple[float, ...]]:
    terms = TermCache()
    result = compute_signal_matrix(
        state, terms.make_query_terms(query), terms, np.eye(DIMENSION, dtype=np.float32)[0]
    )
    return {
        path: tuple(float(result.values[name][file]) for name in SIGNALS)
        for file, path in enumerate(result.paths)
    }


def asked(*terms: str) -> NDArray[np.uint64]:
    return np.array([term_hash(term) for term in terms], np.uint64)


def test_a_term_has_the_rows_of_its_chunks() -> None:
    segment = build_segment(documents({"a.py": "cache lock\n---\ncache cache", "b.py": "lock"}))
    rows, nothing = segment.chunk_rows(asked("cach", "nothing"))
    assert segment.posting_chunks[rows].tolist() == [0, 1]
    assert segment.posting_counts[rows].tolist() == [1, 2]
    assert nothing.start == nothing.stop
    assert all(
        rows.start == rows.stop for rows in segment.file_rows(np.array([0, 2**64 - 1], np.uint64))
    )


@pytest.mark.parametrize(
    "paths", [[], ["a.py"], ["a.py", "", "lib/b.py"], ["é/a.py", "b.py", "\udcff.py", "🙂.py"]]
)
def test_paths_come_back_as_they_were(paths: list[str]) -> None:
    assert build_segment(documents(dict.fromkeys(paths, "x"))).path_list() == paths


def test_counts_are_clipped_not_wrapped() -> None:
    segment = build_segment(documents({"a.py": "# " + "word " * 70_000}))
    (rows,) = segment.chunk_rows(asked("word"))
    assert segment.posting_counts[rows].tolist() == [255]
    assert segment.posting_everything[segment.file_rows(asked("word"))[0]].tolist() == [65_535]


def test_names_of_a_header_count_three_times() -> None:
    chunk = ChunkText(
        0, 9, "cache lock", ("lock",), extract_header_names("src/a.py Cache lock", "src/a.py")
    )
    file = FileText("src/a.py", 1, "python", (chunk,), np.zeros((1, DIMENSION), np.float32))
    segment = build_segment([make_document(file, TermCache())])
    rows = segment.chunk_rows(asked("cach", "src"))
    assert [segment.posting_counts[selected].tolist() for selected in rows] == [[4], [1]]
    assert extract_header_names("src/a b.py", "src/a b.py") == ""


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_any_history_of_parts_answers_like_one_segment(seed: int) -> None:
    random_ = random.Random(seed)
    living: dict[str, str] = {}
    parts: tuple[SegmentView, ...] = ()
    for _ in range(6):
        chosen = random_.sample(sorted(FILES), random_.randint(1, 6))
        gone = [path for path in chosen if path in living]
        fresh = {
            path: FILES[path] + f"\n---\n{random_.choice(WORDS)}"
            for path in chosen
            if random_.random() < 0.8
        }
        parts = tuple(
            part.with_deleted(
                [n for n, path in enumerate(part.segment.path_list()) if path in gone]
            )
            for part in parts
        )
        for path in gone:
            del living[path]
        living |= fresh
        if fresh:
            parts = compact(
                (*parts, SegmentView(build_segment(documents(fresh), DIMENSION))),
                random_.choice((BUSY, QUIET)),
            )
    state = make_snapshot(parts, 1)
    afresh = make_snapshot((SegmentView(build_segment(documents(living), DIMENSION)),), 1)
    assert (state.file_count, state.chunk_count) == (afresh.file_count, afresh.chunk_count)
    for query in ("route session", "Router", "how is a cache locked", "lock_route"):
        actual = answers(state, query)
        right = answers(afresh, query)
        assert actual.keys() == right.keys()
        for path, values in actual.items():
            assert values == pytest.approx(right[path], abs=2e-4), (query, path)


def test_merging_keeps_order_and_drops_the_dead() -> None:
    first = build_segment(documents({"a.py": "cache", "b.py": "lock"}))
    second = build_segment(documents({"c.py": "cache queue"}))
    merged = merge_segments([SegmentView(first).with_deleted([0]), SegmentView(second)])
    assert merged.path_list() == ["b.py", "c.py"]
    assert merged.posting_chunks[merged.chunk_rows(asked("cach"))[0]].tolist() == [1]
    assert size_bytes(merged) > 0


def test_the_language_of_nearly_all_code_is_known() -> None:
    files = {f"src/{number}.py": "x" for number in range(9)} | {"README.md": "y"}
    assert make_snapshot((SegmentView(build_segment(documents(files))),), 1).common_language == (
        "python",
        "py",
    )
    more = build_segment(documents({"a.go": "x", "b.go": "y"}))
    assert (
        make_snapshot(
            (SegmentView(build_segment(documents(files))), SegmentView(more)), 1
        ).common_language
        == ()
    )
    assert make_snapshot((), 0).common_language == ()


def test_masks_are_copied() -> None:
    part = SegmentView(build_segment(documents({"a.py": "cache", "b.py": "lock"})))
    once = part.with_deleted([0])
    twice = once.with_deleted([1])
    assert (part.live_file_count, once.live_file_count, twice.live_file_count) == (2, 1, 0)


def test_small_segments_merge_and_large_ones_stay() -> None:
    segment = build_segment(documents({"a.py": "x"}))
    many = build_segment(documents(FILES))
    # much smaller than the one before
    assert len(compact([SegmentView(many), SegmentView(segment)], ALL_LARGE)) == 2
    assert len(compact([SegmentView(segment), SegmentView(segment)], QUIET)) == 1
    assert compact([SegmentView(segment).with_deleted([0])], QUIET) == ()
    assert SEGMENT_CHUNKS == 100_000


def sized(*sizes: int) -> list[SegmentView]:
    """Views of segments with these numbers of files, of one chunk each."""
    return [
        SegmentView(build_segment(documents({f"{n}_{file}.py": "x" for file in range(size)})))
        for n, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("order", "sizes", "after"),
    [
        (BUSY, (4, 2, 1), (4, 2, 1)),
        (BUSY, (4, 2, 1, 1), (8,)),  # in one go
        (ALL_LARGE, (13, 2, 1), (13, 3)),
        (ALL_LARGE, (12, 2, 1), (15,)),
        (QUIET, (13, 2, 1), (16,)),
        (replace(QUIET, floor_chunks=3), (130, 31, 2, 1), (130, 31, 3)),
        (replace(QUIET, floor_chunks=3), (20, 18, 19, 20, 4), (20, 18, 19, 20, 4)),
        (LARGE, (20, 18, 19, 20, 4), (81,)),  # together below the most
        (LARGE, (90, 20, 18, 19, 4), (90, 61)),  # not with one that is larger than all the rest
        (LARGE, (31, 9, 8), (31, 9, 8)),
    ],
)
def test_a_part_is_merged_with_those_behind_it(
    order: MergePolicy, sizes: tuple[int, ...], after: tuple[int, ...]
) -> None:
    assert [part.segment.file_count for part in compact(sized(*sizes), order)] == list(after)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_merges_are_put_in_place_of_what_has_changed_meanwhile(data: st.DataObject) -> None:
    earlier = [
        part.with_deleted(data.draw(st.lists(st.integers(0, 3)))) for part in sized(4, 5, 4, 6)
    ]
    merges = perform_merges(earlier, data.draw(st.sampled_from([LARGE, QUIET, BUSY, RESTING])))
    later = [part.with_deleted(data.draw(st.lists(st.integers(0, 3)))) for part in earlier]
    back = st.lists(st.integers(0, 3), unique=True)
    later = [
        part.with_restored(selected, [9] * len(selected)) if (selected := data.draw(back)) else part
        for part in later
    ]
    if data.draw(st.booleans()):
        later[2:] = compact(later[2:], QUIET)
    result = apply_merges(earlier, merges, [*later, *sized(3)])
    assert [file for part in result for file in living(part)] == [
        f for part in [*later, *sized(3)] for f in living(part)
    ]
    assert all(part.live_file_count for part in result)


def living(part: SegmentView) -> list[tuple[str, int]]:
    files = list(zip(part.segment.path_list(), part.generations.tolist(), strict=True))
    return (
        files
        if part.alive is None
        else [file for file, alive in zip(files, part.alive, strict=True) if alive]
    )


def test_a_mostly_deleted_segment_is_rewritten() -> None:
    first, second = sized(20, 2)
    selected = first.with_deleted(range(5))
    assert [part.segment.file_count for part in compact([selected, second], ALL_LARGE)] == [15, 2]
    nearly_all = first.with_deleted(range(19))
    # it may come back; at rest it is written anew
    assert compact([nearly_all, second], BUSY) == (nearly_all, second)


def test_a_row_is_written_few_times() -> None:
    written = 0
    parts = tuple[SegmentView, ...]()
    for new in sized(*[1] * 64):
        earlier = {part.segment for part in (*parts, new)}
        parts = compact((*parts, new), BUSY)
        written += sum(part.segment.file_count for part in parts if part.segment not in earlier)
    assert written <= 64 * 4
    assert len(parts) <= 6


def test_an_empty_index_answers_with_nothing() -> None:
    terms = TermCache()
    result = compute_signal_matrix(
        make_snapshot((), 3), terms.make_query_terms("anything"), terms, None
    )
    assert (list(result.paths), result.chunks.keys.shape) == ([], (0, 2))


def test_cosines_of_quantised_vectors() -> None:
    terms = TermCache()
    state = make_snapshot(
        (
            SegmentView(
                build_segment(
                    documents({"a.py": "x = 1", "b.py": "y = 2"}, {"x = 1": 0}), DIMENSION
                )
            ),
        ),
        1,
    )
    result = compute_signal_matrix(
        state, terms.make_query_terms("x"), terms, np.array([0.6, 0.8, 0, 0], np.float32)
    )
    assert result.chunks.cosines is not None
    assert result.chunks.cosines[0] == pytest.approx(0.6, abs=1e-3)
    assert np.isnan(result.chunks.cosines[1])


@pytest.mark.parametrize("dimension", [64, 256, 384, 768, 1024])
def test_equal_vectors_have_the_same_cosine_wherever_they_stand(dimension: int) -> None:
    random_ = np.random.default_rng(5)
    vector = random_.normal(0, 1, dimension).astype(np.float32)
    row = random_.integers(-127, 128, (1, dimension)).astype(np.int8)
    result = [
        multiply_rows([(row.repeat(size, 0), np.arange(size))], np.ones(size, np.float32), vector)
        for size in (*range(1, 40), 255, 1001)
    ]
    assert len(set(np.concatenate(result).tolist())) == 1


@pytest.mark.parametrize("count", [0, 1, 15, 16, 300, 1025])
def test_widened_rows_have_the_products_of_quantised_ones(count: int) -> None:
    random_ = np.random.default_rng(7)
    vector = random_.normal(0, 1, 256).astype(np.float32)
    tables = [random_.integers(-127, 128, (2000, 256)).astype(np.int8) for _ in range(2)]
    rows = np.sort(random_.choice(2000, count, replace=False))
    scales = random_.random(2 * count).astype(np.float32)
    scales[::7] = 0
    selections = [(table, rows) for table in tables]
    widened = widen_rows(selections, scales)
    expected = np.concatenate([table[rows] for table in tables]).astype(np.float32) @ vector
    products = widened.multiply(vector)
    assert np.array_equal(products, multiply_rows(selections, scales, vector), equal_nan=True)
    assert np.array_equal(np.isnan(products), scales == 0)
    assert np.nan_to_num(products) == pytest.approx(expected * scales, rel=1e-4, abs=1e-3)
    for other_vector in (vector[:64], np.zeros_like(vector)):
        assert np.isnan(widened.multiply(other_vector)).all()
        assert np.isnan(multiply_rows(selections, scales, other_vector)).all()


def large() -> IndexSnapshot:
    files = {f"src/file{n}.py": f"value_{n} = 1\n---\nother_{n} = value_{n}" for n in range(20)}
    axes = {"value_7 = 1": 0, **{f"value_{n} = 1": 1 for n in range(20) if n != 7}}
    return make_snapshot((SegmentView(build_segment(documents(files, axes), DIMENSION)),), 1)


def test_a_large_index_looks_at_the_chunks_of_promising_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # stands for a size that no test builds
    monkeypatch.setattr(candidate_selection, "MIN_CANDIDATES", 2)
    terms = TermCache()
    state = large()
    result = compute_signal_matrix(
        state, terms.make_query_terms("value_3"), terms, np.eye(DIMENSION, dtype=np.float32)[0]
    )
    assert result.chunks.cosines is not None
    assert result.file_cosines is not None
    assert {"src/file7.py", "src/file3.py"} <= set(result.paths)  # best by vector, best by words
    assert len(result.paths) < 20
    assert result.best_cosines is not None
    assert not np.isnan(result.best_cosines).any()
    assert result.values["chunk_words"][result.paths.index("src/file3.py")] > 0
    assert result.file_cosines[result.paths.index("src/file7.py")] == pytest.approx(1.0, abs=0.01)
    # of all files, not of the compared ones
    assert result.corpus.cosine_mean == pytest.approx(1 / 20, abs=0.01)


def test_signs_are_bits() -> None:
    rows = np.zeros((2, 65), np.int8)
    rows[0, 0] = 3
    rows[0, 1] = -3
    rows[1, 64] = 127
    # word by word
    assert quantise_to_bits(rows).view(np.uint8).tolist() == [
        [0x80] + [0] * 15,
        [0] * 8 + [0x80] + [0] * 7,
    ]


def test_a_chunk_is_near_whatever_the_rest_of_its_file_says() -> None:
    random_ = np.random.default_rng(7)
    # two chunks of each of 20 files
    vectors = random_.integers(-127, 128, (40, 64)).astype(np.int8)
    vectors[1::2] = -vectors[::2]  # whose mean says nothing
    files = {f"{n}.py": f"first_{n}\n---\nsecond_{n}" for n in range(20)}
    plain = build_segment(documents(files), 64)
    segment = replace(
        plain,
        vectors=vectors,
        binary_vectors=quantise_to_bits(vectors),
        scales=np.full(40, 1 / 127, np.float32),
        without_vector=np.zeros(0, np.int64),
    )
    query = vectors[14] + random_.normal(0, 20, 64).astype(np.float32)
    assert nearest(SegmentView(segment), query) == [7]
    assert nearest(SegmentView(segment).with_deleted([7]), query) != [7]
    assert nearest(SegmentView(replace(segment, without_vector=np.arange(40))), query) == []


def nearest(part: SegmentView, query_vector: NDArray[np.float32]) -> list[int]:
    state = make_snapshot((part,), 1)
    return [
        int(file)
        for file in compare_vectors(state.views, state.live_documents, query_vector).nearest(
            None, 1
        )
    ]


@pytest.mark.parametrize("share", [0.02, 0.2, 1.0])
def test_the_nearest_of_many_files_are_found(share: float) -> None:
    random_ = np.random.default_rng(3)
    query = random_.normal(0, 1, 256).astype(np.float32)
    closest = np.sort(random_.choice(6000, 300, replace=False))
    vectors = random_.integers(-127, 128, (6000, 4, 256)).astype(np.int8)
    # a fifth of the signs differ; half of those of the rest
    turned = np.where(random_.random((300, 256)) < 0.2, -1, 1)
    vectors[closest, 2] = np.where(query > 0, 100, -100) * turned
    dead = closest[closest >= 3000][:5]
    parts = (mapped(vectors[:3000]), mapped(vectors[3000:]).with_deleted((dead - 3000).tolist()))
    state = make_snapshot(parts, 1)
    numbers = np.delete(np.arange(6000), dead)  # of each living file, as it was made
    among = None if share == 1.0 else random_.random(state.file_count) < share
    expected = {int(number) for number in closest if number not in dead}
    if among is not None:
        expected &= set(numbers[among].tolist())
    result = compare_vectors(state.views, state.live_documents, query).nearest(among, len(expected))
    assert expected
    assert set(numbers[result].tolist()) == expected


def mapped(vectors: NDArray[np.int8]) -> SegmentView:
    """View of files that differ by the vectors of their chunks alone: (F, c, D)."""
    files, chunks_per_file, dimension = vectors.shape
    segment = build_segment(documents({"a.py": "x = 1"}), 256)
    starts = np.arange(files) * chunks_per_file
    flat = vectors.reshape(-1, dimension)
    return SegmentView(
        replace(
            segment,
            paths=np.frombuffer(b"a.py" * files, np.uint8),
            path_ends=np.arange(1, files + 1) * 4,
            languages=np.frombuffer(b"python" * files, np.uint8),
            language_ends=np.arange(1, files + 1) * 6,
            characters=np.ones(files, np.int64),
            chunk_starts=starts,
            chunk_ends=starts + chunks_per_file,
            file_lengths=np.ones((files, 4), np.float32),
            file_vectors=vectors[:, 0],
            file_scales=np.ones(files, np.float32),
            keys=np.zeros((files * chunks_per_file, 2), np.int64),
            chunk_files=np.repeat(np.arange(files, dtype=np.int32), chunks_per_file),
            chunk_lengths=np.ones(files * chunks_per_file, np.float32),
            vectors=flat,
            scales=np.ones(files * chunks_per_file, np.float32),
            without_vector=np.zeros(0, np.int64),
            binary_vectors=quantise_to_bits(flat),
        )
    )


def test_documents_that_pass_a_filter_are_candidates_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidate_selection, "MIN_CANDIDATES", 2)
    terms = TermCache()
    state = large()
    vector = np.eye(DIMENSION, dtype=np.float32)[1]
    query = terms.make_query_terms("value_3 of value_4")
    full = compute_signal_matrix(state, query, terms, vector)
    name = next(path for path in state.live_documents.paths if path not in full.paths)
    selected = compute_signal_matrix(
        state,
        query,
        terms,
        vector,
        lambda living: np.array([path == name for path in living.paths]),
    )
    file = selected.paths.index(name)
    assert selected.values["chunk_words"][file] > 0
    assert selected.allowed is not None
    assert np.flatnonzero(selected.allowed).tolist() == [file]
    assert selected.best_cosines is not None
    assert selected.best_cosines[file] == pytest.approx(1.0, abs=0.01)
    scores = dict(zip(selected.paths, selected.values["chunk_words"].tolist(), strict=True))
    assert {path: scores[path] for path in full.paths} == dict(
        zip(full.paths, full.values["chunk_words"], strict=True)
    )


def test_ties_are_broken_the_same_way_in_any_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidate_selection, "MIN_CANDIDATES", 3)
    monkeypatch.setattr(candidate_selection, "NAME_CANDIDATES", 2)
    terms = TermCache()
    vector = np.eye(DIMENSION, dtype=np.float32)[1]
    for query, vector_of_query in (("licence", None), ("notice", None), ("nothing", vector)):
        compared = set[tuple[str, ...]]()
        for turn in (1, 3, 7):
            copies = {f"part{n * turn % 10}/notice.md": "licence of all" for n in range(10)}
            state = make_snapshot(
                (SegmentView(build_segment(documents(copies, {"licence of all": 1}), DIMENSION)),),
                1,
            )
            compared.add(
                tuple(
                    sorted(
                        compute_signal_matrix(
                            state, terms.make_query_terms(query), terms, vector_of_query
                        ).paths
                    )
                )
            )
        ((*paths,),) = compared
        assert paths == [f"part{n}/notice.md" for n in range(3)]


def test_few_files_or_all_of_them_give_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = TermCache()
    state = make_snapshot((SegmentView(build_segment(documents(FILES), DIMENSION)),), 1)
    for query in ("route session", "how is a cache locked", "lock_route"):
        full = compute_signal_matrix(state, terms.make_query_terms(query), terms)
        with monkeypatch.context() as patch:
            patch.setattr(candidate_selection, "MIN_CANDIDATES", 8)
            selected = compute_signal_matrix(state, terms.make_query_terms(query), terms)
        assert 0 < len(selected.paths) < len(full.paths)
        places = [full.paths.index(path) for path in selected.paths]
        assert (
            selected.values["chunk_words"].tolist() == full.values["chunk_words"][places].tolist()
        )
        assert full.values["chunk_words"].argmax() in places
