"""Decides which directories assistants may have indexed. The command line is not limited by it.

An assistant reads file content, whose authors may tell it to index a directory with secrets and to
search there.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from cocosearch_ipc.error_codes import REFUSED
from cocosearch_ipc.failure import Failure

# System directories: configuration, files of the kernel, devices.
SYSTEM = (
    "/etc",
    "/proc",
    "/sys",
    "/dev",
    "/boot",
    "/run",
    "/private/etc",
    "/private/var/run",
    "/System",
)
# Directories of keys, tokens and cookies below a home directory, from the documentation of the
# programs that store them there.
SECRETS = (
    ".aws",
    ".azure",
    ".cargo/credentials",
    ".claude",
    ".codex",
    ".config/chromium",
    ".config/cocosearch",
    ".config/gcloud",
    ".config/gh",
    ".config/google-chrome",
    ".config/op",
    ".config/rclone",
    ".docker",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".mozilla",
    ".oci",
    ".password-store",
    ".pki",
    ".ssh",
    ".terraform.d",
    ".thunderbird",
    "Library/Application Support",
    "Library/Keychains",
)


@dataclass(frozen=True, slots=True)
class RootPolicy:
    """Allows directories below `allowed`, unless they contain or lie in a forbidden directory.

    `allowed` are absolute or begin with `~`; `home` is the user's home; `own` are directories of
    the daemon.
    """

    allowed: tuple[str, ...]
    home: str
    own: tuple[str, ...] = ()

    def resolve(self, path: str, near: Iterable[str] = ()) -> str:
        """Return the real path of an allowed directory. Raises `Failure` (REFUSED) with a fix.

        `near` are directories where the user has started the client's program, which allows them
        too. Reads the disk, which may hang.
        """
        real = real_path(path)
        reason = self._never(real)
        if reason is None and not self._is_allowed(real, near):
            limits = ", ".join(self.allowed) or "no directory"
            reason = f"only directories below {limits} are allowed (server.allowed_roots)"
        if reason is None:
            return real
        hint = "ask the user to run `cocosearchctl up DIRECTORY`, or to extend server.allowed_roots"
        raise Failure(f"an assistant may not index {path}: {reason}", hint, code=REFUSED)

    def _is_allowed(self, directory: str, near: Iterable[str]) -> bool:
        allowed_roots = [real_path(self._expanded(root)) for root in self.allowed]
        grounds = [
            *allowed_roots,
            *(ground for ground in map(real_path, near) if self._never(ground) is None),
        ]
        return any(_is_within(directory, ground) for ground in grounds)

    def _never(self, directory: str) -> str | None:
        """Return the reason why a directory is never allowed, or None."""
        if any(_is_within(directory, system) for system in SYSTEM):
            return "it is a system directory"
        if _is_within(self.home, directory) or _is_within(real_path(self.home), directory):
            return "it contains the whole home directory"
        secrets = [f"{self.home}/{name}" for name in SECRETS]
        for secret in map(real_path, (*secrets, *self.own)):
            if _is_within(directory, secret) or _is_within(secret, directory):
                return f"it contains or lies in {secret}"
        return None

    def _expanded(self, root: str) -> str:
        return self.home + root[1:] if root == "~" or root.startswith("~/") else root


def real_path(path: str) -> str:
    """Return `path` without links, `.` and `..`."""
    return os.path.realpath(path)


def _is_within(path: str, directory: str) -> bool:
    """Return whether `path` is `directory` or below it, ignoring case, as some file systems do."""
    return PurePosixPath(path.casefold()).is_relative_to(directory.casefold())
