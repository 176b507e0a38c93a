"""Segments on disk: packed or mapped, they come back as they were written"""

import errno
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from cocosearchd.search.lexical.segments import segment_files
from cocosearchd.search.lexical.segments.segment import (
    Segment,
    SegmentView,
    build_segment,
    quantise_to_bits,
    size_bytes,
)
from tests.search.lexical.toy import DIMENSION, documents

OWNER = {"index": "toy"}


@pytest.fixture
def segment() -> Segment:
    """A segment whose postings are worth packing, and whose hashes are not."""
    files = {
        f"src/file_{number}.py": f"def route_{number}(): pass\n---\n# é {number % 7}\n"
        + "\n".join(f"word{(number * step) % 211} = {step}" for step in range(40))
        for number in range(60)
    }
    return build_segment(documents(files), DIMENSION)


@pytest.fixture(autouse=True)
def no_vectors_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that want them left out say so."""
    monkeypatch.setattr(segment_files, "LEFT_OUT_BYTES", 0)


def saved_and_loaded(folder: Path, segment: Segment) -> tuple[Segment, Segment]:
    """Return the segment that `save` leaves in memory, and the one of a next start."""
    saved = segment_files.save(folder, OWNER, 7, [SegmentView(segment)], {})
    loaded = segment_files.load(folder, OWNER)
    assert loaded is not None
    return saved.views[0].segment, loaded.views[0].segment


def assert_equal(segment: Segment, expected: Segment) -> None:
    for column in fields(Segment):
        array, expected_array = getattr(segment, column.name), getattr(expected, column.name)
        assert array.dtype == expected_array.dtype, column.name
        assert array.shape == expected_array.shape, column.name
        assert array.tobytes() == expected_array.tobytes(), column.name


def packed_sizes(folder: Path) -> Mapping[str, int | None]:
    """The size of each packed array in the only segment file; None: it is not packed."""
    raw = next(folder.glob("*.segment")).read_bytes()
    table = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    return {name: row[3] for name, row in table.items()}


def test_arrays_come_back_as_they_were(tmp_path: Path, segment: Segment) -> None:
    for result in saved_and_loaded(tmp_path, segment):
        assert_equal(result, segment)


def test_postings_are_packed_and_hashes_are_mapped(tmp_path: Path, segment: Segment) -> None:
    saved_and_loaded(tmp_path, segment)
    sizes = packed_sizes(tmp_path)
    assert sizes["chunk_terms"] is None
    assert (sizes["posting_chunks"] or np.inf) < segment.posting_chunks.nbytes / 2
    assert next(tmp_path.glob("*.segment")).stat().st_size < size_bytes(segment) * 0.7


def listed_and_present(folder: Path) -> tuple[set[str], set[str]]:
    """Return the names of the segments in the list, and of those on disk."""
    listed = json.loads((folder / "manifest.json").read_text("utf-8"))["segments"]
    return {row["file"] for row in listed}, {path.name for path in folder.glob("*.segment")}


def test_a_save_that_fails_leaves_nothing_behind(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: what each try left would fill the space that someone frees."""
    first = segment_files.save(tmp_path, OWNER, 7, [SegmentView(segment)], {})
    views = [first.views[0], SegmentView(replace(segment)), SegmentView(replace(segment))]
    saved_files = {first.views[0].segment: first.files[0]}
    write, writes = segment_files._write_segment, list[Path]()

    def fail_late(path: Path, part: Segment) -> None:
        write(path, part)
        writes.append(path)
        if len(writes) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(segment_files, "_write_segment", fail_late)
    with pytest.raises(OSError, match="No space"):
        segment_files.save(tmp_path, OWNER, 8, views, saved_files)
    assert listed_and_present(tmp_path) == ({first.files[0].name}, {first.files[0].name})
    saved = segment_files.save(tmp_path, OWNER, 8, views, saved_files)
    names = {file.name for file in saved.files}
    assert len(names) == 3
    assert listed_and_present(tmp_path) == (names, names)


def test_saved_segments_are_neither_read_nor_written_again(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = segment_files.save(tmp_path, OWNER, 7, [SegmentView(segment)], {})
    monkeypatch.setattr(segment_files, "_checksum", lambda path: pytest.fail(f"reads {path}"))
    saved = segment_files.save(
        tmp_path, OWNER, 8, first.views, {first.views[0].segment: first.files[0]}
    )
    assert saved.files == first.files


def test_a_saved_segment_whose_file_is_gone_is_written_again(
    tmp_path: Path, segment: Segment
) -> None:
    first = segment_files.save(tmp_path, OWNER, 7, [SegmentView(segment)], {})
    (tmp_path / first.files[0].name).unlink()
    segment_files.save(tmp_path, OWNER, 8, first.views, {first.views[0].segment: first.files[0]})
    loaded = segment_files.load(tmp_path, OWNER)
    assert loaded is not None
    assert_equal(loaded.views[0].segment, segment)


def with_vectors(segment: Segment) -> Segment:
    """Give a segment vectors of chance."""
    numbers = np.random.default_rng(7).integers(-127, 128, (segment.chunk_count, 64))
    vectors = numbers.astype(np.int8)
    return replace(segment, vectors=vectors, binary_vectors=quantise_to_bits(vectors))


def test_small_vectors_are_left_out(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = with_vectors(segment)
    segment_files.save(tmp_path, OWNER, 7, [SegmentView(segment)], {})
    full_size = next(tmp_path.glob("*.segment")).stat().st_size
    monkeypatch.setattr(segment_files, "LEFT_OUT_BYTES", segment.vectors.nbytes)
    saved = segment_files.save(tmp_path, OWNER, 8, [SegmentView(segment)], {})
    assert_equal(saved.views[0].segment, segment)
    loaded = segment_files.load(tmp_path, OWNER)
    assert loaded is not None
    (view,) = loaded.views
    assert loaded.without_vectors == {view.segment}
    nothing = {name: np.zeros_like(getattr(segment, name)) for name in segment_files._VECTORS}
    assert_equal(view.segment, replace(segment, **nothing))
    saving = segment.vectors.nbytes + segment.binary_vectors.nbytes
    assert next(tmp_path.glob("*.segment")).stat().st_size <= full_size - 0.9 * saving


def test_larger_vectors_are_not_left_out(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = with_vectors(segment)
    monkeypatch.setattr(segment_files, "LEFT_OUT_BYTES", segment.vectors.nbytes - 1)
    segment_files.save(tmp_path, OWNER, 7, [SegmentView(segment)], {})
    loaded = segment_files.load(tmp_path, OWNER)
    assert loaded is not None
    assert not loaded.without_vectors
    assert_equal(loaded.views[0].segment, segment)


def test_equal_arrays_share_their_bytes(tmp_path: Path, segment: Segment) -> None:
    """Each term of a chunk is a term of its file, and the words of a path are in each chunk."""
    saved_and_loaded(tmp_path, segment)
    raw = next(tmp_path.glob("*.segment")).read_bytes()
    assert raw.count(segment.chunk_terms.tobytes()) == 1


def test_a_large_segment_is_only_mapped(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_files, "PACKED_BYTES", size_bytes(segment) - 1)
    for result in saved_and_loaded(tmp_path, segment):
        assert_equal(result, segment)
    assert set(packed_sizes(tmp_path).values()) == {None}


def test_files_of_an_earlier_version_are_read(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no packed sizes."""
    monkeypatch.setattr(segment_files, "PACKED_BYTES", 0)
    segment_files.save(tmp_path, OWNER, 7, [SegmentView(segment)], {})
    path = next(tmp_path.glob("*.segment"))
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    table = {name: row[:3] for name, row in json.loads(raw[8 : 8 + size]).items()}
    path.write_bytes(raw[:8] + json.dumps(table).encode().ljust(size) + raw[8 + size :])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["segments"][0]["crc32"] = segment_files._checksum(path)
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    loaded = segment_files.load(tmp_path, OWNER)
    assert loaded is not None
    assert_equal(loaded.views[0].segment, segment)


def test_a_segment_without_files_comes_back(tmp_path: Path) -> None:
    empty = build_segment([], DIMENSION)
    for result in saved_and_loaded(tmp_path, empty):
        assert_equal(result, empty)


@pytest.mark.parametrize("damage", ["data", "size"])
def test_packed_array_of_other_bytes_counts_as_absent(
    tmp_path: Path, segment: Segment, damage: str
) -> None:
    """Also where the checksum is right, as after an error in the memory of the writer."""
    saved_and_loaded(tmp_path, segment)
    path = next(tmp_path.glob("*.segment"))
    raw = bytearray(path.read_bytes())
    size = int.from_bytes(raw[:8], "little")
    table = json.loads(raw[8 : 8 + size])
    _, _, offset, packed_size = table["posting_chunks"]
    if damage == "data":
        raw[8 + size + offset + packed_size // 2] ^= 0xFF
    else:
        table["posting_chunks"][1] = [len(segment.posting_chunks) + 1]
        raw[8 : 8 + size] = json.dumps(table).encode().ljust(size)
    path.write_bytes(raw)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["segments"][0]["crc32"] = segment_files._checksum(path)
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    assert segment_files.load(tmp_path, OWNER) is None
