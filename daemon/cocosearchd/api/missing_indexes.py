"""Indexes that a question to all indexes leaves out, with what to do."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from cocosearch_ipc import protocol as p
from cocosearch_ipc import workspace_protocol as w
from cocosearchd.errors import IdentityMismatch
from cocosearchd.freshness import stale_reason
from cocosearchd.indexes.lookup import IndexLookup
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.search.answers.multi_index import FailedIndex
from cocosearchd.search.joint.index_sentences import group_sentences

_Reply = TypeVar("_Reply", p.SearchReply, w.GrepReply)


@dataclass(frozen=True, slots=True)
class MissingIndexes:
    """Sentences about the indexes that are left out, and notes: the same with hints."""

    sentences: tuple[str, ...]
    notes: tuple[str, ...]

    def mark(self, reply: _Reply) -> _Reply:
        """Return a reply that says which indexes it lacks; it is not fresh if it lacks some."""
        if not self.sentences:
            return reply
        reason = stale_reason("index_unavailable", error="; ".join(self.sentences))
        return replace(
            reply,
            fresh=False,
            stale_reason=reply.stale_reason or reason.sentence,
            stale_code=reply.stale_code or reason.code,
            notes=(*reply.notes, *self.notes),
        )


def find_missing_indexes(lookup: IndexLookup, *, needs_vectors: bool) -> MissingIndexes:
    """Return the indexes that cannot be searched.

    With `needs_vectors`, these are also followed indexes whose vectors cannot be compared.
    """
    failed = [
        FailedIndex(index.record.name, index.error)
        for index in lookup.all()
        if index.error is not None
    ]
    if needs_vectors:
        failed += [
            FailedIndex(index.record.name, _apart_error(index))
            for index in lookup.other_embedder_indexes()
        ]
    return MissingIndexes(
        group_sentences(failure.sentence for failure in failed),
        group_sentences(_sentences_with_hints(failed)),
    )


def _sentences_with_hints(failed: list[FailedIndex]) -> Iterator[tuple[str, str]]:
    hints = dict[str, str]()  # of equal sentences, that of the first index
    for failure in failed:
        hints.setdefault(failure.error.message, failure.error.hint)
    for failure in failed:
        name, sentence = failure.sentence
        yield name, f"{sentence}: {hints[failure.error.message]}"


def _apart_error(index: RunningIndex) -> IdentityMismatch:
    return IdentityMismatch(
        f"its embedder is {index.record.identity.model}, unlike that of the others",
        f"search it by its name, {index.record.name}",
    )
