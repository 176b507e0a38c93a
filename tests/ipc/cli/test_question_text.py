"""Questions from files and from standard input, and the errors for input that is no text."""

import json
import subprocess
from pathlib import Path

import pytest

from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.questions.question_text import MAX_CHARACTERS
from tests.ipc.cli.test_cli import CTL
from tests.ipc.conftest import Served

REPORT = "Saving twice fails\n\n```\nValueError: bröken\n```\n"


def query(served: Served, *arguments: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [*CTL, "query", *arguments, "--index", "demo", "--json"]
    return subprocess.run(
        command, input=text, capture_output=True, env=served.environment, timeout=60, check=False
    )


def test_a_file_and_standard_input_are_questions(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "issue.md"
    file.write_text(REPORT)
    for done in (
        query(served, "--file", str(file)),
        query(served, "-", text=REPORT.encode()),
    ):
        assert (done.returncode, done.stderr) == (0, b"")
        assert json.loads(done.stdout)["query"] == REPORT


@pytest.mark.parametrize("words", ["é fails\n", "保存失败", "🔥"])
def test_a_text_of_the_largest_size_is_a_question(served: Served, words: str) -> None:
    text = (words * MAX_CHARACTERS)[:MAX_CHARACTERS]
    done = query(served, "-", text=text.encode())
    assert done.returncode == 0
    assert json.loads(done.stdout)["query"] == text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\x7fELF\0\0\1\2", "is no text"),
        ("größer".encode("latin-1"), "is no text"),
        (b"\0" * 10_000_000, "is no text"),
        (b"it fails\n" * 1_200_000, "has more than 200,000 characters"),
        (("é" * (MAX_CHARACTERS + 1)).encode(), "has more than 200,000 characters"),
    ],
)
def test_what_is_no_question_is_refused_in_a_sentence(
    served: Served, tmp_path: Path, data: bytes, message: str
) -> None:
    file = tmp_path / "issue.md"
    file.write_bytes(data)
    for name, done in (
        (str(file), query(served, "--file", str(file))),
        ("standard input", query(served, "-", text=data)),
    ):
        assert done.returncode == exits.USAGE
        assert f"{name} {message}" in done.stderr.decode()
        assert len(done.stderr.decode().strip().splitlines()) <= 2
        assert not done.stdout


def test_files_that_cannot_be_read_are_refused_in_a_sentence(
    served: Served, tmp_path: Path
) -> None:
    for arguments, message in (
        (("--file", str(tmp_path / "none.md")), "No such file"),
        (("--file", str(tmp_path)), "Is a directory"),
        (("words", "--file", str(tmp_path / "none.md")), "there are words and a file"),
    ):
        done = query(served, *arguments)
        assert done.returncode == exits.USAGE
        assert message in done.stderr.decode()
        assert b"Traceback" not in done.stderr
