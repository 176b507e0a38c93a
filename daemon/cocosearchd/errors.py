"""Errors of the daemon: one base and few subclasses, each with its JSON-RPC code.

Driver errors are translated to these where the driver is used. The first argument is one sentence;
the hint says what to do next.
"""

from cocosearch_ipc import error_codes
from cocosearch_ipc.failure import Failure

# a code for any of these errors: the work is possible, but not within the time limit
TIMED_OUT = error_codes.TIMED_OUT


class CocoSearchError(Failure):
    """The base of every error this project raises on purpose."""

    unresponsive = False  # True: the server exists and did not answer in time


class NotFound(CocoSearchError):
    """No index, file or directory has the name."""

    code = error_codes.NOT_FOUND


class Conflict(CocoSearchError):
    """The name, the root or the state directory is in use already."""

    code = error_codes.CONFLICT


class Refused(CocoSearchError):
    """A request that is valid but not allowed."""

    code = error_codes.REFUSED


class InvalidInput(CocoSearchError):
    """A value outside of its documented range; the hint names the nearest valid one, if any."""

    code = error_codes.INVALID_PARAMS


class BadSettings(CocoSearchError):
    """A setting that cannot be used. The daemon exits with 78 (EX_CONFIG)."""

    code = error_codes.INVALID_PARAMS


class StoreUnavailable(CocoSearchError):
    """PostgreSQL does not answer, or cannot be used."""

    code = error_codes.UNAVAILABLE


class EmbedderUnavailable(CocoSearchError):
    """The embedder does not answer or lacks its model. Indexing waits; words are still found."""

    code = error_codes.UNAVAILABLE


class NotStarted(CocoSearchError):
    """One index could not be started; the others run, and the start is tried again."""

    code = error_codes.UNAVAILABLE


class StoreUnresponsive(StoreUnavailable):
    """PostgreSQL runs but does not answer: the server, its disk or the network is frozen."""

    unresponsive = True


class EmbedderUnresponsive(EmbedderUnavailable):
    """The model server runs but has not answered in time."""

    unresponsive = True


class IdentityMismatch(CocoSearchError):
    """An index was built with another embedder, chunker or header than the configured one."""

    code = error_codes.MISMATCH
