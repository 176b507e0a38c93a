"""Which connection ends when there are too many: one client must not keep the others out. Pure, but
for `PeerFinder`.

Clients without a token go first, then the client that holds most connections: the one of these that
idles longest.
"""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from cocosearch_ipc.trust.port_holder import client_pids

LOOKUP_S = 1.0  # between two looks at all processes: each takes 40 ms with 226 processes


@dataclass(frozen=True, slots=True)
class PendingPeer:
    """Stands for all clients of a host while their processes are being looked for."""

    host: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A connection. `since` is when its last answer ended, or when it was made, by one clock."""

    peer: Hashable
    is_idle: bool
    has_token: bool
    since: float


def choose_victim(slots: Sequence[Slot], newest: int) -> int:
    """The position of the slot to be freed for the connection at `newest`, which may be that
    one.
    """
    strangers = [
        n for n, slot in enumerate(slots) if slot.is_idle and not slot.has_token and n != newest
    ]
    if strangers:
        return min(strangers, key=lambda n: slots[n].since)
    counts = Counter(slot.peer for slot in slots)
    most = max(counts.values())
    greedy = [n for n, slot in enumerate(slots) if counts[slot.peer] == most and n != newest]
    if idle := [n for n in greedy if slots[n].is_idle]:
        # Of processes that are not told apart yet, a flood has the newest connections.
        is_pending = isinstance(slots[idle[0]].peer, PendingPeer)
        return (max if is_pending else min)(idle, key=lambda n: slots[n].since)
    if counts[slots[newest].peer] >= most - 1:  # nobody holds more, and all of it is at work
        return newest
    return max(greedy, key=lambda n: slots[n].since)


@dataclass(slots=True)
class PeerFinder:
    """The processes behind TCP connections of this machine. Looks in a thread of its own, and keeps
    what it found.
    """

    now: Callable[[], float]
    find: Callable[[], Mapping[tuple[str, int], int]] = client_pids
    _pids: Mapping[tuple[str, int], int] = field(default_factory=dict)
    _looked: float = float("-inf")
    _is_looking: bool = False

    def peer_of(self, address: tuple[str, int]) -> Hashable:
        """The process id behind a client's address; its host until that is known, and where it is
        hidden.
        """
        if address not in self._pids and self.now() - self._looked >= LOOKUP_S:
            self._looked = self.now()
            self._is_looking = True
            threading.Thread(target=self._look, name="peers", daemon=True).start()
        if address in self._pids:
            return self._pids[address]
        return PendingPeer(address[0]) if self._is_looking else address[0]

    def _look(self) -> None:
        try:
            self._pids = self.find()
        finally:
            self._is_looking = False
