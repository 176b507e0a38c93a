"""Files to read again when settings that shape rows change."""

from dataclasses import replace

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.row_shape import collect_shaping_settings, find_affected_files
from cocosearchd.store.invalidation import AffectedFiles


def test_a_new_limit_of_sizes_reads_what_it_lets_in_and_out() -> None:
    larger = collect_shaping_settings(IndexingSettings(max_file_bytes=9_000), ())
    current = collect_shaping_settings(IndexingSettings(max_file_bytes=5_000), ())
    assert find_affected_files(larger, current) == AffectedFiles(
        skipped=("too_large",), larger_than=5_000
    )
    assert find_affected_files(larger, larger) == AffectedFiles()


def test_rows_of_a_version_without_the_limit_have_its_default() -> None:
    """A new default is noticed as well: the limit of these rows was 1 MiB."""
    indexing = IndexingSettings(max_file_bytes=1 << 20)
    stored = collect_shaping_settings(indexing, ())
    del stored["max_file_bytes"]
    assert find_affected_files(stored, collect_shaping_settings(indexing, ())) == AffectedFiles()
    smaller = collect_shaping_settings(replace(indexing, max_file_bytes=1 << 19), ())
    assert find_affected_files(stored, smaller).larger_than == 1 << 19
