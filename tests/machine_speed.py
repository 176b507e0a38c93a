"""Tells a slow program from a slow or busy machine."""

import threading
import time
from types import TracebackType

# The CPU seconds of `_work` on the machine for which bounds on CPU time were written.
REFERENCE_S = 0.0033
RUNS = 10
# Less time is no matter of any test, so it is not worth to look at the machine.
SHORT_S = 1.0
NAP_S = 0.01


def slowness() -> float:
    """Return the factor by which CPU time is longer here at this moment, at least 1.

    Another program on the same core, or an older one, may make it several times as long.
    """
    return max(1.0, min(_measure() for _ in range(RUNS)) / REFERENCE_S)


class FairClock:
    """A context that measures how long a program took, without the share of the machine.

    Meanwhile a thread takes naps: what they last too long is time in which the machine did not get
    to a program that wanted to run.
    """

    def __init__(self) -> None:
        self.took_s = 0.0
        self._late_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._nap)

    def __enter__(self) -> "FairClock":
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.took_s = time.monotonic() - self._began
        self._over.set()
        self._thread.join()

    @property
    def fair_s(self) -> float:
        """The seconds that it would have taken on the machine of the bounds, if these are many."""
        if self.took_s < SHORT_S:
            return self.took_s
        return max(0.0, self.took_s - self._late_s) / slowness()

    def _nap(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            self._over.wait(NAP_S)
            self._late_s += max(0.0, time.monotonic() - began - NAP_S)


def _measure() -> float:
    began = time.thread_time()
    _work()
    return time.thread_time() - began


def _work() -> None:
    """Strings and a dictionary, as parsers and rules have them."""
    counts = dict[str, int]()
    for number in range(20_000):
        key = str(number * 7919 % 10_007)
        counts[key] = counts.get(key, 0) + len(key)
