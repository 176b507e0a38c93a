"""One question to several indexes: embedded once, searched side by side, merged by rank, and only
then widened.

Scores of different indexes are of different scales (their words, sizes and cosines differ), so
ranks are merged. What is comparable, the relevance, says which hits of one rank come first.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import anyio

from cocosearchd.errors import CocoSearchError, IdentityMismatch
from cocosearchd.model import Hit, IndexRecord, decode_path
from cocosearchd.search.answers.context import fit_budget
from cocosearchd.search.code.file_masks import NO_FILE
from cocosearchd.search.overlay import Overlay
from cocosearchd.search.pipeline import Answer, Pipeline, QueryVector, RankedAnswer
from cocosearchd.search.plan import Query, parse_inline
from cocosearchd.search.ranking import RRF_K
from cocosearchd.search.trace import Trace


@dataclass(frozen=True, slots=True)
class FailedIndex:
    """An index that gave no answer, and why."""

    index: str
    error: CocoSearchError

    @property
    def warning(self) -> str:
        """What is said of it beside the hits of the others."""
        return f"{self.index}: not searched: {self.error.message}"


@dataclass(frozen=True, slots=True)
class MergedAnswer:
    """Hits of all indexes in one order. `answers` are the single ones, each with those of its hits
    that are shown.
    """

    hits: tuple[Hit, ...]
    answers: tuple[Answer, ...]
    failed: tuple[FailedIndex, ...]
    traces: dict[str, Trace]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know, each with the index it is about.

        That a filter leaves nothing of one index is no news where others have hits.
        """
        said = (
            f"{answer.index}: {note}"
            for answer in self.answers
            for note in answer.warnings
            if not (self.hits and note.startswith(NO_FILE))
        )
        return (*said, *(failed.warning for failed in self.failed))

    @property
    def incomplete_reason(self) -> str | None:
        """Why the answer does not show all that was asked for, None where it does."""
        return "; ".join(failed.warning for failed in self.failed) or None


async def search_several(
    pipeline: Pipeline,
    records: Sequence[IndexRecord],
    query: Query,
    *,
    explain: bool = False,
    overlays: Mapping[str, Overlay] | None = None,
) -> MergedAnswer:
    """Ask every index, each with the overlay of its name. One that fails is reported beside the
    answers of the others.

    Raises `IdentityMismatch` when the indexes were made by different embedders, and the first error
    if all fail.
    """
    check_same_embedder(records)
    once = _SharedEmbedding(pipeline, records[0])
    # A budget is for the whole answer, so it is applied after merging.
    unlimited = replace(query, budget_chars=None, budget_tokens=None)
    outcomes: list[RankedAnswer | CocoSearchError | None] = [None] * len(records)
    traces = {record.name: Trace(explain=explain) for record in records}

    async def ask(place: int, record: IndexRecord) -> None:
        try:
            trace = traces[record.name]
            overlay = (overlays or {}).get(record.name)
            outcomes[place] = await pipeline.rank(
                record, unlimited, trace, embed=once.embed, overlay=overlay
            )
        except CocoSearchError as error:
            outcomes[place] = error

    async with anyio.create_task_group() as tasks:
        for place, record in enumerate(records):
            tasks.start_soon(ask, place, record)
    findings = [outcome for outcome in outcomes if isinstance(outcome, RankedAnswer)]
    failed = tuple(
        FailedIndex(record.name, outcome)
        for record, outcome in zip(records, outcomes, strict=True)
        if isinstance(outcome, CocoSearchError)
    )
    if failed and not findings:
        raise failed[0].error
    findings = _deduplicate(findings, query.all_chunks)
    name = not any(map(str.isspace, parse_inline(query.text).words))
    taken = order_hits(
        [finding.ranking.hits for finding in findings], pipeline.effective_limit(query), name=name
    )
    shown = Counter(place for place, _ in taken)
    answers = tuple(
        [
            await pipeline.expand(finding, traces[finding.record.name], shown[place])
            for place, finding in enumerate(findings)
        ]
    )
    return MergedAnswer(
        fit_budget(merge_hits(answers, taken), query.budget_chars, query.budget_tokens),
        answers,
        failed,
        traces,
    )


class _SharedEmbedding:
    """Embeds for all indexes together, and only if one of them has to be searched."""

    def __init__(self, pipeline: Pipeline, record: IndexRecord) -> None:
        self._made_by = record.identity.embedder
        self._pipeline = pipeline
        self._lock = anyio.Lock()
        self._done = dict[str, QueryVector]()

    async def embed(self, text: str, trace: Trace) -> QueryVector:
        async with self._lock:
            if text not in self._done:
                self._done[text] = await self._pipeline.embed(self._made_by, text, trace)
            return self._done[text]


def order_hits(found: Sequence[Sequence[Hit]], limit: int, *, name: bool) -> list[tuple[int, int]]:
    """Which hits of the indexes are shown, in their order: the place of the index, and the rank
    there, from 1.

    The first of every index, then the second of every index, and so on; of one rank the most
    relevant first. Of a `name` those come before that are not behind the last with every word of
    it: in most indexes it is not there, and what they have is like it at best.
    """
    named = [
        max((rank for rank, hit in enumerate(hits, 1) if _relevance(hit) >= 1), default=0)
        for hits in found
    ]
    every = [
        (name and rank > named[place], rank, -_relevance(hit), place)
        for place, hits in enumerate(found)
        for rank, hit in enumerate(hits, 1)
    ]
    return [(place, rank) for _, rank, _, place in sorted(every)[:limit]]


def _relevance(hit: Hit) -> float:
    return dict(hit.scores).get("relevance", 0.0)


def merge_hits(answers: Sequence[Answer], taken: Sequence[tuple[int, int]]) -> tuple[Hit, ...]:
    """The hits that are taken, as `order_hits` says.

    A merged hit's score is 1 / (60 + rank in its own index); its own score is kept among `scores`.
    """
    hits = [(rank, answers[place].hits[rank - 1]) for place, rank in taken]
    return tuple(
        replace(hit, score=1 / (RRF_K + rank), scores=(("own_score", hit.score), *hit.scores))
        for rank, hit in hits
    )


def _deduplicate(findings: Sequence[RankedAnswer], all_chunks: bool) -> list[RankedAnswer]:
    """Without what another index has found as well: a file below several roots is one, best said by
    the nearest one.

    Of a file that is not saved the index speaks that holds the text; what others have of it is what
    is on disk.
    """
    roots = [finding.record.root.rstrip(b"/") + b"/" for finding in findings]
    if not any(one is not other and one.startswith(other) for one in roots for other in roots):
        return list(findings)  # the very same hits: what was shown of them is remembered

    def place(number: int, path: str) -> bytes:
        return roots[number] + decode_path(path)

    def file(number: int, hit: Hit) -> tuple[bytes, int]:
        return place(number, hit.path), hit.start_byte if all_chunks else 0

    outer_first = sorted(enumerate(findings), key=lambda one: len(roots[one[0]]))
    unsaved = {
        place(n, path): n for n, each in outer_first if each.overlay for path in each.overlay.files
    }
    every = [
        (rank, n, hit)
        for n, each in enumerate(findings)
        for rank, hit in enumerate(each.ranking.hits)
        if unsaved.get(place(n, hit.path), n) == n
    ]
    told = dict[tuple[bytes, int], int]()
    for _, number, hit in sorted(every, key=lambda one: (one[0], -len(roots[one[1]]))):
        told.setdefault(file(number, hit), number)
    return [
        replace(
            each,
            ranking=replace(
                each.ranking, hits=tuple(h for _, m, h in every if m == n and told[file(n, h)] == n)
            ),
        )
        for n, each in enumerate(findings)
    ]


def check_same_embedder(records: Sequence[IndexRecord]) -> None:
    """Raises `IdentityMismatch` naming both sides when a single vector cannot be compared with all
    indexes.
    """
    for record in records[1:]:
        if record.identity.embedder != records[0].identity.embedder:
            one, other = (_model_name(each) for each in (records[0], record))
            raise IdentityMismatch(
                f"indexes {records[0].name} and {record.name} have different embedders: {one} and {other}",
                "search them one by one, or reindex one with the embedder of the other",
            )


def _model_name(record: IndexRecord) -> str:
    made = dict(record.identity.embedder)
    return f"{made.get('provider', '?')}/{made.get('model', '?')} ({record.dimension}-d)"
