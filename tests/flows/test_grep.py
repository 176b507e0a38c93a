"""`grep` through the whole daemon, compared with GNU grep on the same files."""

import os
import random
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cocosearch_ipc import address, client
from cocosearch_ipc.workspace_protocol import GREP_MAX_SHOWN
from tests.daemon import Daemon, ensure_index

LINE = tuple[str, int]
GREP = shutil.which("grep") or ""
PACKAGES = ("anyio", "click")


@pytest.fixture(scope="module")
def tree(common_daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
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
    reference = shutil.copytree(root, _reference(root))
    dos = reference / "dos.py"
    dos.write_bytes(dos.read_bytes().replace(b"\r\n", b"\n"))
    yield root
    common_daemon.clear()


def _reference(tree: Path) -> Path:
    """The same files without carriage returns: a Windows line end is one line end."""
    return tree.with_name("reference")


@pytest.fixture
def indexed(common_daemon: Daemon, tree: Path) -> Daemon:
    """The daemon with an index of the tree, which stays for the next test of this module: these
    only read. A test with `shared` forgets it.
    """
    ensure_index(common_daemon, tree, "tree")
    return common_daemon


def grep_all(daemon: Daemon, pattern: str, **parameters: Any) -> list[LINE]:
    """All matching lines, page by page."""
    lines = list[LINE]()
    cursor: dict[str, Any] = {}
    while True:
        reply = daemon.call("grep", pattern=pattern, limit=1000, **parameters, **cursor)
        assert reply["fresh"], reply["stale_reason"]
        assert reply["complete"], reply["notes"]
        lines += [(file["path"], line["line"]) for file in reply["files"] for line in file["lines"]]
        if reply["cursor"] is None:
            return lines
        cursor = {"cursor": reply["cursor"]}


def gnu_grep(root: Path, *arguments: str) -> list[LINE]:
    """Matching lines of a tree by grep(1)."""
    done = subprocess.run(
        [GREP, "-rnHa", "--null", "--include=*.py", "--include=*.md", *arguments, "."],
        cwd=_reference(root),
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


@pytest.mark.skipif(not GREP, reason="no grep(1)")
@pytest.mark.parametrize("pattern", ["   ", "^   $", r"^\s{3}$", "( {3}|retry)$", "^$", r"\)$"])
def test_blank_lines_are_those_of_gnu_grep(indexed: Daemon, tree: Path, pattern: str) -> None:
    grep_all(indexed, pattern)  # makes Bloom filters
    assert sorted(grep_all(indexed, pattern)) == gnu_grep(tree, "-P", pattern)


@pytest.mark.parametrize("name", ["blank.py", "empty.py"])
def test_a_file_of_blanks_is_searched(indexed: Daemon, name: str) -> None:
    reply = indexed.call("grep", pattern="retry", under=name)
    assert (reply["files"], reply["searched_files"], reply["notes"]) == ([], 1, [])


def test_a_page_says_that_lines_may_have_moved(shared: Daemon, project: Path) -> None:
    shared.index(project, "moved")
    source = project / "src" / "retry.py"
    first = shared.call("grep", pattern="retry", index="moved", limit=1)
    second = shared.call("grep", pattern="retry", index="moved", limit=1, cursor=first["cursor"])
    assert second["notes"] == []
    source.write_text("# one line more\n" + source.read_text())
    shifted = shared.call("grep", pattern="retry", index="moved", cursor=first["cursor"])
    (note,) = shifted["notes"]
    assert "files have changed since the earlier page" in note


def test_pages_are_the_whole_answer(indexed: Daemon) -> None:
    all_lines = grep_all(indexed, "self", under="click")
    lines = list[LINE]()
    cursor = None
    while cursor is not None or not lines:
        page = indexed.call("grep", pattern="self", under="click", limit=97, cursor=cursor)
        assert page["total_lines"] == len(all_lines) - len(lines)
        lines += [(file["path"], line["line"]) for file in page["files"] for line in file["lines"]]
        cursor = page["cursor"]
    assert lines == all_lines
    files = indexed.call("grep", pattern="self", under="click", mode="files", limit=3)
    rest = indexed.call(
        "grep", pattern="self", under="click", mode="files", limit=500, cursor=files["cursor"]
    )
    paths = [file["path"] for reply in (files, rest) for file in reply["files"]]
    assert paths == sorted({path for path, _ in all_lines})
    counts = indexed.call("grep", pattern="self", under="click", mode="counts", limit=500)
    assert sum(file["count"] for file in counts["files"]) == len(all_lines)


def test_pages_with_context_are_shorter(indexed: Daemon, tree: Path) -> None:
    page = indexed.call("grep", pattern="self", limit=1000, context=20)
    matches = sum(len(file["lines"]) for file in page["files"])
    assert matches == GREP_MAX_SHOWN // (20 + 1 + 20)
    assert page["cursor"] is not None
    assert grep_all(indexed, "self", context=20) == gnu_grep(tree, "self")


def test_a_budget_of_tokens_cuts_the_answer(indexed: Daemon) -> None:
    small = indexed.call("grep", pattern="self", budget_tokens=60)
    large = indexed.call("grep", pattern="self", budget_tokens=2000)
    sizes = [sum(len(file["lines"]) for file in reply["files"]) for reply in (small, large)]
    assert 1 <= sizes[0] < 10 < sizes[1] < large["total_lines"]
    assert small["total_lines"] == large["total_lines"]
    assert small["cursor"] is not None


def test_lines_have_their_definitions(indexed: Daemon) -> None:
    (tree_file,) = indexed.call(
        "grep", pattern="def get_help_option_names", under="click/core.py", context=1
    )["files"]
    (line,) = tree_file["lines"]
    assert line["symbol_name"] == "Command.get_help_option_names"
    assert (line["column"], len(line["lines_before"]), len(line["lines_after"])) == (5, 1, 1)


SMALL_DEFINITIONS = {
    "server.go": (
        "package main\n\ntype Server struct{ addr string }\n\n"
        "func (s *Server) Run() error {\n\tneedle()\n\treturn nil\n}\n"
    ),
    "wrapped.py": (
        "def helper(f):\n    return f\n\n\n@helper\ndef run():\n    x = 1\n    needle(x)\n\n\n"
        "short = needle()\n"
    ),
    "node.c": (
        "struct node {\n  int value;\n};\n\n"
        "struct node *make_node(void) {\n  needle();\n  return 0;\n}\n"
    ),
}


def test_definitions_that_name_others_have_their_own_name(shared: Daemon, tmp_path: Path) -> None:
    root = tmp_path / "small"
    root.mkdir()
    for path, text in SMALL_DEFINITIONS.items():
        (root / path).write_text(text)
    shared.index(root, "small")

    def defined(reply: dict[str, Any]) -> list[str | None]:
        return [line["symbol_name"] for file in reply["files"] for line in file["lines"]]

    names = ["make_node", "Server.Run", "run", None]
    assert defined(shared.call("grep", pattern="needle", index="small")) == names
    with client.Session(address.rpc_socket(shared.environment)) as session:
        for path, text in SMALL_DEFINITIONS.items():
            session.put(path, text, "small")
        assert defined(session.call("grep", {"pattern": "needle", "index": "small"})) == names


def test_saves_and_unsaved_text_are_searched(shared: Daemon, project: Path) -> None:
    shared.index(project, "saves")
    source = project / "src" / "retry.py"

    def matching_lines(pattern: str, **parameters: Any) -> list[tuple[str, int, str | None]]:
        reply = shared.call("grep", pattern=pattern, index="saves", **parameters)
        assert reply["fresh"], reply["stale_reason"]
        return [
            (file["path"], line["line"], line["symbol_name"])
            for file in reply["files"]
            for line in file["lines"]
        ]

    assert matching_lines("should_retry") == [("src/retry.py", 5, "RetryPolicy.should_retry")]
    for number in range(5):
        source.write_text(f"def attempt_{number}():\n    return should_retry_{number}()\n")
        assert matching_lines(f"should_retry_{number}") == [
            ("src/retry.py", 2, f"attempt_{number}")
        ]
        assert matching_lines("RetryPolicy") == []
    (project / "src" / "added.py").write_text("should_retry_4 = None\n")
    assert len(matching_lines("should_retry_4")) == 2
    source.unlink()
    assert matching_lines("should_retry_4") == [("src/added.py", 1, None)]
    with client.Session(address.rpc_socket(shared.environment)) as session:
        session.put("src/added.py", "def unsaved():\n    return UNSAVED_TEXT\n", "saves")
        unsaved = session.call("grep", {"pattern": "UNSAVED_TEXT", "index": "saves"})
        hidden = session.call("grep", {"pattern": "should_retry_4", "index": "saves"})
    (file,) = unsaved["files"]
    assert (file["overlay"], file["lines"][0]["symbol_name"]) == (True, "unsaved")
    assert hidden["files"] == []
    assert matching_lines("UNSAVED_TEXT") == []


def test_a_change_that_is_not_indexed_yet_is_searched_and_marked(
    daemon: Daemon, project: Path
) -> None:
    daemon.index(project, "stopped")
    indexers = daemon.children("cocosearchd.indexing.indexer.indexer")
    assert indexers
    for indexer in indexers:
        indexer.suspend()
    try:
        (project / "src" / "retry.py").write_text("retry_in_new_content = 1\n")
        reply = daemon.call("grep", pattern="retry", index="stopped", sync_timeout_ms=2000)
    finally:
        for indexer in indexers:
            indexer.resume()
    changed = {file["path"]: file["changed"] for file in reply["files"]}
    assert changed["src/retry.py"]
    assert not reply["fresh"]
    (line,) = next(file for file in reply["files"] if file["changed"])["lines"]
    assert (line["text"], line["symbol_name"]) == ("retry_in_new_content = 1", None)


def test_the_command_line_prints_what_grep_prints(shared: Daemon, project: Path) -> None:
    shared.index(project, "lines")
    source = project / "src"

    def output(*arguments: str) -> str:
        return shared.ctl("grep", *arguments, cwd=source).stdout

    assert output("retry.*int") == (
        "retry.py:5:16:    def should_retry(self, status: int, attempt: int) -> bool:\n"
    )
    assert output("RETRY", "-i", "-w", "--lang", "markdown") == (
        "../README.md:3:18:A project with a retry policy and a server.\n"
    )
    assert output("serve(", ".", "-F", "-C", "1") == (
        "server.go-4-func ListenAndServe(addr string) error {\n"
        "server.go:5:9:\treturn serve(addr)\nserver.go-6-}\n"
    )
    assert output("retry", "-l") == "../README.md\nretry.py\n"
    assert output("retry", "../README.md", "-c") == "../README.md:1\n"
    assert shared.json("grep", "retry", "--index", "lines")["total_files"] == 2
    assert "more" in shared.ctl("grep", "retry", "--limit", "1", cwd=source).stderr
    refused = shared.ctl("grep", "(", cwd=source, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "not a regular expression" in refused.stderr


def test_the_rule_that_leaves_a_file_out_is_named(shared: Daemon, project: Path) -> None:
    (project / "prod.tfvars").write_text('region = "here"\n')
    (project / "prod.tfvars.example").write_text('region = "somewhere"\n')
    shared.index(project, "rules")
    rule = "its name is one of files with secrets (indexing.index_secrets)"
    reply = shared.call("grep", pattern="region", index="rules", under="prod.tfvars")
    assert reply["notes"] == [f"prod.tfvars is not in rules: {rule}"]
    (project / "sub").mkdir()
    (project / "sub" / "own.tfvars").write_text('region = "below"\n')
    file_below = {"under": "own.tfvars", "cwd": str(project / "sub")}
    reply = shared.call("grep", pattern="region", index="rules", **file_below)
    assert reply["notes"] == [f"sub/own.tfvars is not in rules: {rule}"]
    with pytest.raises(client.CallFailed) as refused:
        shared.call("get_file", path="prod.tfvars", index="rules")
    assert refused.value.message == f"index rules has no file prod.tfvars: {rule}"
    missing = shared.call("grep", pattern="region", index="rules", under="none.tf")
    assert missing["notes"] == ["no file of rules passes the filters"]
    (file,) = shared.call("grep", pattern="region", index="rules")["files"]
    assert (file["path"], file["language"]) == ("prod.tfvars.example", "hcl")


def test_matches_come_with_the_roots_of_their_indexes(shared: Daemon, project: Path) -> None:
    shared.index(project, "rooted")
    reply = shared.call("grep", pattern="retry", index="rooted")
    assert reply["roots"] == {"rooted": str(project)}
