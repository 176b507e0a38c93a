"""`grep` through the whole daemon, compared with GNU grep on the same files."""

import os
import random
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon

LINE = tuple[str, int]
GREP = shutil.which("grep") or ""
pytestmark = pytest.mark.timeout(240)
PACKAGES = ("anyio", "click")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources of some installed packages, with files in other encodings and of blanks only."""
    root = tmp_path_factory.mktemp("grep") / "tree"
    for package in PACKAGES:
        source = Path(sysconfig.get_path("purelib")) / package
        for file in source.rglob("*.py"):
            target = root / package / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    (root / "latin.py").write_bytes(b"name = 'caf\xe9 retry'\nretry = 1\n")
    (root / "dos.py").write_bytes(b"import os\r\nretry()\r\n\r\n")
    (root / "unicode.md").write_text("# Größe\n\nDie Größe, GRÖSSE und größe: retry\n")
    (root / "blank.py").write_text("\n\n   \n")
    (root / "empty.py").write_text("")
    (root / "unfinished.py").write_text("a = 1\nretry = 2")
    return root


@pytest.fixture
def indexed(shared: Daemon, tree: Path) -> Daemon:
    shared.index(tree, "tree")
    return shared


def grep_all(daemon: Daemon, pattern: str, **parameters: Any) -> list[LINE]:
    """All matching lines, page by page."""
    lines = list[LINE]()
    cursor: dict[str, Any] = {}
    while True:
        reply = daemon.call("grep", pattern=pattern, limit=2000, **parameters, **cursor)
        assert reply["fresh"], reply["stale_reason"]
        assert reply["complete"], reply["notes"]
        lines += [(file["path"], line["line"]) for file in reply["files"] for line in file["lines"]]
        if reply["cursor"] is None:
            return lines
        cursor = {"cursor": reply["cursor"]}


def gnu_grep(root: Path, *arguments: str) -> list[LINE]:
    """Matching lines by grep(1)."""
    done = subprocess.run(
        [GREP, "-rnHa", "--null", "--include=*.py", "--include=*.md", *arguments, "."],
        cwd=root,
        capture_output=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode < 2, done.stderr
    rows = (row.split(b"\0", 1) for row in done.stdout.split(b"\n") if b"\0" in row)
    return sorted(
        (path.decode().removeprefix("./"), int(rest.split(b":", 1)[0])) for path, rest in rows
    )


def random_pattern(chance: random.Random, words: list[str]) -> str:
    """A pattern that means the same to RE2 and to PCRE, on ASCII."""
    word = re.escape(chance.choice(words))
    other_word = re.escape(chance.choice(words))
    middle = chance.randrange(1, len(word)) if word.isalnum() and len(word) > 1 else 0
    return chance.choice(
        [
            word,
            word[middle:] or word,
            f"{word}|{other_word}",
            f"^ *{word}",
            f"{word}[(:]",
            rf"\b{word}\b",
            rf"{word}.*{other_word}",
            f"({word}|{other_word})[ ,=]",
            f"[A-Z]{word}",
            f"{word}?s+$",
            rf"(?:{word}){{1,2}}\w*\(",
            "^$",
            "[0-9]{3,}",
        ]
    )


@pytest.mark.skipif(not GREP, reason="no grep(1)")
def test_lines_are_those_of_gnu_grep(indexed: Daemon, tree: Path) -> None:
    chance = random.Random(7)
    text = (tree / "anyio" / "_core" / "_sockets.py").read_text()
    words = sorted(set(re.findall(r"\w+", text)))
    for _ in range(40):
        pattern = random_pattern(chance, words)
        flags = chance.choice([(), ("-i",), ("-w",)])
        options = {"-i": {"ignore_case": True}, "-w": {"whole_words": True}}
        parameters = options[flags[0]] if flags else {}
        expected = gnu_grep(tree, "-P", *flags, pattern)
        assert sorted(grep_all(indexed, pattern, **parameters)) == expected, (pattern, flags)


@pytest.mark.skipif(not GREP, reason="no grep(1)")
def test_fixed_strings_and_filters_are_those_of_gnu_grep(indexed: Daemon, tree: Path) -> None:
    for text in ("self._", "(self)", "[str", "x.y", "retry", "Größe", "*args, **kwargs"):
        assert sorted(grep_all(indexed, text, fixed=True)) == gnu_grep(tree, "-F", text), text
    below = [line for line in gnu_grep(tree, "-F", "self") if line[0].startswith("click/")]
    assert sorted(grep_all(indexed, "self", under="click")) == below
    assert sorted(grep_all(indexed, "self", paths=["click/**"])) == below
    assert grep_all(indexed, "Größe", languages=["python"]) == []
    assert grep_all(indexed, "retry", languages=["markdown"]) == [("unicode.md", 3)]
