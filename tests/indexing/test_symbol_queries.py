"""Unreadable directories of the user's queries count as empty, with a warning."""

import os

import pytest

from cocosearchd.indexing.symbol_queries import read_overrides, stamp_query_files


@pytest.mark.parametrize(
    "directory",
    ["~nobody-of-this-name/q", "/" + "x" * 5000, "a\0b", os.devnull, "/nowhere"],
    ids=["nobody", "too-long", "with-nul", "device", "missing"],
)
def test_a_directory_that_is_none_is_a_warning(directory: str) -> None:
    files = read_overrides(directory)
    assert files.queries == ()
    assert files.warnings == (f"indexing.queries_dir {directory} is not a directory",)
    assert stamp_query_files(directory) == ()
