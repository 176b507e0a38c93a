"""Names of packages and source paths of manifests, read as facts from any file."""

from time import process_time

import pytest

from cocosearchd.languages.code_facts import NO_FACTS, CodeFacts, Import
from cocosearchd.languages.parse import parse
from cocosearchd.languages.references.package_facts import (
    MAX_PACKAGE_BYTES,
    extract_package_facts,
)
from tests.machine_speed import slowness


def facts(path: str, text: str) -> CodeFacts:
    return parse(path, text.encode()).facts


def test_a_package_exports_itself_and_maps_its_internal_names() -> None:
    text = '{"name": "@scope/tool", "imports": {"#lib/*": "./src/lib/*"}}'
    assert facts("packages/tool/package.json", text) == CodeFacts(
        "@scope/tool",
        (
            Import("src/lib/*", "*", "#lib/*", 1),
            Import("", "", "@scope/tool", 1, exported=True),
        ),
    )


def test_settings_may_have_comments_and_final_commas() -> None:
    text = """{
      // "paths": {"no": ["x"]},
      "extends": "../base.json", /* https://a.b */
      "compilerOptions": {"baseUrl": "./app", "paths": {"@/*": ["./src/*", "gen/*"],},},
    }"""
    assert facts("tsconfig.build.json", text).imports == (
        Import("./app/src/*", "*", "@/*", 1),
        Import("./app/gen/*", "*", "@/*", 1),
        Import("./app/*", "*", "*", 1),
        Import("../base.json", "", "", 1),
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("other.json", '{"name": "x"}'),
        ("package.json", "[" * 100_000),
        ("package.json", '{"name": 3, "imports": [1]}'),
        ("package.json", '"' + "/*" * 50_000),
        ("package.json", '{"name": "x"}' + " " * MAX_PACKAGE_BYTES),
        ("tsconfig.json", '{"compilerOptions": {"paths": {"": ["a"], "x": {"a": "b"}}}}'),
    ],
)
def test_other_files_have_no_facts(path: str, text: str) -> None:
    assert facts(path, text) == NO_FACTS


def test_strings_without_an_end_cost_little() -> None:
    """Each quote once searched all of the text for its end: minutes for a file of this size."""
    text = b'\\"' * (MAX_PACKAGE_BYTES // 2)
    began = process_time()
    assert extract_package_facts("package.json", text) == NO_FACTS
    assert process_time() - began < 0.5 * slowness()
