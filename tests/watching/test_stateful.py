"""Any order of operations on three roots, by Hypothesis: after a sync the index equals the disk.

The oracle walks the disk and asks git what is ignored; see `operations`. What cannot be read is in
`test_unreadable`.
"""

import os
import random
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.watching import watched_root
from cocosearchd.watching.hints.inotify_instances import InotifyInstances
from cocosearchd.watching.scans.root_group import RootGroup
from cocosearchd.watching.watched_root import WatchedRoot
from tests.watching.operations import PATTERNS, Operations, as_git_sees, difference
from tests.watching.support import BACKENDS, MemoryIndex, following, git, in_sync

INDEXED = IndexingSettings(include=("*.py", "*.PY", "*.md", "*.MD"))
SEEDS = st.integers(0, 2**32)
OPERATIONS = sorted(
    {
        operation.__name__
        for operation in Operations(b"/nowhere", 0, replace_root=True, repository=True).operations
    }
)


@dataclass(eq=False, slots=True)
class Watched:
    """A root, its index, and the hands that change it."""

    path: Path
    live: WatchedRoot
    index: MemoryIndex
    hands: Operations
    away: bool = False


class Machine(RuleBasedStateMachine):
    """Roots: a plain directory, a repository, and a directory inside of a repository."""

    @initialize(backend=st.sampled_from(BACKENDS), instance_limit=st.sampled_from([1, 16]))
    def begin(self, backend: str, instance_limit: int) -> None:
        self.stack, self.backend = ExitStack(), backend
        self.group = RootGroup(InotifyInstances(instance_limit))
        self.base = Path(
            self.stack.enter_context(tempfile.TemporaryDirectory(prefix="cocosearch-test-"))
        )
        self.portal = self.stack.enter_context(start_blocking_portal("asyncio"))
        git(self.base, "init", "-q", "--bare", "scratch")
        self.scratch = os.fsencode(self.base / "scratch")
        self.roots = [
            self._watch(name, backend) for name in ("plain", "repository", "around/inside")
        ]

    def _watch(self, name: str, backend: str) -> Watched:
        path = self.base / name
        path.mkdir(parents=True)
        hands = Operations(
            os.fsencode(path), 0, replace_root=False, repository=name == "repository"
        )
        hands.begin()
        if name == "around/inside":
            git(path.parent, "init", "-q")
        entered = following(
            path,
            self.base / f"sync-{path.name}",
            backend,
            indexing=INDEXED,
            group=self.group,
        )
        live, index = self.stack.enter_context(self.portal.wrap_async_context_manager(entered))
        return Watched(path, live, index, hands)

    @rule(
        number=st.integers(0, 2),
        names=st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=8),
        seed=SEEDS,
    )
    def change(self, number: int, names: list[str], seed: int) -> None:
        hands = self.roots[number].hands
        hands.rng = random.Random(seed)
        for name in [] if self.roots[number].away else names:
            hands.operations = [getattr(hands, name)]
            hands.step()

    @rule(milliseconds=st.integers(1, 20))
    def wait(self, milliseconds: int) -> None:
        time.sleep(milliseconds / 1000)

    @rule(
        pattern=st.sampled_from(PATTERNS),
        where=st.sampled_from(["around/.gitignore", "repository/.git/info/exclude"]),
    )
    def edit_rules_that_no_event_tells_of(self, pattern: bytes, where: str) -> None:
        file = self.base / where
        if file.parent.is_dir():
            file.write_bytes(pattern + b"\n")

    @rule(number=st.integers(0, 2), keep=st.booleans())
    def root_goes(self, number: int, keep: bool) -> None:
        root = self.roots[number]
        if not root.away:
            aside = self.base / f"aside{number}"
            shutil.rmtree(aside, ignore_errors=True)
            root.path.rename(aside) if keep else shutil.rmtree(root.path)
            root.away = True

    @precondition(lambda self: any(root.away for root in self.roots))
    @rule()
    def roots_come(self) -> None:
        for number, root in enumerate(self.roots):
            if root.away:
                aside = self.base / f"aside{number}"
                aside.rename(root.path) if aside.exists() else root.path.mkdir()
                root.away = False
                if not aside.exists() and not (root.path / ".git").exists():
                    root.hands.begin()

    @rule()
    def compare(self) -> None:
        for root in self.roots:
            if root.away:
                answer = self.portal.call(root.live.sync, 2.0)
                assert not answer.fresh, f"{root.path.name} is away"
                continue
            self.portal.call(in_sync, root.live)
            expected = as_git_sees(os.fsencode(root.path), self.scratch)
            differs = difference(root.index.contents(), expected)
            assert not differs, (
                f"{self.backend}, {root.path.name}: {differs} after {root.hands.said}"
            )

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            with self.stack:
                self.roots_come()
                self.compare()


def explore(examples: int, steps: int, *, derandomize: bool) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=derandomize,
            database=None,
            # Timing is part of what is tried here, so a failure need not come again: shrinking
            # would chase it for long.
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A root that is replaced every few milliseconds is looked at as often."""
    monkeypatch.setattr(watched_root, "RESTART_MAX_S", 0.05)


def test_after_any_operations_the_index_equals_the_disk() -> None:
    explore(8, 12, derandomize=True)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_after_very_many_operations_too() -> None:
    explore(400, 60, derandomize=False)
