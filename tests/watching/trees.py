"""Random trees with random ignore files, for comparisons with git."""

import os
import random
from pathlib import Path

from tests.watching.support import git

NAMES = [
    "a",
    "b",
    "ab",
    "foo",
    "bar",
    "a b",
    "x.py",
    "y.py",
    "foo.py",
    ".h",
    "A",
    "a]",
    "[a",
    "a\\b",
    "é",
    "a*",
    "!x",
]
NAMES += ["#c", "ba-r", "a ", "build", "x.min.js"]
ATOMS = [
    "a",
    "b",
    "foo",
    "bar",
    "*",
    "?",
    "**",
    "/",
    "/",
    "[ab]",
    "[!a]",
    "[a-c]",
    "[[:alpha:]]",
    "\\",
    "\\ ",
    " ",
]
ATOMS += [
    "x.py",
    "*.py",
    "!",
    "#",
    "]",
    "[",
    "-",
    "é",
    "[]a]",
    "[^/]",
    "[a",
    "A",
    "**/",
    "/**",
    "\\*",
    "[[:nope:]]",
    "[\\]]",
]


class RandomTree:
    """A repository at `root`; `folders` and `files` are relative to it."""

    def __init__(self, root: Path, seed: int, *, track: bool = False) -> None:
        self.root, self.rng = root, random.Random(seed)
        self.folders, self.files = [""], list[str]()
        root.mkdir()
        git(root, "init", "-q")
        for _ in range(self.rng.randint(3, 16)):
            self._entry()
        for folder in self.folders:
            if not folder or self.rng.random() < 0.4:
                self._write(os.path.join(folder, ".gitignore"), self.rng.randint(1, 5))
        self._write(".git/info/exclude", self.rng.randint(0, 3))
        if track and self.files:
            for file in self.rng.sample(self.files, len(self.files) // 3 + 1):
                git(root, "--literal-pathspecs", "add", "-f", "--", file)

    def _entry(self) -> None:
        path = os.path.join(self.rng.choice(self.folders), self.rng.choice(NAMES))
        if path in self.folders or path in self.files:
            return
        if self.rng.random() < 0.5:
            self.folders.append(path)
            os.mkdir(self.root / path)
        else:
            self.files.append(path)
            (self.root / path).touch()

    def _write(self, path: str, lines: int) -> None:
        text = "\n".join(self.pattern() for _ in range(lines)) + self.rng.choice(
            ["", "\n", "\r\n", "\n\n"]
        )
        (self.root / path).write_bytes(self.rng.choice([b"", b"", b"\xef\xbb\xbf"]) + text.encode())

    def pattern(self) -> str:
        kind, rng = self.rng.random(), self.rng
        if kind < 0.35:
            pattern = rng.choice(NAMES) + rng.choice(["", "/", ""])
        elif kind < 0.6:
            parts = [
                rng.choice([*NAMES, "*", "**", "?oo", "*.py", "[ab]*"])
                for _ in range(rng.randint(1, 3))
            ]
            pattern = "/".join(parts) + rng.choice(["", "/"])
        else:
            pattern = "".join(rng.choice(ATOMS) for _ in range(rng.randint(1, 6)))
        return rng.choice(["", "", "", "", "/"]) + pattern if rng.random() < 0.75 else "!" + pattern
