"""The base of all errors that a person can act on.

Worker processes and quick clients raise or catch it without loading the dataclasses of `protocol`.
"""

from cocosearch_ipc.error_codes import INTERNAL_ERROR


class Failure(Exception):
    """An error that a person can act on: one sentence, a hint, and a stable code."""

    code = INTERNAL_ERROR

    def __init__(self, message: str, hint: str = "", *, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code
