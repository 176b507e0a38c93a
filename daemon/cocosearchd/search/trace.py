"""The trace of one run: times of stages for every answer, and details for `explain`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from cocosearch_ipc.spans import span


class Trace:
    """Collects the times of stages.

    Details are collected only for an explained run, because they cost time.
    """

    __slots__ = ("details", "explain", "timings_ms")

    def __init__(self, *, explain: bool = False) -> None:
        self.explain = explain
        self.timings_ms: dict[str, float] = {}
        self.details: dict[str, Any] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the time of a stage. If a stage runs more than once, its times add up."""
        begin = perf_counter()
        try:
            with span(f"search.{name}"):
                yield
        finally:
            self.timings_ms[name] = self.timings_ms.get(name, 0.0) + (perf_counter() - begin) * 1000

    def record(self, name: str, describe: Callable[[], Any]) -> None:
        """Record a JSON-able detail. `describe` is called only if the run is explained."""
        if self.explain:
            self.details[name] = describe()
