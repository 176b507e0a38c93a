"""What one look at a machine, a daemon or settings found: `doctor` and `config check` say it the
same way.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """`fix` says what to do about a warning or a failure."""

    what: str
    state: Literal["ok", "warn", "fail"]
    message: str
    fix: str = ""
