"""Random operations on a tree, from a seed, and the files that git then lists.

The oracle shares nothing with the product: `git ls-files` decides what is ignored, a read decides
what is there.
"""

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence

from tests.watching.support import GIT, Mutator, digest

SUFFIXES = (b".py", b".md")
PATTERNS = (
    b"a.py",
    b"b.*",
    b"x/",
    b"/y",
    b"*.py\n!b.py",
    b"z/**\n!z/x/",
    b"!x/",
    b"**/w w/a.py",
    b"[ab].py",
)
# Nobody waits at a prompt, no editor opens, and no other process keeps the index up to date.
ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "GIT_OPTIONAL_LOCKS": "0"}
# Left alone: the repository, and where somebody else writes.
PRIVATE = (b".git", b"probe")
MANY_FILES = 300


class Operations(Mutator):
    """All operations of `Mutator` and: truncation, case, modes, ignore files at any depth, git at
    work.

    One thread uses one of these; several may share a root. `said` is what was done, for whoever
    looks at a failure.
    """

    NAMES: tuple[bytes, ...] = (*Mutator.NAMES, b"A.py", b"A.PY", b"page.md")

    def __init__(self, root: bytes, seed: int, *, replace_root: bool, repository: bool) -> None:
        super().__init__(root, seed, replace_root=replace_root)
        self.repository = repository
        self.said: list[str] = []
        self.operations += [
            self.truncate,
            self.swap_case,
            self.change_mode,
            self.edit_ignore_file,
            self.edit_ignore_file,
            self.drop_ignore_file,
            self.swap_folders,
        ]
        if repository:
            self.operations += [self.git_at_work]

    def step(self) -> None:
        """One operation; what it cannot do is left undone."""
        with contextlib.suppress(OSError, shutil.Error):
            if self.replace_root and self.rng.random() < 0.003:
                self.replaced_root()
                return
            operation = self.rng.choice(self.operations)
            self.said.append(operation.__name__)
            operation()

    def begin(self) -> None:
        """Give a repository its first content."""
        if self.repository:
            self.git("init", "-q")
            self.git("commit", "-q", "--allow-empty", "-m", "first")

    def thin_out(self) -> None:
        """Keep the tree small: a round costs what changed, not what there is."""
        if sum(len(files) for _, _, files in os.walk(self.root)) < MANY_FILES:
            return
        for entry in sorted(os.listdir(self.root)):
            if entry not in PRIVATE and self.rng.random() < 0.6:
                path = os.path.join(self.root, entry)
                shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(
                    path
                ) else os.unlink(path)

    def folder(self, top: bytes | None = None) -> bytes:
        directory = self.root if top is None else top
        while self.rng.random() < 0.7:
            below = [
                e.path
                for e in os.scandir(directory)
                if e.is_dir(follow_symlinks=False) and e.name not in PRIVATE
            ]
            if not below:
                break
            directory = self.rng.choice(sorted(below))
        return directory

    def content(self) -> bytes:
        number = self.rng.randrange(10**9)
        return b"def word%d():\n    return %d\n" % (number, number) * self.rng.randrange(1, 4)

    def truncate(self) -> None:
        path = self.file()
        os.truncate(path, self.rng.randrange(os.path.getsize(path) + 1))

    def swap_case(self) -> None:
        path = self.file()
        os.rename(path, os.path.join(os.path.dirname(path), os.path.basename(path).swapcase()))

    def change_mode(self) -> None:
        path = self.folder() if self.rng.random() < 0.3 else self.file()
        extra = stat.S_IXUSR | stat.S_IXGRP
        os.chmod(path, (os.stat(path).st_mode ^ (0o040 if os.path.isdir(path) else extra)) & 0o7777)

    def edit_ignore_file(self) -> None:
        patterns = self.rng.sample(PATTERNS, self.rng.randrange(1, 3))
        self.put(os.path.join(self.folder(), b".gitignore"), b"\n".join(patterns) + b"\n")

    def drop_ignore_file(self) -> None:
        os.unlink(os.path.join(self.folder(), b".gitignore"))

    def swap_folders(self) -> None:
        """Two directories change places: each name now has the other's ignore files, and no file
        made an event.
        """
        first, second = self.folder(), self.folder()
        if (
            self.root not in (first, second)
            and not second.startswith(first)
            and not first.startswith(second)
        ):
            aside = first + b".aside"
            os.rename(first, aside)
            os.rename(second, first)
            os.rename(aside, second)

    def git_at_work(self) -> None:
        commands: Sequence[Sequence[str]] = self.rng.choice(
            [
                [["add", "-A"], ["commit", "-q", "-m", "work"]],
                [["add", "-A"], ["stash", "push", "-q"]],
                [["stash", "pop", "-q"]],
                [["checkout", "-q", "-f", "-B", f"branch{self.rng.randrange(3)}"]],
                [["checkout", "-q", "-f", f"branch{self.rng.randrange(3)}"]],
                [["reset", "-q", "--hard", "HEAD~1"]],
                [["rebase", "-q", f"branch{self.rng.randrange(3)}"], ["rebase", "--abort"]],
                [["add", "-f", "."]],
                [["rm", "-q", "-r", "--cached", "."]],
                [["clean", "-q", "-f", "-d", "-e", "probe"]],
            ]
        )
        for command in commands:
            self.said.append(f"git {' '.join(command)}")
            self.git(*command)

    def git(self, *arguments: str) -> None:
        subprocess.run(
            ["git", *GIT, *arguments],
            cwd=self.root,
            env=os.environ | ENVIRONMENT,
            check=False,  # two of them in one repository get into each other's way, as people do
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )

    def replaced_root(self) -> None:
        self.said.append("replaced_root")
        super().replaced_root()
        # it may be moved back in, and git does not look into other repositories
        for entry in os.listdir(self.outside):
            shutil.rmtree(os.path.join(self.outside, entry, b".git"), ignore_errors=True)
        self.begin()


def as_git_sees(root: bytes, scratch: bytes) -> dict[bytes, bytes]:
    """Every file of a kind that is searched and that git would not ignore -> the hash of its
    content.

    `scratch` is an empty repository elsewhere: its git reads the ignore files of a root that is in
    no repository.
    """
    elsewhere = [b"--git-dir=" + scratch, b"--work-tree=" + root]
    listed = _listed(root, [], ["--cached", "--others"])
    if listed is None:  # no repository, or one that was replaced while git was writing to it
        listed = _listed(root, elsewhere, ["--others"])
    assert listed is not None
    real = os.path.realpath(root)
    digests = {}
    for path in {path for path in _with_nested(root, listed) if path.lower().endswith(SUFFIXES)}:
        full_path = os.path.join(root, path)
        if os.path.realpath(os.path.dirname(full_path)) != os.path.dirname(
            os.path.join(real, path)
        ):
            continue  # tracked below a directory that is a link by now
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if stat.S_ISREG(os.lstat(full_path).st_mode):
                with open(full_path, "rb") as file:
                    digests[path] = digest(file.read())
    return digests


def _with_nested(root: bytes, listed: list[bytes]) -> Iterator[bytes]:
    """A repository below another is one entry of it, and lists its own files. (One comes about when
    git was working in a root that was moved away meanwhile, and that came back as a folder.)
    """
    for path in listed:
        inner = os.path.join(root, path.rstrip(b"/"))
        if path and os.path.isdir(inner) and not os.path.islink(inner):
            for below in _with_nested(inner, _listed(inner, [], ["--cached", "--others"]) or []):
                yield path.rstrip(b"/") + b"/" + below
        elif path:
            yield path


def _listed(root: bytes, where: list[bytes], kinds: list[str]) -> list[bytes] | None:
    command = [b"git", *where, b"ls-files", b"-z", *map(os.fsencode, kinds), b"--exclude-standard"]
    done = subprocess.run(
        command, cwd=root, env=os.environ | ENVIRONMENT, check=False, capture_output=True
    )
    return None if done.returncode else done.stdout.split(b"\0")


def difference(stored: dict[bytes, bytes], disk: dict[bytes, bytes]) -> str:
    """Some of what is too much, missing and other."""
    changed = [path for path in stored.keys() & disk.keys() if stored[path] != disk[path]]
    parts = {
        "too much": stored.keys() - disk.keys(),
        "missing": disk.keys() - stored.keys(),
        "other": changed,
    }
    return ", ".join(
        f"{what}: {len(paths)} {sorted(paths)[:5]}" for what, paths in parts.items() if paths
    )
