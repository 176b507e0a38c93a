"""The trace of one run, stage by stage: the times of every answer, and details for `explain`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from cocosearch_ipc.spans import span


class Trace:
    """Collects times of stages always, details only for an explained run, as they cost time."""

    __slots__ = ("details", "explain", "timings_ms")

    def __init__(self, *, explain: bool = False) -> None:
        self.explain = explain
        self.timings_ms: dict[str, float] = {}
        self.details: dict[str, Any] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage. The times of a stage that runs more than once add up."""
        begin = perf_counter()
        try:
            with span(f"search.{name}"):
                yield
        finally:
            self.timings_ms[name] = self.timings_ms.get(name, 0.0) + (perf_counter() - begin) * 1000

    def record(self, name: str, describe: Callable[[], Any]) -> None:
        """Record a detail, JSON-able. `describe` is only called when the run is explained."""
        if self.explain:
            self.details[name] = describe()
