"""A harmless root beside a hostile one: a save in it must be in the next fresh answer within seconds."""

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.daemon import Daemon
from tests.machine_speed import FairClock

# A save takes a tenth of a second. Several processes take part in it, of which one may have to start:
# on a busy machine each of them waits for its turn.
FRESH_WITHIN_S = 5.0


@dataclass
class Neighbour:
    """A well-behaved project. Its saves measure whether the daemon still serves everybody else."""

    root: Path
    names: "count[int]" = field(default_factory=lambda: count(1))

    def watch(self, daemon: Daemon) -> None:
        """Index it and wait until it is searchable."""
        daemon.index(self.root)

    def save_and_query(self, daemon: Daemon, **options: Any) -> float:
        """Save a new function, query it once; return the seconds, without those of a slow machine.
        Fails where the answer lacks it or is not fresh.

        `options` are of the query.
        """
        name = f"saved_beside_number_{next(self.names)}"
        with FairClock() as clock:
            (self.root / "saved.py").write_text(f"def {name}():\n    pass\n")
            answer = daemon.call("search", query=name, index=self.root.name, **options)
        assert answer["fresh"], (
            f"not fresh after {clock.took_s:.2f} s: {answer.get('stale_reason')}\n{daemon.log[-4000:]}"
        )
        assert [result["path"] for result in answer["results"]][:1] == ["saved.py"], answer
        return clock.fair_s

    def assert_fresh(self, daemon: Daemon, rounds: int = 3) -> None:
        """Save and query several times; each round must be fresh within `FRESH_WITHIN_S`."""
        for _ in range(rounds):
            took_s = self.save_and_query(daemon)
            assert took_s < FRESH_WITHIN_S, f"a save beside the hostile root took {took_s:.2f} s"


def settle(daemon: Daemon, neighbour: Neighbour) -> None:
    """Wait until a daemon that has just started indexes what is saved: its indexing process takes
    seconds to load.
    """
    (neighbour.root / "first.py").write_text("def after_the_start():\n    pass\n")
    daemon.ctl("sync", "--index", neighbour.root.name)
