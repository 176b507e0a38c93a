"""Chooses a connection to close if there are too many, so that no client blocks others.

Clients without a token are closed first, then a connection of the client that holds most: the one
that has been idle longest. Pure, except `PeerFinder`.
"""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from cocosearch_ipc.trust.port_holder import client_pids

LOOKUP_S = 1.0  # interval of scans of all processes: a scan takes 40 ms with 226 processes


@dataclass(frozen=True, slots=True)
class PendingPeer:
    """All clients of a host whose process is not known yet."""

    host: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A connection. `since` is the end of its last answer, or its start."""

    peer: Hashable
    is_idle: bool
    has_token: bool
    since: float


def choose_victim(slots: Sequence[Slot], newest: int) -> int:
    """Return the position of the slot to close for the connection at `newest`, possibly itself."""
    earlier = [n for n in range(len(slots)) if n != newest]
    strangers = [n for n in earlier if slots[n].is_idle and not slots[n].has_token]
    if strangers:
        return _oldest(slots, strangers)
    return _choose_by_share(slots, newest, earlier)


def _choose_by_share(slots: Sequence[Slot], newest: int, earlier: Sequence[int]) -> int:
    """Return a slot of the peer with most slots, or `newest` if it is that peer's."""
    counts = Counter(slot.peer for slot in slots)
    largest = max(counts.values())
    greedy = [n for n in earlier if counts[slots[n].peer] == largest]
    idle = [n for n in greedy if slots[n].is_idle]
    if not idle and counts[slots[newest].peer] >= largest - 1:
        return newest  # nobody holds more, and all are busy
    return _choose_of_greedy(slots, idle or greedy)


def _choose_of_greedy(slots: Sequence[Slot], numbers: Sequence[int]) -> int:
    """Return the busy slot, or the slot of an unknown process, that is newest; else the oldest.

    While processes are not known yet, a flood has the newest connections.
    """
    first = slots[numbers[0]]
    if first.is_idle and not isinstance(first.peer, PendingPeer):
        return _oldest(slots, numbers)
    return max(numbers, key=lambda n: slots[n].since)


def _oldest(slots: Sequence[Slot], numbers: Sequence[int]) -> int:
    return min(numbers, key=lambda n: slots[n].since)


@dataclass(slots=True)
class PeerFinder:
    """Maps TCP connections of this machine to processes. Scans in its own thread and caches."""

    now: Callable[[], float]
    find: Callable[[], Mapping[tuple[str, int], int]] = client_pids
    _pids: Mapping[tuple[str, int], int] = field(default_factory=dict)
    _looked: float = float("-inf")
    _is_searching: bool = False

    def peer_of(self, address: tuple[str, int]) -> Hashable:
        """Return the process id of a client's address, or its host if that is unknown or hidden."""
        if address not in self._pids and self.now() - self._looked >= LOOKUP_S:
            self._looked = self.now()
            self._is_searching = True
            threading.Thread(target=self._look, name="peers", daemon=True).start()
        if address in self._pids:
            return self._pids[address]
        return PendingPeer(address[0]) if self._is_searching else address[0]

    def _look(self) -> None:
        try:
            self._pids = self.find()
        finally:
            self._is_searching = False
