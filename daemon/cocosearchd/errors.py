"""What can go wrong, for people. One base, few children, each with the JSON-RPC code its callers
see.

Driver errors are turned into these once, at the edge where the driver is used. The first argument
is one sentence; the hint says what to do next.
"""

from cocosearch_ipc import protocol

# a code for any of these: the work is possible, but not in the time given
TIMED_OUT = protocol.TIMED_OUT


class CocoSearchError(protocol.Failure):
    """The base of every error this project raises on purpose."""

    silent = False  # whether what was asked is there and did not answer in time


class NotFound(CocoSearchError):
    """A name that nothing has: an index, a file, a directory."""

    code = protocol.NOT_FOUND


class Conflict(CocoSearchError):
    """Something else already holds the name, the root or the state directory."""

    code = protocol.CONFLICT


class Refused(CocoSearchError):
    """A request that is understood and not allowed."""

    code = protocol.REFUSED


class InvalidInput(CocoSearchError):
    """A value outside of what is documented; the hint names the nearest valid one where there is
    one.
    """

    code = protocol.INVALID_PARAMS


class BadSettings(CocoSearchError):
    """A setting that cannot be used. The daemon exits with 78 (EX_CONFIG)."""

    code = protocol.INVALID_PARAMS


class StoreUnavailable(CocoSearchError):
    """PostgreSQL does not answer, or is not one that can be used."""

    code = protocol.UNAVAILABLE


class EmbedderUnavailable(CocoSearchError):
    """The embedder does not answer or lacks its model. Indexing waits; words are still found."""

    code = protocol.UNAVAILABLE


class NotStarted(CocoSearchError):
    """One index could not be started; the others run, and it is tried again."""

    code = protocol.UNAVAILABLE


class StoreSilent(StoreUnavailable):
    """PostgreSQL is there and says nothing: it is frozen, or so is its disk or the network."""

    silent = True


class EmbedderSilent(EmbedderUnavailable):
    """The model server is there and has not answered in time."""

    silent = True


class IdentityMismatch(CocoSearchError):
    """An index was built with another embedder, chunker or header than the configured one."""

    code = protocol.MISMATCH
