"""Opens the repository around a root for git: its HEAD, references and objects.

git does not read the repository's configuration: see `git_command`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cocosearchd.forms.path_forms import path_text
from cocosearchd.runtime.files.regular_files import read_regular
from cocosearchd.watching.git.git_command import (
    GitCall,
    GitRefused,
    GitUnresponsive,
    run_git,
)
from cocosearchd.watching.git.git_config import UserConfig, read_git_config, read_user_config
from cocosearchd.watching.git.repository import Repository, refuse_owner, repository_around

MAX_HEAD_BYTES = 8192  # `ref: ` and a name, or an object id
OBJECT_ID_BYTES = 256  # of an answer that is one object id


class NoRepository(Exception):
    """The directory is in no git repository."""


class UnknownRevision(Exception):
    """A name means no commit of the repository. The argument is a sentence."""


@dataclass(frozen=True, slots=True)
class ObjectReader:
    """Calls of git over the objects of one repository, for the files below one root.

    `call` is the part that all calls share. `prefix` is the path of the root below the top of the
    work tree, with `/` at its end; empty for the top itself.
    """

    repository: Repository
    call: GitCall
    object_format: str
    prefix: bytes

    def find_commit(self, name: str) -> str:
        """Return the object id of a commit.

        Raises `UnknownRevision`, `GitRefused` and `GitUnresponsive`.
        """
        arguments = ("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
        try:
            return run_git(replace(self.call, arguments=arguments)).decode("ascii").strip()
        except GitUnresponsive as error:
            if not str(error).startswith(("fatal:", "error:")):
                raise
            raise UnknownRevision(f"{name} is no commit of this repository") from error


@contextmanager
def open_objects(root: bytes) -> Iterator[ObjectReader]:
    """Open the repository around a root.

    Raises `NoRepository`, `GitRefused` for a repository of another user, and `GitUnresponsive`.
    """
    try:
        repository = repository_around(root)
        if repository is None:
            raise NoRepository
        yield _make_reader(repository, os.path.relpath(root, repository.top))
    except OSError as error:
        raise GitUnresponsive(
            f"{path_text(os.fsencode(error.filename or b'.git'))}: {error.strerror}"
        ) from error


def _make_reader(repository: Repository, root: bytes) -> ObjectReader:
    """Check a repository, and find its files for git. `root` is relative to its top."""
    user = _read_user()
    refusal = refuse_owner(repository, user)
    if refusal is not None:
        raise refusal
    directories = (repository.top, repository.git_dir, repository.common_dir)
    config = read_git_config(*directories, user, trusted=True)
    head = os.path.join(repository.git_dir, b"HEAD")
    links = {
        name: os.path.join(repository.common_dir, name.encode())
        for name in ("refs", "packed-refs", "shallow")
    }
    call = GitCall(
        arguments=(),
        output_limit=OBJECT_ID_BYTES,
        object_format=config.object_format,
        texts={"HEAD": read_regular(head, limit=MAX_HEAD_BYTES, follow_links=True)},
        path_links={name: path for name, path in links.items() if _is_readable(name, path)},
        objects=os.path.join(repository.common_dir, b"objects"),
    )
    prefix = b"" if root == b"." else root + b"/"
    return ObjectReader(repository, call, config.object_format, prefix)


def _is_readable(name: str, path: bytes) -> bool:
    """Return True for the directory `refs`, and for the other names if they are regular files."""
    return os.path.isdir(path) if name == "refs" else os.path.isfile(path)


def _read_user() -> UserConfig:
    """Return the user's configuration; an empty one, which trusts nobody else, if it is refused."""
    try:
        return read_user_config()
    except GitRefused:
        return UserConfig()
