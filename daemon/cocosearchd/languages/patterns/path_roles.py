"""Recognises roles of paths: tests, documents and examples, files that stand for a directory. Pure."""

import re

_TEST_FILE = re.compile(
    r"^(?:test_.*|.*_(?:test|spec)\.\w+|.*\.(?:test|spec)\.[jt]sx?|.*tests?\.(?:java|php|kt|swift|cs|scala)"
    r"|.*spec\.(?:kt|swift|scala)|.*suite\.scala|test_helpers?.*)$"
)
# Every name of a test contains one of these.
_TEST_WORDS = ("test", "spec", "suite", "fixture", "bench", "mock")
# Directories with the tests of a project, most common first.
TEST_ROOTS = ("tests", "test", "spec", "__tests__", "testing")
_TEST_DIRECTORY = {
    *TEST_ROOTS, "specs", "testdata", "fixture", "fixtures", "bench", "benchmark", "benchmarks", "mock", "mocks",
}  # fmt: skip
_ASIDE_DIRECTORY = {
    "doc", "docs", "documentation", "example", "examples", "sample", "samples", "demo", "demos", "tutorial",
    "tutorials", "gallery", "galleries", "site", "sites", "website", ".github",
}  # fmt: skip
# Names without suffix of files that stand for their directory: `index.ts`, `mod.rs`.
DIRECTORY_STEMS = frozenset({"index", "__init__", "mod", "lib", "main"})


def is_test(path: str) -> bool:
    """Return True for a test, a fixture or a benchmark, by the name of the file or a directory."""
    lowered = path.lower()
    if not any(map(lowered.__contains__, _TEST_WORDS)):
        return False
    *directories, name = lowered.split("/")
    return bool(_TEST_FILE.match(name)) or not _TEST_DIRECTORY.isdisjoint(directories)


def is_beside_the_code(path: str) -> bool:
    """Return True for documents, examples and sites of a project, by the name of a directory.

    Only the ranking of reports uses it.
    """
    return not _ASIDE_DIRECTORY.isdisjoint(path.lower().split("/")[:-1])
