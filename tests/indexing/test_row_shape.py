"""Files to read again when settings that shape rows change."""

from dataclasses import replace

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.row_shape import collect_shaping_settings, find_affected_files
from cocosearchd.languages import blocks
from cocosearchd.languages.dialects.compose import Compose
from cocosearchd.languages.handlers.base import Dialect
from cocosearchd.store.invalidation import AffectedFiles


class Nomad(Compose):
    """A dialect that this version does not have."""

    name = "nomad"
    base_languages = ("hcl",)


class NewerCompose(Compose):
    """The dialect of Compose with other rules."""

    version = 2


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


def test_rows_of_a_version_that_named_no_dialects_have_those_of_then() -> None:
    current = collect_shaping_settings(IndexingSettings(), ())
    stored = {name: value for name, value in current.items() if not name.startswith("dialects.")}
    assert stored != current
    assert find_affected_files(stored, current) == AffectedFiles()


@pytest.mark.parametrize(
    ("dialects", "languages"),
    [
        ((*blocks.DIALECTS, Nomad()), ("hcl", "nomad")),
        (
            tuple(NewerCompose() if d.name == Compose.name else d for d in blocks.DIALECTS),
            blocks.language_dialects("yaml"),
        ),
        (
            tuple(d for d in blocks.DIALECTS if d.name != Compose.name),
            blocks.language_dialects("yaml"),  # files of the dialect that is gone are among them
        ),
    ],
    ids=("new", "changed", "gone"),
)
def test_other_dialects_read_the_files_of_their_language(
    dialects: tuple[Dialect, ...], languages: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = collect_shaping_settings(IndexingSettings(), ())
    monkeypatch.setattr(blocks, "DIALECTS", dialects)
    current = collect_shaping_settings(IndexingSettings(), ())
    assert find_affected_files(stored, current) == AffectedFiles(languages=tuple(sorted(languages)))
