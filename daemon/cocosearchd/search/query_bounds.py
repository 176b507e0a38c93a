"""Limits of a query's size. Larger queries would block all others for seconds. Pure."""

from collections.abc import Sequence

from cocosearchd.errors import InvalidInput

MAX_QUESTION = 10_000  # characters, inline filters included: some 200 lines of code
MAX_FILTERS = 200  # over all kinds: each glob is compared with each path
MAX_FILTER = 4_096  # characters: no path is longer (Linux, PATH_MAX)


def check_question(text: str) -> None:
    """Raise `InvalidInput` for a question that is too long."""
    if len(text) > MAX_QUESTION:
        raise InvalidInput(
            f"the question has {len(text):,} characters",
            f"use at most {MAX_QUESTION:,}: the most specific part",
        )


def check_filters(filters: Sequence[str]) -> None:
    """Raise `InvalidInput` for too many filters, or for a filter that is too long."""
    if len(filters) > MAX_FILTERS:
        raise InvalidInput(
            f"there are {len(filters):,} filters",
            f"use at most {MAX_FILTERS}: one glob can stand for many paths",
        )
    longest = max(map(len, filters), default=0)
    if longest > MAX_FILTER:
        raise InvalidInput(f"a filter has {longest:,} characters", f"use at most {MAX_FILTER:,}")
