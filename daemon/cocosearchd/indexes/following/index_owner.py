"""The owner of a followed index: the daemon that sees the disk, and is asked if the rows equal it."""

import time

import anyio

from cocosearchd.errors import Refused
from cocosearchd.freshness import StaleReason, stale_reason
from cocosearchd.model import IndexRecord
from cocosearchd.runtime.coalesced_calls import CoalescedCalls
from cocosearchd.store.connection.database import Database
from cocosearchd.store.following.publications import OwnerChannel, Publication, read_publication

# The pauses between reads of the answer grow: an idle owner answers within a few milliseconds.
FIRST_PAUSE_S = 0.002
LAST_PAUSE_S = 0.05
GROWTH = 1.3
# An owner that has not answered after this time may have ended: its lock shows that.
OWNER_CHECK_S = 0.1
# A living owner answers within `publisher.SYNC_S`, if only with the reason why it is behind. An owner
# that is just starting has not heard the question, and is asked again.
ANSWER_S = 1.5


class IndexOwner:
    """Asks the owner of one index. `host` follows what the registry says."""

    def __init__(self, db: Database, record: IndexRecord, channel: OwnerChannel, host: str) -> None:
        self._db = db
        self._record = record
        self._channel = channel
        self.host = host
        self.is_running = True  # as of the last question
        self._questions = CoalescedCalls(self._ask)
        self._clean_at: float | None = None  # by the monotonic clock of this daemon

    @property
    def description(self) -> str:
        """The daemon and its host, for sentences."""
        host = self.host or "an unknown host"
        return f"the daemon of schema {self._record.schema} on {host}"

    def refusal(self) -> Refused:
        """Make the error for a request that only the owner can fulfil."""
        return Refused(
            f"{self._record.name} belongs to {self.description}, and is only read here",
            "ask that daemon",
        )

    def note(self, publication: Publication | None) -> None:
        """Remember what the owner published."""
        if publication is not None and publication.clean_age_s is not None:
            self._clean_at = time.monotonic() - publication.clean_age_s

    async def ask(self) -> Publication | None:
        """Ask whether the rows equal the disk, as of a moment after this call; None: no answer.

        Raises `StoreUnavailable`.
        """
        return await self._questions.run()

    async def _ask(self) -> Publication | None:
        question = await self._channel.ask(self._db, self._record)
        began = anyio.current_time()
        pause_s = FIRST_PAUSE_S
        is_checked = False
        while (waited_s := anyio.current_time() - began) < ANSWER_S:
            await anyio.sleep(pause_s)
            pause_s = min(GROWTH * pause_s, LAST_PAUSE_S)
            publication = await read_publication(self._db, self._record)
            if publication is not None and question.is_before(publication.begun):
                self.note(publication)
                self.is_running = True
                return publication
            if waited_s > OWNER_CHECK_S and not is_checked:
                is_checked = True
                self.is_running = await self._channel.is_owned(self._db)
                if not self.is_running:
                    return None
        return None

    def silence(self) -> StaleReason:
        """Say that the owner has not answered."""
        return stale_reason("owner_silent", owner=self.description, clean=self.clean_text)

    def not_asked(self) -> StaleReason:
        """Say that the owner was not asked."""
        return stale_reason("owner_not_asked", owner=self.description, clean=self.clean_text)

    def behind(self, publication: Publication) -> StaleReason:
        """Say why the owner's rows may differ from its disk."""
        return stale_reason("owner_behind", owner=self.description, reason=publication.stale_reason)

    @property
    def clean_text(self) -> str:
        """When the rows were last known to equal the disk, for sentences."""
        if self._clean_at is None:
            return "its rows were never known here to be as its disk"
        seconds = max(0.0, time.monotonic() - self._clean_at)
        return f"its rows were as its disk {_describe_age(seconds)} ago"


def _describe_age(seconds: float) -> str:
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
