"""Chooses a connection to close if there are too many, so that no client blocks others.

Connections without a token are closed first. After them, the client with most connections loses the
one that has been idle longest. Pure, except `PeerFinder`.
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
    """A connection. `since` is the time of its last answer, else of its start."""

    peer: Hashable
    is_idle: bool
    has_token: bool
    since: float


def choose_victim(slots: Sequence[Slot], newest: int) -> int:
    """Return the position of the slot to close to make room for `newest`; it may be `newest`."""
    earlier = _earlier_slots(slots, newest)
    strangers = [n for n in earlier if slots[n].is_idle and not slots[n].has_token]
    if strangers:
        return _oldest(slots, strangers)
    return choose_by_share(slots, newest)


def choose_by_share(slots: Sequence[Slot], newest: int) -> int:
    """Return a slot of the peer with most slots, or `newest` if it belongs to that peer.

    Tokens do not count.
    """
    earlier = _earlier_slots(slots, newest)
    counts = Counter(slot.peer for slot in slots)
    largest = max(counts.values())
    of_largest = [n for n in earlier if counts[slots[n].peer] == largest]
    idle = [n for n in of_largest if slots[n].is_idle]
    if not idle and counts[slots[newest].peer] >= largest - 1:
        return newest  # no other peer has more slots, and all of those are busy
    return _choose_of_largest(slots, idle or of_largest)


def _earlier_slots(slots: Sequence[Slot], newest: int) -> list[int]:
    return [n for n in range(len(slots)) if n != newest]


def _choose_of_largest(slots: Sequence[Slot], numbers: Sequence[int]) -> int:
    """Return the newest slot if the slots are busy or their process is unknown, else the oldest.

    While the processes are not known yet, a flood of connections is among the newest ones.
    """
    first = slots[numbers[0]]
    if first.is_idle and not isinstance(first.peer, PendingPeer):
        return _oldest(slots, numbers)
    return max(numbers, key=lambda n: slots[n].since)


def _oldest(slots: Sequence[Slot], numbers: Sequence[int]) -> int:
    return min(numbers, key=lambda n: slots[n].since)


@dataclass(slots=True)
class PeerFinder:
    """Maps TCP connections of this machine to processes. Scans in a thread of its own and caches."""

    now: Callable[[], float]
    find: Callable[[], Mapping[tuple[str, int], int]] = client_pids
    _pids: Mapping[tuple[str, int], int] = field(default_factory=dict)
    _scanned_at: float = float("-inf")
    _is_scanning: bool = False

    def peer_of(self, address: tuple[str, int]) -> Hashable:
        """Return the process id of a client's address, or its host if that is unknown or hidden."""
        if address not in self._pids and self.now() - self._scanned_at >= LOOKUP_S:
            self._scanned_at = self.now()
            self._is_scanning = True
            threading.Thread(target=self._scan, name="peers", daemon=True).start()
        if address in self._pids:
            return self._pids[address]
        return PendingPeer(address[0]) if self._is_scanning else address[0]

    def _scan(self) -> None:
        try:
            self._pids = self.find()
        finally:
            self._is_scanning = False
