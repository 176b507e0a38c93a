"""The bearer token of the TCP listener: one random text in a file that only its owner can read.

The file is read again after a change, so a rotation needs no restart. Before a client sends the token
to a port, it asks for a `PortProof`. Otherwise another program on that port could receive the token.
"""

import contextlib
import errno
import hmac
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from cocosearch_ipc.error_codes import REFUSED
from cocosearch_ipc.failure import Failure

# Headers of a request to /healthz, and of its response.
CHALLENGE = "X-Cocosearch-Challenge"
CHALLENGED_PORT = "X-Cocosearch-Port"
PROOF = "X-Cocosearch-Proof"
MAX_CHALLENGE_BYTES = 128
_MIN_CHARS = 16
_MAX_BYTES = 4096


class PortProof:
    """Proves over TCP that the daemon of the Unix socket listens on a port.

    Both listeners answer a challenge with an HMAC (RFC 2104) under a key that never leaves the
    process. The answer includes the port that received the challenge, so that no other program can
    relay an answer from another port.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def answer(self, challenge: bytes, port: int) -> str:
        """Return the answer to a challenge that arrived on `port`, in hexadecimal digits."""
        return hmac.new(self._key, b"%d:" % port + challenge, "sha256").hexdigest()


class TokenFile:
    """A token in the file `path`, mode 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._token = b""
        self._version = (0, 0, 0)

    def ensure(self) -> str:
        """Return the token; create it if there is none.

        Raises `Failure` if other users can read the file.
        """
        if not os.path.lexists(self.path):
            self.rotate()
        return self._read().decode()

    def rotate(self) -> str:
        """Replace the token and return the new one. The old one becomes invalid at once.

        Raises `OSError` if the file cannot be written; the old token stays valid then.
        """
        token = secrets.token_urlsafe(32)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(token + "\n")
            fresh.replace(self.path)
        except OSError as error:  # e.g. a full disk; its error names no file
            fresh.unlink(missing_ok=True)
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        return token

    def accepts(self, presented: bytes) -> bool:
        """Compare `presented` with the token, in constant time for a given length."""
        try:
            return hmac.compare_digest(presented, self._read())
        except (OSError, Failure):
            return False

    def _read(self) -> bytes:
        """Return the token; read the file if it has changed. Raises `Failure`, also for a link."""
        with self._open_file() as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise self._untrusted_error()
            if status.st_mode & 0o077:
                raise Failure(
                    f"others can read the token file {self.path}",
                    f"chmod 600 {self.path}",
                    code=REFUSED,
                )
            version = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            if version != self._version:
                token = os.read(descriptor, _MAX_BYTES).strip()
                if len(token) < _MIN_CHARS or not token.isascii():
                    raise Failure(
                        f"the token file {self.path} is empty or too short",
                        "delete it",
                        code=REFUSED,
                    )
                self._token = token
                self._version = version
        return self._token

    @contextlib.contextmanager
    def _open_file(self) -> Iterator[int]:
        """Open the file once, so that the checks apply to the content that is read.

        Neither a link nor a FIFO can block the open.
        """
        try:
            descriptor = os.open(
                self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EACCES):
                raise self._untrusted_error() from None
            raise
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _untrusted_error(self) -> Failure:
        message = f"the token file {self.path} is not a regular file of yours"
        return Failure(message, "remove it, then `cocosearchctl token --rotate`", code=REFUSED)
