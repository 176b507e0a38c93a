"""Paths of settings below a home directory."""

import os
from pathlib import Path


def expand_home(text: str) -> Path:
    """Return a path whose `~` or `~user` is the home directory; of nobody, it stays as it is.

    `Path.expanduser` raises an error for such a user, at the one who follows a setting.
    """
    return Path(os.path.expanduser(text))  # noqa: PTH111 - see above
