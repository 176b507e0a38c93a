"""Findings: the results of the checks of `doctor` and `config check`."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `fix` suggests what to do about a warning or a failure."""

    what: str
    state: Literal["ok", "warn", "fail"]
    message: str
    fix: str = ""
