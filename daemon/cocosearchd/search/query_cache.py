"""Caches answers to equal and nearly equal questions. Dropping an entry costs time, not answers.

Level 1 is keyed by the digest of the whole plan. Level 2 is keyed by the query's vector, among
plans with equal filters, profile and content words. An entry of either level is valid only for one
state of one index, so a commit to one index costs the others nothing. A state is a generation, the
number of changes to the lexical index, because the lexical index may apply commits in another
order, and the digest of the history that orders the tail. Values are deeply frozen, so no caller
can change the answer of another caller.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import monotonic
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cocosearchd.model import Hit
from cocosearchd.search.joint.hit_order import HitRelevances, relevances_of
from cocosearchd.search.plan import Plan, digest, paraphrase_key
from cocosearchd.store.reads.file_states import FileState

Vector = NDArray[np.float32]
CacheUse = Literal["miss", "exact", "semantic"]
# (generation, snapshots of the lexical index, digest of the history or "")
State = tuple[int, int, str]
IndexKey = Hashable  # `IndexRecord.key`
# Each index of a question, with its state and its plan (which has the digest of unsaved text).
JointState = Sequence[tuple[IndexKey, State, Plan]]
_Question = bytes  # digest of a joint state

# Least cosine at which two questions count as the same (CocoSearch, retrieval.md).
MIN_SIMILARITY = 0.95
ENTRY_BYTES = 1200  # measured with tracemalloc: an entry without its hits
HIT_BYTES = 700  # measured with tracemalloc: a hit without its texts and scores
TEXT_BYTES = 50  # sys.getsizeof: a short text without its characters
# sys.getsizeof: a number, its pair with a shared name, and its slot in the tuple
SCORE_BYTES = 90
MAX_JOINT = 32  # cached questions to several indexes
JOINT_SHARE = 8  # questions to several indexes take at most 1 / JOINT_SHARE of the cache
_RECENT_PLANS = 16  # plans with cached digests
PLACE_BYTES = 190  # sys.getsizeof: a ranked place, its four numbers, and its slot in the tuple


@dataclass(frozen=True, slots=True)
class RankedHits:
    """Ranked hits of one generation, without context, with the states of their files.

    `snapshot_count` is the `snapshot_count` of the lexical index when the question arrived, or 0
    without a lexical index: the hits are from that state or a later one. If `hits` are only the
    first hits, `relevances` has the relevances of all hits; otherwise it is None. `history` is the
    digest of the history that ordered the tail, or "".
    """

    generation: int
    hits: tuple[Hit, ...]
    files: tuple[FileState, ...]
    warnings: tuple[str, ...] = ()
    snapshot_count: int = 0
    more: bool = False  # a list of symbols continues on a next page
    relevances: HitRelevances | None = None
    history: str = ""

    @property
    def all_relevances(self) -> HitRelevances:
        """The relevances of all hits."""
        return relevances_of(self.hits) if self.relevances is None else self.relevances

    @property
    def state(self) -> State:
        """The state of the index for which the hits are valid."""
        return self.generation, self.snapshot_count, self.history


@dataclass(frozen=True, slots=True)
class JointHits:
    """A cached answer to a joint question: the first hits of some indexes, and the skipped indexes."""

    first_hits: Mapping[IndexKey, RankedHits]
    skipped: frozenset[IndexKey]

    @property
    def indexes(self) -> frozenset[IndexKey]:
        """All indexes of this entry."""
        return self.skipped.union(self.first_hits)


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """Counts since the start. `bytes` estimates the current size."""

    entries: int
    bytes: int
    exact_hits: int
    semantic_hits: int
    misses: int


class _PlanKeys:
    """The digests of a plan, each computed at its first use."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @cached_property
    def digest(self) -> bytes:
        return digest(self._plan)

    @cached_property
    def group(self) -> bytes:
        return digest(paraphrase_key(self._plan))


@dataclass(frozen=True, slots=True)
class _Entry:
    hits: RankedHits
    group: bytes
    slot: int  # row in the group's matrix; -1 without a vector
    size: int
    expires: float


@dataclass(frozen=True, slots=True)
class _JointEntry:
    hits: JointHits
    plans: Mapping[IndexKey, bytes]  # digests
    size: int
    expires: float


class QueryCache:
    """Both levels of the cache for all indexes. It is bounded in bytes, with LRU eviction.

    The parameter `index` is the key of an index; unlike a name, a key is never reused. Not
    thread-safe: the cache belongs to the event loop.
    """

    def __init__(
        self, max_bytes: int, ttl_s: float, clock: Callable[[], float] = monotonic
    ) -> None:
        self._max_bytes = max_bytes
        self._ttl_s = ttl_s
        self._clock = clock
        self._entries: OrderedDict[tuple[IndexKey, bytes], _Entry] = OrderedDict()
        self._groups: dict[tuple[IndexKey, State, bytes], _VectorGroup] = {}
        self._bytes = self._exact = self._semantic = self._misses = 0
        # By the id of the plan, which stays unique: the value refers to the plan
        self._keys = OrderedDict[int, _PlanKeys]()
        self._joint = OrderedDict[_Question, _JointEntry]()
        self._joint_bytes = 0

    def exact(self, index: IndexKey, state: State, plan: Plan) -> RankedHits | None:
        """Return the cached answer to an equal plan in this state."""
        hits = self._valid_hits((index, self._plan_keys(plan).digest), state)
        self._exact += hits is not None
        return hits

    def similar(
        self, index: IndexKey, state: State, plan: Plan, vector: Vector
    ) -> RankedHits | None:
        """Return the cached answer to the most similar question with the same paraphrase key."""
        group = self._groups.get((index, state, self._plan_keys(plan).group))
        hits = None
        while group is not None and hits is None and (nearest := group.nearest(vector)) is not None:
            # `_valid_hits` returns None if the entry had expired, and drops it
            hits = self._valid_hits((index, nearest), state)
        self._semantic += hits is not None
        return hits

    def count_miss(self) -> None:
        """Count a question that neither level could answer."""
        self._misses += 1

    def put(self, index: IndexKey, plan: Plan, vector: Vector | None, hits: RankedHits) -> None:
        """Store an answer, unless it would take more than an eighth of the cache.

        A larger answer is not worth the entries that it would evict.
        """
        keys = self._plan_keys(plan)
        key = (index, keys.digest)
        group_key = keys.group
        self._drop(key)
        size = _entry_bytes(hits, vector)
        if size * 8 > self._max_bytes:
            return
        slot = -1
        if vector is not None and vector.any():
            group = self._groups.setdefault(
                (index, hits.state, group_key), _VectorGroup(len(vector))
            )
            slot = group.add(key[1], vector)
        self._entries[key] = _Entry(hits, group_key, slot, size, self._clock() + self._ttl_s)
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def latest(self, index: IndexKey, plan: Plan) -> RankedHits | None:
        """Return the answer to this plan at any generation, for use while PostgreSQL is
        unavailable.

        This does not change the statistics.
        """
        entry = self._entries.get((index, self._plan_keys(plan).digest))
        return entry.hits if entry is not None and entry.expires > self._clock() else None

    def joint(self, state: JointState, own_index: str | None = None) -> JointHits | None:
        """Return the cached answer to a question to several indexes in these states.

        `own_index` chooses which copy is shown, and only shown hits are complete.
        """
        entry = self._joint.get(self._question(state, own_index))
        return None if entry is None or entry.expires <= self._clock() else entry.hits

    def put_joint(self, state: JointState, hits: JointHits, own_index: str | None = None) -> None:
        """Store an answer to a joint question, unless it would take more than half of their share."""
        question = self._question(state, own_index)
        self._drop_joint(question)
        size = ENTRY_BYTES + sum(_entry_bytes(ranked, None) for ranked in hits.first_hits.values())
        if size * JOINT_SHARE * 2 > self._max_bytes:
            return
        plans = {index: self._plan_keys(plan).digest for index, _, plan in state}
        self._joint[question] = _JointEntry(hits, plans, size, self._clock() + self._ttl_s)
        self._joint_bytes += size
        while len(self._joint) > MAX_JOINT or self._joint_bytes * JOINT_SHARE > self._max_bytes:
            self._drop_joint(next(iter(self._joint)))

    def latest_joint(self, index: IndexKey, plan: Plan) -> RankedHits | None:
        """Return the first hits of an index from a cached joint question, at any generation.

        The other indexes may be others now, so it has no relevances of hits that it lacks.
        """
        digest_of_plan = self._plan_keys(plan).digest
        for entry in reversed(self._joint.values()):
            hits = entry.hits.first_hits.get(index)
            is_same = entry.plans.get(index) == digest_of_plan
            if is_same and hits and entry.expires > self._clock():
                return _drop_later_relevances(hits)
        return None

    def forget(self, index: IndexKey) -> None:
        """Drop the answers of one index."""
        for key in [key for key in self._entries if key[0] == index]:
            self._drop(key)
        for question in [key for key, entry in self._joint.items() if index in entry.hits.indexes]:
            self._drop_joint(question)

    def statistics(self) -> CacheStatistics:
        """Return the statistics for all indexes together."""
        return CacheStatistics(
            len(self._entries) + len(self._joint),
            self._bytes + self._joint_bytes,
            self._exact,
            self._semantic,
            self._misses,
        )

    def _question(self, state: JointState, own_index: str | None) -> _Question:
        """Return the digest of a question, from all plans and the index that is preferred.

        With a filter by path, each index has its own plan.
        """
        parts = [(index, moment, self._plan_keys(plan).digest) for index, moment, plan in state]
        return hashlib.sha256(repr((parts, own_index)).encode()).digest()

    def _drop_joint(self, question: _Question) -> None:
        entry = self._joint.pop(question, None)
        if entry is not None:
            self._joint_bytes -= entry.size

    def _plan_keys(self, plan: Plan) -> "_PlanKeys":
        """Return the digests of a plan; they are cached, because many indexes may share a plan."""
        keys = self._keys.get(id(plan))
        if keys is None:
            keys = self._keys[id(plan)] = _PlanKeys(plan)
            if len(self._keys) > _RECENT_PLANS:
                self._keys.popitem(last=False)
        return keys

    def _valid_hits(self, key: tuple[IndexKey, bytes], state: State) -> RankedHits | None:
        entry = self._entries.get(key)
        if entry is None or entry.hits.state != state:
            return None  # an entry of another state stays, for use while PostgreSQL is unavailable
        if entry.expires <= self._clock():
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry.hits

    def _drop(self, key: tuple[IndexKey, bytes]) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._bytes -= entry.size
        group_key = (key[0], entry.hits.state, entry.group)
        if entry.slot >= 0 and self._groups[group_key].remove(entry.slot):
            del self._groups[group_key]


def _drop_later_relevances(ranked: RankedHits) -> RankedHits:
    """Drop the relevances of the hits that come after the first ones, which `ranked` has."""
    relevances = ranked.relevances
    if relevances is None:
        return ranked
    # their relevance for the order, which depends on the later hits
    values = tuple(relevances.running_maxima()[: len(ranked.hits)])
    return replace(ranked, relevances=replace(relevances, values=values))


class _VectorGroup:
    """The vectors of questions with one paraphrase key, in a matrix that grows by doubling."""

    __slots__ = ("free", "keys", "matrix")

    def __init__(self, dimension: int) -> None:
        # most groups have one question
        self.matrix: Vector = np.zeros((1, dimension), dtype=np.float32)
        self.keys: list[bytes] = []
        self.free: list[int] = []

    def add(self, key: bytes, vector: Vector) -> int:
        slot = self.free.pop() if self.free else len(self.keys)
        if slot == len(self.keys):
            self.keys.append(key)
        if slot == len(self.matrix):
            self.matrix = np.concatenate([self.matrix, np.zeros_like(self.matrix)])
        self.matrix[slot] = vector
        self.keys[slot] = key
        return slot

    def remove(self, slot: int) -> bool:
        """Clear a slot; return True if no vector is left."""
        self.matrix[slot] = 0
        self.free.append(slot)
        return len(self.free) == len(self.keys)

    def nearest(self, vector: Vector) -> bytes | None:
        if len(vector) != self.matrix.shape[1]:
            return None
        cosines = self.matrix[: len(self.keys)] @ vector
        best = int(cosines.argmax())
        return self.keys[best] if cosines[best] >= MIN_SIMILARITY else None


def _entry_bytes(cached: RankedHits, vector: Vector | None) -> int:
    texts = sum(len(hit.content) + len(hit.path) for hit in cached.hits)
    # Python stores one, two or four bytes per character of a text; for code it is nearly always
    # one.
    character_bytes = 1 if all(hit.content.isascii() for hit in cached.hits) else 4
    scopes = sum(len(file.scopes or b"") for file in cached.files)
    metadata = sum(map(_hit_bytes, cached.hits)) + (0 if vector is None else vector.nbytes)
    return ENTRY_BYTES + character_bytes * texts + HIT_BYTES * len(cached.hits) + scopes + metadata


def _hit_bytes(hit: Hit) -> int:
    names = (hit.block_type, hit.hierarchy, hit.symbol_type, hit.symbol_name, hit.symbol_signature)
    texts = sum(TEXT_BYTES + len(name) for name in (*names, *hit.counterparts) if name)
    return texts + SCORE_BYTES * len(hit.signals) + PLACE_BYTES * len(hit.compared_places)
