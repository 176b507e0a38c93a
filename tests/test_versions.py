"""Versions are raised with the results that they cover, and ARCHITECTURE.md names all of them."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from cocosearchd.indexing.pipeline import chunker, recursive_chunker
from cocosearchd.languages import definition_ranges
from cocosearchd.search.lexical.analysis import documents
from cocosearchd.store.chunks import rows
from tests.test_architecture import MODULES
from tests.versions import Part, find_fault, read_record, record_of, versions

ARCHITECTURE = Path(__file__).resolve().parent.parent / "ARCHITECTURE.md"
CONSTANT = re.compile(r"^(_?(?:[A-Z]+_)*(?:VERSION|FORMAT)) = \"?\d", re.MULTILINE)
RAISED = {
    "indexing.pipeline.chunker.VERSION": (chunker, "MINIMUM", 0.9),
    "indexing.pipeline.chunker.RECURSIVE_VERSION": (
        recursive_chunker,
        "detect_code_language",
        lambda filename: f"{filename}: none",
    ),
    "indexing.pipeline.chunker.HEADER_VERSION": (chunker, "HEADER_NAMES", 1),
    "indexing.row_shape.SYMBOLS_VERSION": (definition_ranges, "pack", lambda symbols: b"other"),
    "store.chunks.manifest.ROW_VERSION": (chunker, "split_text", str.upper),
    "search.lexical.segments.segment_files.FORMAT": (documents, "PATH_WEIGHT", 7),
}


@pytest.mark.parametrize("name", versions())
def test_results_agree_with_the_recorded_version(name: str) -> None:
    version = versions()[name]
    assert find_fault(name, version.number, version.compute_parts(), read_record()[name]) is None


@pytest.mark.parametrize(("name", "change"), RAISED.items())
def test_a_forgotten_raise_is_noticed(
    name: str, change: tuple[ModuleType, str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    version = versions()[name]
    monkeypatch.setattr(*change)
    fault = find_fault(name, version.number, version.compute_parts(), read_record()[name])
    assert fault is not None
    assert fault.startswith(f"raise {name}:")


def test_a_new_column_needs_another_row_version(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "store.chunks.manifest.ROW_VERSION"
    monkeypatch.setattr(rows, "COPY_TYPES", (*rows.COPY_TYPES, "text"))
    version = versions()[name]
    fault = find_fault(name, version.number, version.compute_parts(), read_record()[name])
    assert fault is not None
    assert "differ for chunk;" in fault


def test_only_a_changed_result_of_the_same_inputs_needs_a_raise() -> None:
    recorded = record_of(3, {"a": Part("input", "result")})
    assert find_fault("V", 3, {"a": Part("input", "result")}, recorded) is None
    changed = find_fault("V", 3, {"a": Part("input", "other")}, recorded)
    assert changed is not None
    assert changed.startswith("raise V: ")
    part = Part("input", "result")
    changes: tuple[dict[str, Part], ...] = (
        {"a": Part("other", "other")},
        {"a": part, "b": part},
        {},
    )
    for recordable in changes:
        fault = find_fault("V", 3, recordable, recorded)
        assert fault is not None
        assert fault.startswith("run ")
    raised = find_fault("V", 4, {"a": Part("input", "other")}, recorded)
    assert raised is not None
    assert raised.startswith("run ")


def test_the_table_of_versions_is_complete() -> None:
    """Each constant of the code that is named VERSION or FORMAT is a row, and golden ones too."""
    table = ARCHITECTURE.read_text("utf-8").partition("## Versions")[2].partition("\n## ")[0]
    rows_of_table = set(re.findall(r"^\| `([\w.]+)`", table, re.MULTILINE))
    constants = {
        f"{module.partition('.')[2]}.{name}"
        for module, path in MODULES.items()
        for name in CONSTANT.findall(path.read_text("utf-8"))
    }
    assert constants | versions().keys() <= rows_of_table
