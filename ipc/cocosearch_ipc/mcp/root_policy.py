"""Which directories an assistant may have indexed. The command line is the user's own word, and not
limited by it.

An assistant reads content of files, whose authors may tell it to index a directory with secrets and
to search there.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from cocosearch_ipc.protocol import REFUSED, Failure

# Of the system: configuration, the kernel's own files, and its devices.
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
# Below a home directory: keys, tokens and cookies, by the documentation of the programs that keep
# them there.
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
    """Directories below `allowed` may be indexed, but none that is, holds, or lies in one that is
    never indexed.

    `allowed` are absolute, or begin with `~`; `home` is the user's; `own` are the daemon's own
    directories.
    """

    allowed: tuple[str, ...]
    home: str
    own: tuple[str, ...] = ()

    def resolve(self, path: str, near: Iterable[str] = ()) -> str:
        """The real path of a directory that may be indexed. Raises `Failure` (REFUSED) with what a
        person can do.

        `near` are directories of which the user has said, by starting a program there, that work
        goes on in them. Looks at the disk, which may hang.
        """
        place = real_path(path)
        reason = self._never(place)
        if reason is None and not self._is_allowed(place, near):
            below = ", ".join(self.allowed) or "no directory"
            reason = f"only directories below {below} may be (server.allowed_roots)"
        if reason is None:
            return place
        hint = "ask the user to run `cocosearchctl up DIRECTORY`, or to extend server.allowed_roots"
        raise Failure(f"{path} is not indexed at an assistant's word: {reason}", hint, code=REFUSED)

    def _is_allowed(self, place: str, near: Iterable[str]) -> bool:
        named = [real_path(self._expanded(root)) for root in self.allowed]
        grounds = [
            *named,
            *(ground for ground in map(real_path, near) if self._never(ground) is None),
        ]
        return any(_is_within(place, ground) for ground in grounds)

    def _never(self, place: str) -> str | None:
        """The reason why a directory is never indexed here; None for any other."""
        if any(_is_within(place, system) for system in SYSTEM):
            return "it is one of the system's"
        if _is_within(self.home, place) or _is_within(real_path(self.home), place):
            return "it holds the whole home directory"
        secrets = [f"{self.home}/{name}" for name in SECRETS]
        for secret in map(real_path, (*secrets, *self.own)):
            if _is_within(place, secret) or _is_within(secret, place):
                return f"it holds or lies in {secret}"
        return None

    def _expanded(self, root: str) -> str:
        return self.home + root[1:] if root == "~" or root.startswith("~/") else root


def real_path(path: str) -> str:
    """`path` without links, `.` and `..`."""
    return os.path.realpath(path)


def _is_within(place: str, directory: str) -> bool:
    """Whether `place` is `directory` or below it. Case is ignored: some file systems do."""
    return PurePosixPath(place.casefold()).is_relative_to(directory.casefold())
