"""Errors of the daemon: one base and few subclasses, each with its JSON-RPC code.

Driver errors are translated to these where the driver is used. The first argument is one sentence;
the hint says what to do next.
"""

from cocosearch_ipc import protocol

# a code for any of these errors: the work is possible, but not within the time limit
TIMED_OUT = protocol.TIMED_OUT


class CocoSearchError(protocol.Failure):
    """The base of every error this project raises on purpose."""

    unresponsive = False  # True: the server exists and did not answer in time


class NotFound(CocoSearchError):
    """No index, file or directory has the name."""

    code = protocol.NOT_FOUND


class Conflict(CocoSearchError):
    """The name, the root or the state directory is in use already."""

    code = protocol.CONFLICT


class Refused(CocoSearchError):
    """A request that is understood and not allowed."""

    code = protocol.REFUSED


class InvalidInput(CocoSearchError):
    """A value outside of its documented range; the hint names the nearest valid one, if any."""

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


class StoreUnresponsive(StoreUnavailable):
    """PostgreSQL runs but does not answer: it, its disk or the network is frozen."""

    unresponsive = True


class EmbedderUnresponsive(EmbedderUnavailable):
    """The model server runs but has not answered in time."""

    unresponsive = True


class IdentityMismatch(CocoSearchError):
    """An index was built with another embedder, chunker or header than the configured one."""

    code = protocol.MISMATCH
