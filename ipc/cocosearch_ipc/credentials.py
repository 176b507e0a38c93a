"""The bearer token of the loopback listener: one random text in a file that only its owner can read.

The file is read again when it has changed, so a rotation needs no restart.
"""

import hmac
import os
import secrets
import stat
from pathlib import Path

from cocosearch_ipc.protocol import REFUSED, Failure

_MIN_CHARS = 16


class TokenFile:
    """A token kept in `path`, mode 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._token, self._version = b"", (0, 0)

    def ensure(self) -> str:
        """The token; made if there is none. Raises `Failure` when others can read the file."""
        if not self.path.exists():
            self.rotate()
        return self._read().decode()

    def rotate(self) -> str:
        """A new token in place of the old one, which is refused from now on."""
        token = secrets.token_urlsafe(32)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(token + "\n")
        fresh.replace(self.path)
        return token

    def accepts(self, presented: bytes) -> bool:
        """Whether `presented` is the token of now; takes the same time for every wrong one of its length."""
        try:
            return hmac.compare_digest(presented, self._read())
        except (OSError, Failure):
            return False

    def _read(self) -> bytes:
        found = self.path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise Failure(f"others can read the token file {self.path}", f"chmod 600 {self.path}", code=REFUSED)
        version = (found.st_mtime_ns, found.st_ino)
        if version != self._version:
            token = self.path.read_bytes().strip()
            if len(token) < _MIN_CHARS:
                raise Failure(f"the token file {self.path} is empty or too short", "delete it", code=REFUSED)
            self._token, self._version = token, version
        return self._token
