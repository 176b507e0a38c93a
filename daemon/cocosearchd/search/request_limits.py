"""Largest sizes and counts that a request may ask for. Larger ones would block all others. Pure."""

from collections.abc import Sequence

from cocosearchd.errors import InvalidInput

MAX_QUESTION = 200_000  # characters, including inline filters: enough for a report with its logs
MAX_FILTERS = 200  # filters of all kinds together: each glob is compared with each path
MAX_FILTER = 4_096  # characters of a filter: no path is longer (Linux, PATH_MAX)
MAX_LISTED_FILES = 1000  # on one page
MAX_BUDGET = 100_000  # tokens: estimating so many takes a tenth of a second


def check_range(name: str, value: int, low: int, high: int) -> None:
    """Raise `InvalidInput` for a value outside of its range."""
    if not low <= value <= high:
        raise InvalidInput(f"{name} is {value}", f"use {low:,} to {high:,}")


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


def check_budget(budget_tokens: int | None) -> None:
    """Raise `InvalidInput` for a token budget out of range."""
    if budget_tokens is not None and not 1 <= budget_tokens <= MAX_BUDGET:
        raise InvalidInput(f"the budget is {budget_tokens} tokens", f"use 1 to {MAX_BUDGET:,}")
