"""Sources: directories that the settings declare (`watching.sources`), with their topics."""

import os
from dataclasses import dataclass

from cocosearchd.runtime.files.home_paths import expand_home

TOPIC = "topic:"


@dataclass(frozen=True, slots=True)
class Source:
    """A declared directory: absolute, or below the home directory (`~/...`)."""

    path: str
    topics: tuple[str, ...] = ()

    def directory(self) -> bytes:
        """Return the absolute path."""
        return os.fsencode(expand_home(self.path))


def parse_source(text: str) -> Source:
    """Parse `PATH topic:NAME topic:NAME`. The path may contain blanks."""
    path = text.strip()
    topics: list[str] = []
    while True:
        start, _, word = path.rpartition(" ")
        if not start or not word.startswith(TOPIC) or word == TOPIC:
            return Source(path, tuple(topics))
        topics.insert(0, word.removeprefix(TOPIC))
        path = start.rstrip()
