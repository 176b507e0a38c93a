"""Types of arguments. argparse reports "invalid NAME value" with the name of the function."""

import argparse
import math

YEAR_S = 365 * 86_400


def number(text: str) -> float:
    """Parse a finite number, as JSON requires."""
    if not math.isfinite(value := float(text)):
        raise ValueError(text)
    return value


def seconds(text: str) -> float:
    """Parse a duration from 0 to one year: clocks and polls accept nothing much longer."""
    if not 0 <= (value := number(text)) <= YEAR_S:
        raise ValueError(text)
    return value


def count(text: str) -> int:
    """Parse a whole number of at least 1."""
    if (value := int(text)) < 1:
        raise ValueError(text)
    return value


def index(text: str) -> str:
    """Parse an index name, or several names with commas.

    An empty name, for example from an unset variable, is refused: it would mean the index of the
    current directory.
    """
    if not text.strip(", "):
        raise argparse.ArgumentTypeError(
            "the index name is empty; `cocosearchctl list` shows all names"
        )
    return text
