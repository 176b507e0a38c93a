"""Tests of the roles of paths."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.languages.patterns import path_roles


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["test", "Tests", "spec", "mocks", "x", "_", ".", "/", "suite", "py", "ts"]
        ),
        max_size=7,
    )
)
def test_a_fast_path_leaves_out_no_test_file(parts: list[str]) -> None:
    path = "".join(parts)
    *directories, name = path.lower().split("/")
    slowly = bool(path_roles._TEST_FILE.match(name)) or not path_roles._TEST_DIRECTORY.isdisjoint(
        directories
    )
    assert path_roles.is_test(path) is slowly


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("tests/a.py", True),
        ("src/test_a.py", True),
        ("src/a_test.go", True),
        ("web/a.spec.ts", True),
        ("web/a.test.tsx", True),
        ("src/UserTest.java", True),
        ("pkg/testdata/x.json", True),
        ("src/bench/run.rs", True),
        ("src/testing.py", False),  # flask's client for tests is code
        ("src/contest.py", False),
        ("src/latest/x.py", False),
        ("src/attest.java", True),  # a rule by name has its price: it ends like a test
    ],
)
def test_tests_by_name(path: str, test: bool) -> None:
    assert path_roles.is_test(path) is test


def test_every_directory_of_tests_has_a_word_that_is_looked_for() -> None:
    assert all(
        any(word in name for word in path_roles._TEST_WORDS) for name in path_roles._TEST_DIRECTORY
    )


@pytest.mark.parametrize(
    ("path", "aside"),
    [
        ("docs/conf.py", True),
        ("packages/ui/Examples/app.tsx", True),
        (".github/scripts/run.py", True),
        ("src/docs.py", False),
        ("src/document/parse.py", False),
        ("example.py", False),
    ],
)
def test_what_only_shows_a_project_is_in_a_directory_of_its_own(path: str, aside: bool) -> None:
    assert path_roles.is_beside_the_code(path) is aside
