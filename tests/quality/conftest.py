"""The corpus is data: nothing in it is a test or code of ours."""

import pytest

collect_ignore = ["corpus"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the ranks of tests/quality anew"
    )


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """True if golden files are written instead of compared."""
    return bool(request.config.getoption("--update-golden", default=False))
