"""Answers one question from several indexes: embeds it once, ranks hits, merges them by relevance.

Only merged hits get context. An index that cannot add a hit is not ranked further.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import anyio

from cocosearchd.errors import CocoSearchError, IdentityMismatch
from cocosearchd.forms.path_forms import path_bytes
from cocosearchd.freshness import StaleReason, stale_reason
from cocosearchd.model import Hit, IndexRecord
from cocosearchd.search.alike import Text, WantedVariant, group_similar
from cocosearchd.search.answers.context import SourcedHits, fit_budget, is_bundled
from cocosearchd.search.answers.ranked_answer import QueryVector, RankedAnswer
from cocosearchd.search.code.file_masks import NO_FILE
from cocosearchd.search.joint.hit_order import order_hits
from cocosearchd.search.joint.index_sentences import group_sentences
from cocosearchd.search.joint.joint_ranking import JointRanking, Outcome
from cocosearchd.search.listing.symbol_list import next_cursor
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.pipeline import Answer, Pipeline, make_answer
from cocosearchd.search.places import content_words, wanted_variant
from cocosearchd.search.plan import Query, ViewOptions
from cocosearchd.search.trace import Trace

# Times the limit: number of hits of all indexes that are compared with each other
COMPARED_FACTOR = 3


@dataclass(frozen=True, slots=True)
class SelectedHit:
    """A hit, identified by the number of its index and its rank there (from 1).

    It also represents the files of `similar_paths`.
    """

    number: int
    rank: int
    similar_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedIndex:
    """An index that failed to answer, and its error."""

    index: str
    error: CocoSearchError

    @property
    def sentence(self) -> tuple[str, str]:
        """The index, and the warning that accompanies the hits of the other indexes."""
        return self.index, f"not searched: {self.error.message}"


@dataclass(frozen=True, slots=True)
class MergedAnswer:
    """Hits of all indexes in one order.

    `answers` holds the answer of each index, with its shown hits only. `cursor` continues a list of
    symbols.
    """

    hits: tuple[Hit, ...]
    answers: tuple[Answer, ...]
    failed: tuple[FailedIndex, ...]
    traces: dict[str, Trace]
    cursor: str | None = None
    omitted: int = 0  # hits that did not fit into the budget

    @property
    def is_cold(self) -> bool:
        """True if an index was not in memory yet, and answered by simpler rules."""
        return any(answer.is_cold for answer in self.answers)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for people, each with the names of its indexes.

        If other indexes have hits, a filter that excludes all files of one index causes no warning.
        """
        warnings = (
            (answer.index, warning)
            for answer in self.answers
            for warning in answer.warnings
            if not (self.hits and warning.startswith(NO_FILE))
        )
        return group_sentences((*warnings, *(failed.sentence for failed in self.failed)))

    @property
    def generations(self) -> dict[str, int]:
        """The generation of each index that answered, by its name."""
        return {answer.index: answer.generation for answer in self.answers}

    @property
    def stale(self) -> StaleReason | None:
        """The reason why the answer is incomplete; None if it is complete."""
        if not self.failed:
            return None
        error = "; ".join(group_sentences(failed.sentence for failed in self.failed))
        return stale_reason("index_unavailable", error=error)


async def search_several(
    pipeline: Pipeline,
    records: Sequence[IndexRecord],
    query: Query,
    *,
    explain: bool = False,
    overlays: Mapping[str, Overlay] | None = None,
    own_index: str | None = None,
) -> MergedAnswer:
    """Search every index, each with the overlay of its name, and merge the hits.

    `own_index` is the index of the project that asks: of copies, the one there is shown.
    A failed index is reported beside the answers of the others. Raises `IdentityMismatch` when the
    indexes have different embedders, and the first error if all fail.
    """
    check_same_embedder(records)
    query = pipeline.with_defaults(query)
    traces = {record.name: Trace(explain=explain) for record in records}
    joint, outcomes = await _rank_all(pipeline, records, query, traces, overlays or {}, own_index)
    ranked_answers = [outcome for outcome in outcomes if isinstance(outcome, RankedAnswer)]
    failed_indexes = tuple(
        FailedIndex(record.name, outcome)
        for record, outcome in zip(records, outcomes, strict=True)
        if isinstance(outcome, CocoSearchError)
    )
    if failed_indexes and not ranked_answers:
        raise failed_indexes[0].error
    merged = await (
        _merge_ranked(pipeline, joint, ranked_answers, query, traces, own_index)
        if query.words
        else _merge_listed(pipeline, ranked_answers, query, traces)
    )
    return replace(merged, failed=failed_indexes)


async def _merge_listed(
    pipeline: Pipeline,
    ranked_answers: Sequence[RankedAnswer],
    query: Query,
    traces: dict[str, Trace],
) -> MergedAnswer:
    """List the symbols of all indexes, one index after the other."""
    listed = select_listed(ranked_answers, _limit(query))
    answers = await _expand_selected(pipeline, listed.answers, listed.selected, traces)
    hits = [answers[chosen.number].hits[chosen.rank - 1] for chosen in listed.selected]
    fitting = _fit_budget(hits, query)
    last_hits = fitting if len(fitting) < len(hits) else listed.last_hits
    merged = MergedAnswer(fitting, answers, (), traces)
    return replace(merged, cursor=next_cursor(query, last_hits, merged.generations))


async def _merge_ranked(
    pipeline: Pipeline,
    joint: JointRanking,
    ranked_answers: Sequence[RankedAnswer],
    query: Query,
    traces: dict[str, Trace],
    own_index: str | None,
) -> MergedAnswer:
    """Merge hits by relevance. Of alike hits, only one is shown."""
    limit = _limit(query)
    deduplicated = _deduplicate(ranked_answers, query.ranking.all_chunks)
    hits_by_index = [ranked.ranked_hits.hits for ranked in deduplicated]
    ordered = order_hits([ranked.ranked_hits.all_relevances for ranked in deduplicated])
    variant = wanted_variant(query.words, content_words(query.words))
    selected = (
        collapse_hits(hits_by_index, ordered, limit, variant, own_index)
        if _collapses(query)
        else [SelectedHit(*chosen) for chosen in ordered[:limit]]
    )
    completed = await joint.complete(
        deduplicated, [(entry.number, entry.rank) for entry in selected]
    )
    ranked_hits = (completed[entry.number].ranked_hits.hits[entry.rank - 1] for entry in selected)
    if is_bundled(ranked_hits, query.view):
        bundle = await _bundle(pipeline, completed, selected, query.view, traces)
        if bundle.hits:
            return bundle
    answers = await _expand_selected(pipeline, completed, selected, traces)
    fitting = _fit_budget(merge_hits(answers, selected), query)
    omitted = len(selected) - len(fitting)
    return MergedAnswer(fitting, answers, (), traces, omitted=omitted)


async def _bundle(
    pipeline: Pipeline,
    ranked_answers: Sequence[RankedAnswer],
    selected: Sequence[SelectedHit],
    view: ViewOptions,
    traces: dict[str, Trace],
) -> MergedAnswer:
    """Pack the hits of a report into one token budget: the best places of all indexes.

    The answer has no hits if no place fits.
    """
    counts = _count_shown(selected)
    sourced_by_index = [
        await pipeline.read_sources(ranked, traces[ranked.record.name], counts[number])
        for number, ranked in enumerate(ranked_answers)
    ]
    answers = tuple(
        make_answer(ranked, sourced.hits, sourced.changed_paths, omitted=0)
        for ranked, sourced in zip(ranked_answers, sourced_by_index, strict=True)
    )
    merged = merge_hits(answers, selected)
    sources = tuple(sourced_by_index[entry.number].sources[entry.rank - 1] for entry in selected)
    packed = await pipeline.pack(SourcedHits(merged, sources), view)
    return MergedAnswer(packed, answers, (), traces, omitted=len(selected) - len(packed))


def _fit_budget(hits: Sequence[Hit], query: Query) -> tuple[Hit, ...]:
    return fit_budget(tuple(hits), query.view.budget_chars, query.view.budget_tokens)


@dataclass(frozen=True, slots=True)
class ListedSymbols:
    """A page of the symbols of several indexes, index after index by name.

    The next page begins after the last of `last_hits`, which is empty at the end of the list.
    """

    answers: tuple[RankedAnswer, ...]
    selected: tuple[SelectedHit, ...]
    last_hits: tuple[Hit, ...] = ()


def select_listed(ranked_answers: Sequence[RankedAnswer], limit: int) -> ListedSymbols:
    """Select the first `limit` symbols. A file below several roots is listed by the nearest one."""
    ordered = sorted(ranked_answers, key=lambda answer: answer.record.name)
    owned = _drop_nested(ordered)
    selected: list[SelectedHit] = []
    for number, (answer, owned_answer) in enumerate(zip(ordered, owned, strict=True)):
        hits = owned_answer.ranked_hits.hits
        room = limit - len(selected)
        selected += [SelectedHit(number, rank) for rank in range(1, min(len(hits), room) + 1)]
        if len(hits) > room:
            last_hit = owned[selected[-1].number].ranked_hits.hits[selected[-1].rank - 1]
            return ListedSymbols(owned, tuple(selected), (last_hit,))
        if answer.ranked_hits.more:
            return ListedSymbols(owned, tuple(selected), answer.ranked_hits.hits[-1:])
    return ListedSymbols(owned, tuple(selected))


def _drop_nested(answers: Sequence[RankedAnswer]) -> tuple[RankedAnswer, ...]:
    """Drop hits that lie below a nearer root, except of files with unsaved text in this index."""
    roots = _slashed_roots(answer.record for answer in answers)
    if not _are_nested(roots):
        return tuple(answers)
    unsaved = _find_unsaved_files(answers, roots)
    hits_by_index: list[list[Hit]] = [[] for _ in roots]
    for hit in _locate_hits(answers, roots):
        nearest = max(
            (number for number, root in enumerate(roots) if hit.path.startswith(root)),
            key=lambda number: len(roots[number]),
        )
        if unsaved.get(hit.path, nearest) == hit.number:
            hits_by_index[hit.number].append(hit.hit)
    return tuple(
        replace(answer, ranked_hits=replace(answer.ranked_hits, hits=tuple(hits)))
        for answer, hits in zip(answers, hits_by_index, strict=True)
    )


def _slashed_roots(records: Iterable[IndexRecord]) -> list[bytes]:
    return [record.location.rstrip(b"/") + b"/" for record in records]


def _are_nested(roots: Sequence[bytes]) -> bool:
    """Return True if one root lies below another."""
    # In sorted order, a nested root comes directly after a root that contains it.
    ordered = sorted(roots)
    return any(root != outer and root.startswith(outer) for outer, root in pairwise(ordered))


async def _expand_selected(
    pipeline: Pipeline,
    ranked_answers: Sequence[RankedAnswer],
    selected: Sequence[SelectedHit],
    traces: Mapping[str, Trace],
) -> tuple[Answer, ...]:
    """Add context to the hits of each index, up to its last selected hit."""
    counts = _count_shown(selected)
    return tuple(
        [
            await pipeline.expand(ranked, traces[ranked.record.name], counts[number])
            if counts[number]
            else make_answer(ranked, (), (), omitted=0)
            for number, ranked in enumerate(ranked_answers)
        ]
    )


def _count_shown(selected: Sequence[SelectedHit]) -> Counter[int]:
    """Return the rank of the last selected hit of each index by its number."""
    counts = Counter[int]()
    for hit in selected:
        counts[hit.number] = max(counts[hit.number], hit.rank)
    return counts


async def _rank_all(
    pipeline: Pipeline,
    records: Sequence[IndexRecord],
    query: Query,
    traces: Mapping[str, Trace],
    overlays: Mapping[str, Overlay],
    own_index: str | None,
) -> tuple[JointRanking, list[Outcome]]:
    """Rank the hits of every index that may add hits. An outcome is an answer or an error."""
    embedding = _SharedEmbedding(pipeline, records[0])
    # A budget is for the merged answer, so it applies only after merging.
    view = replace(query.view, budget_chars=None, budget_tokens=None)
    unlimited = replace(query, view=view)
    joint = await pipeline.begin_joint(
        records,
        unlimited,
        traces,
        embed=embedding.embed,
        overlays=overlays,
        own_index=own_index if _collapses(query) else None,  # otherwise all copies are shown
    )
    compared = _limit(query) * (COMPARED_FACTOR if _collapses(query) else 1)
    # With nested roots, all hits of all indexes count: which index shows a file depends on its rank.
    limit = None if _are_nested(_slashed_roots(records)) else compared
    await joint.rank_scored(limit)
    return joint, await joint.finish(limit)


def _limit(query: Query) -> int:
    """Return the number of results of a query with all defaults."""
    assert query.ranking.limit is not None, "search_several fills it in"
    return query.ranking.limit


def _collapses(query: Query) -> bool:
    return query.ranking.collapse and not query.ranking.all_chunks


class _SharedEmbedding:
    """Embeds a query at most once for all indexes, when the first of them needs the vector."""

    def __init__(self, pipeline: Pipeline, record: IndexRecord) -> None:
        self._embedder = record.identity.embedder
        self._pipeline = pipeline
        self._lock = anyio.Lock()
        self._vectors = dict[str, QueryVector]()

    async def embed(self, text: str, trace: Trace) -> QueryVector:
        async with self._lock:
            if text not in self._vectors:
                self._vectors[text] = await self._pipeline.embed(self._embedder, text, trace)
            return self._vectors[text]


def collapse_hits(
    hits_by_index: Sequence[Sequence[Hit]],
    ordered: Sequence[tuple[int, int]],
    limit: int,
    variant: WantedVariant,
    own_index: str | None = None,
) -> list[SelectedHit]:
    """Select at most `limit` of the ordered hits: one hit of each group of alike hits.

    Of copies in several indexes, the one in `own_index` is selected.
    """

    def text_of(chosen: tuple[int, int]) -> Text:
        hit = hits_by_index[chosen[0]][chosen[1] - 1]
        is_own = own_index in (None, hit.index)
        return Text(hit.path, hit.language, hit.symbol_name, hit.content, is_own)

    selected = []
    for group in group_similar(ordered[: COMPARED_FACTOR * limit], text_of, variant)[:limit]:
        alternates = (hits_by_index[number][rank - 1] for number, rank in group.alternates)
        similar = tuple(path for hit in alternates for path in (hit.path, *hit.similar_paths))
        selected.append(SelectedHit(*group.representative, similar))
    return selected


def merge_hits(answers: Sequence[Answer], selected: Sequence[SelectedHit]) -> tuple[Hit, ...]:
    """Return the selected hits that are in their answers, scored by relevance.

    The signal `own_score` keeps the score that a hit has in its own index.
    """
    hits = [
        (answers[entry.number].hits[entry.rank - 1], entry.similar_paths)
        for entry in selected
        if entry.rank <= len(answers[entry.number].hits)
    ]
    return tuple(
        replace(
            hit,
            score=hit.relevance,
            signals=(("own_score", hit.score), *hit.signals),
            similar_paths=(*hit.similar_paths, *similar_paths),
        )
        for hit, similar_paths in hits
    )


@dataclass(frozen=True, slots=True)
class _LocatedHit:
    """A hit with the number of its index, its rank there, and the absolute path of its file."""

    hit: Hit
    number: int
    rank: int
    path: bytes

    def identity(self, all_chunks: bool) -> tuple[bytes, int]:
        return self.path, self.hit.start_byte if all_chunks else 0


def _deduplicate(answers: Sequence[RankedAnswer], all_chunks: bool) -> list[RankedAnswer]:
    """Drop duplicate hits of a file that is in several indexes.

    A file below several roots belongs to the index with the nearest root. A file with unsaved text
    belongs to the index whose overlay has it; the others have the text on disk.
    """
    roots = _slashed_roots(answer.record for answer in answers)
    if not _are_nested(roots):
        return list(answers)  # unchanged tuples, because expansions are cached by identity
    unsaved = _find_unsaved_files(answers, roots)
    hits = [
        hit
        for hit in _locate_hits(answers, roots)
        if unsaved.get(hit.path, hit.number) == hit.number
    ]
    hits_by_index = _assign_hits(hits, roots, all_chunks)
    return [
        replace(
            answer,
            # the relevances of an earlier answer to a joint question are those of all its hits
            ranked_hits=replace(answer.ranked_hits, hits=tuple(hits_of_index), relevances=None),
        )
        for answer, hits_of_index in zip(answers, hits_by_index, strict=True)
    ]


def _assign_hits(
    hits: Sequence[_LocatedHit], roots: Sequence[bytes], all_chunks: bool
) -> list[list[Hit]]:
    """Assign each hit to the index that ranks it best; for equal ranks, to the nearest root."""
    owners = dict[tuple[bytes, int], int]()
    for hit in sorted(hits, key=lambda hit: (hit.rank, -len(roots[hit.number]))):
        owners.setdefault(hit.identity(all_chunks), hit.number)
    hits_by_index: list[list[Hit]] = [[] for _ in roots]
    for hit in hits:
        if owners[hit.identity(all_chunks)] == hit.number:
            hits_by_index[hit.number].append(hit.hit)
    return hits_by_index


def _find_unsaved_files(
    answers: Sequence[RankedAnswer], roots: Sequence[bytes]
) -> dict[bytes, int]:
    """Map the absolute paths of unsaved files to the index with the nearest root."""
    outer_first = sorted(enumerate(answers), key=lambda entry: len(roots[entry[0]]))
    return {
        roots[number] + path_bytes(path): number
        for number, answer in outer_first
        if answer.overlay
        for path in answer.overlay.files
    }


def _locate_hits(answers: Sequence[RankedAnswer], roots: Sequence[bytes]) -> Iterator[_LocatedHit]:
    for number, answer in enumerate(answers):
        for rank, hit in enumerate(answer.ranked_hits.hits):
            yield _LocatedHit(hit, number, rank, roots[number] + path_bytes(hit.path))


def check_same_embedder(records: Sequence[IndexRecord]) -> None:
    """Raise `IdentityMismatch`, which names both sides, if the indexes have different embedders.

    Vectors of different embedders cannot be compared with one query vector.
    """
    for record in records[1:]:
        if record.identity.embedder != records[0].identity.embedder:
            first, second = (_model_name(member) for member in (records[0], record))
            raise IdentityMismatch(
                f"indexes {records[0].name} and {record.name} have different embedders: "
                f"{first} and {second}",
                "search them one by one, or reindex one with the embedder of the other",
            )


def _model_name(record: IndexRecord) -> str:
    pairs = dict(record.identity.embedder)
    return f"{pairs.get('provider', '?')}/{pairs.get('model', '?')} ({record.dimension}-d)"
