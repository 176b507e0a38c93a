"""Decides which directories assistants may index. It does not limit the command line.

An assistant reads file content. The author of that content may tell it to index a directory with
secrets and to search there.
"""

import os
import sys
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
    "snap/bitwarden",
    "snap/brave",
    "snap/chromium",
    "snap/firefox",
    "snap/thunderbird",
    # on other systems, this is an ordinary name, also in lower case
    *(("Library",) if sys.platform == "darwin" else ()),
)


@dataclass(frozen=True, slots=True)
class RootPolicy:
    """Allows directories below `allowed`, unless they contain or lie in a forbidden directory.

    Programs keep secrets in hidden directories, and no list of their names can be complete. So a
    hidden directory must be in `allowed` itself: `~` does not allow `~/.config/nvim`.

    `allowed` are absolute or begin with `~`; `home` is the user's home. No directory
    of the daemon is allowed.
    """

    allowed: tuple[str, ...]
    home: str
    daemon_directories: tuple[str, ...] = ()

    def resolve(self, path: str, near: Iterable[str] = ()) -> str:
        """Return the real path of an allowed directory. Raises `Failure` (REFUSED) with a fix.

        `near` are directories where the user has started the client's program. They are allowed
        too. This reads the disk, which may hang.
        """
        real = os.path.realpath(path)
        reason = self._reason_never_allowed(real)
        if reason is None and not self._is_near(real, near):
            reason = self._reason_not_allowed(real)
        if reason is None:
            return real
        hint = "ask the user to run `cocosearchctl up DIRECTORY`, or to extend server.allowed_roots"
        raise Failure(f"an assistant may not index {path}: {reason}", hint, code=REFUSED)

    def _is_near(self, directory: str, near: Iterable[str]) -> bool:
        near_roots = (
            root for root in map(os.path.realpath, near) if self._reason_never_allowed(root) is None
        )
        return any(_is_within(directory, root) for root in near_roots)

    def _reason_not_allowed(self, directory: str) -> str | None:
        """Return the reason why no setting allows a directory, or None."""
        allowed_roots = [os.path.realpath(self._expand_home(root)) for root in self.allowed]
        around = [root for root in allowed_roots if _is_within(directory, root)]
        if not around:
            limits = ", ".join(self.allowed) or "no directory"
            return f"only directories below {limits} are allowed (server.allowed_roots)"
        if all(_is_hidden(directory, root) for root in around):
            return "it is or lies in a hidden directory, where programs keep secrets"
        return None

    def _reason_never_allowed(self, directory: str) -> str | None:
        """Return the reason why a directory is never allowed, or None."""
        if any(_is_within(directory, system) for system in SYSTEM):
            return "it is a system directory"
        if _is_within(self.home, directory) or _is_within(os.path.realpath(self.home), directory):
            return "it contains the whole home directory"
        secrets = [f"{self.home}/{name}" for name in SECRETS]
        for secret in map(os.path.realpath, (*secrets, *self.daemon_directories)):
            if _is_within(directory, secret) or _is_within(secret, directory):
                return f"it contains or lies in {secret}"
        return None

    def _expand_home(self, root: str) -> str:
        return self.home + root[1:] if root == "~" or root.startswith("~/") else root


def _is_within(path: str, directory: str) -> bool:
    """Return True if `path` is `directory` or below it. Ignores case, as some file systems do."""
    return PurePosixPath(path.casefold()).is_relative_to(directory.casefold())


def _is_hidden(path: str, directory: str) -> bool:
    """Return True if a name on the way from `directory` to `path` begins with a dot."""
    names = PurePosixPath(path).parts[len(PurePosixPath(directory).parts) :]
    return any(name.startswith(".") for name in names)
