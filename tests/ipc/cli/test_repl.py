"""`cocosearchctl repl` against real sockets: on a pipe, and on a terminal with keys."""

import json
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio.from_thread
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from cocosearch_ipc import protocol as p
from cocosearch_ipc.render import highlight, output
from cocosearch_ipc.repl import code_colours
from cocosearch_ipc.repl.session import ReplSession
from cocosearch_ipc.repl.suggestions import KnownNames, WordCompleter
from tests.ipc.cli.terminal import CTRL_C, CTRL_D, ENTER, TAB, UP, Terminal
from tests.ipc.cli.test_cli import CTL
from tests.ipc.conftest import Served, start
from tests.ipc.engine import EngineWithFiles

REPL = [*CTL, "repl"]
PROMPT = "›"
READY = f"Ctrl-D quits.\n{PROMPT}"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "state").mkdir()
    with anyio.from_thread.start_blocking_portal() as portal:
        running = start(tmp_path / "run", tmp_path / "state", portal, EngineWithFiles())
        yield running
        running.stop()


def typed(
    served: Served, *lines: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    text = "".join(f"{line}\n" for line in lines)
    return subprocess.run(
        [*REPL, *options],
        env=served.environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
    )


def test_lines_of_a_pipe_are_answered_one_after_the_other(served: Served) -> None:
    done = typed(
        served,
        "retry",
        "",
        "/limit 2",
        "/lang go,python",
        "/context 1",
        "/reranker spacy",
        "again",
        "/sources",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(" 1. src/retry.py:3  method Client.retry")
    assert "options: lang:go,python  reranker spacy  limit 2  context 1" in done.stdout
    assert done.stdout.splitlines()[-1].split()[0] == "demo"
    first, second = served.engine.requests
    assert first == p.SearchRequest("retry", cwd="/")
    assert second == p.SearchRequest(
        "again",
        cwd="/",
        limit=2,
        languages=("go", "python"),
        lines_before=1,
        lines_after=1,
        reranker="spacy",
    )


def test_choices_are_dropped_one_by_one_or_all(served: Served) -> None:
    lines = ("/index demo", "/topic backend", "/lang go", "/lang", "/explain", "/reset", "/topics")
    output = typed(served, *lines).stdout.splitlines()
    assert output == [
        "options: demo",
        "options: demo  topic:backend",
        "options: demo  topic:backend  lang:go",
        "options: demo  topic:backend",
        "options: demo  topic:backend  explain",
        "options: default",
        "backend  demo",
    ]


def test_an_error_is_printed_and_the_next_line_works(served: Served) -> None:
    done = typed(
        served,
        "/opn 1",
        "/open 3",
        "/limit x",
        "/reranker best",
        "/index nope",
        "x",
        "/quit",
        "never",
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: unknown command /opn: did you mean /open?",
        "error: there is no result 3: the last answer had 0",
        "error: 'x' is not a number of at least 1",
        "error: unknown reranker best: valid are auto, functional, spacy, disabled",
        "error: no index 'nope' — hint: there are demo",
    ]
    assert served.engine.requests[-1] == p.SearchRequest("x", index="nope")


def test_programs_get_an_object_a_line(served: Served) -> None:
    done = typed(served, "retry", "/limit 1", "again", options=("--json", "--index", "demo"))
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [answer["query"] for answer in answers] == ["retry", "again"]
    assert answers[0]["index"] == "demo"


def test_a_hit_is_opened_in_the_editor(served: Served) -> None:
    done = subprocess.run(
        REPL,
        env=served.environment | {"EDITOR": "echo opened"},
        input="retry\n/open 1\n/open\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.count("opened +3 /srv/demo/src/retry.py\nsrc/retry.py:3\n") == 2


def test_a_sitting_at_a_terminal(served: Served) -> None:
    with Terminal(REPL, served.environment) as terminal:
        terminal.until(READY)
        terminal.keys("/index de")
        terminal.until(" demo ")  # the menu
        terminal.keys(TAB, ENTER)
        terminal.until("options: demo")
        terminal.until(PROMPT)
        terminal.keys("retry lang:g")
        terminal.until(" go ")
        terminal.keys(TAB, ENTER)
        terminal.until("1 of demo in 1.5 ms, fresh")
        terminal.until(PROMPT)
        assert served.engine.requests[-1] == p.SearchRequest("retry lang:go", index="demo")
        assert "\x1b]8;;file:///srv/demo/src/retry.py\x1b\\" in terminal.raw
        assert "\x1b[1;31mretry\x1b[0m" in terminal.raw, "what was asked for is marked"
        assert f"\x1b[{highlight.KEYWORD}mfor\x1b[0m" in terminal.raw, "code has colours"
        terminal.keys("half a question", CTRL_C, "whole", ENTER)
        terminal.until("1 of demo")
        terminal.until(PROMPT)
        assert served.engine.requests[-1] == p.SearchRequest("whole", index="demo"), (
            "Ctrl-C clears the line"
        )
        terminal.keys(CTRL_D)
        assert terminal.ended() == 0
    history = served.state / "repl-history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    with Terminal([*REPL, "--index", "demo"], served.environment) as terminal:
        terminal.until(READY)
        terminal.keys(UP, UP, ENTER)
        terminal.until("1 of demo")
        terminal.until(PROMPT)
        assert served.engine.requests[-1] == p.SearchRequest("retry lang:go", index="demo"), (
            "history is kept"
        )
        terminal.keys("/quit", ENTER)
        assert terminal.ended() == 0


def test_an_interrupt_ends_the_question_and_not_the_sitting(served: Served) -> None:
    with Terminal(REPL, served.environment) as terminal:
        terminal.until(READY)
        served.engine.busy = 30
        request_count = len(served.engine.requests)
        terminal.keys("slow", ENTER)
        while len(served.engine.requests) == request_count:
            terminal._read(0.02)
        terminal.interrupt()
        while not served.engine.cancelled:
            terminal._read(0.02)
        served.engine.busy = 0
        terminal.keys("quick", ENTER)
        terminal.until("1 of demo")
        terminal.until(PROMPT)
        terminal.keys(CTRL_D)
        assert terminal.ended() == 0
        assert "Traceback" not in terminal.raw


def test_a_sitting_survives_a_restart_of_the_daemon(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with anyio.from_thread.start_blocking_portal() as portal:
        first = start(tmp_path / "run", tmp_path / "state", portal, EngineWithFiles())
        with Terminal(REPL, first.environment) as terminal:
            terminal.until(READY)
            terminal.keys("before", ENTER)
            terminal.until("1 of demo")
            terminal.until(PROMPT)
            first.stop()
            terminal.keys("between", ENTER)
            started = threading.Event()
            started.wait(0.3)  # the question is asked while there is nobody
            second = start(tmp_path / "run", tmp_path / "state", portal, EngineWithFiles())
            terminal.until("1 of demo")
            terminal.until(PROMPT)
            second.stop()
            shutil.rmtree(tmp_path / "run")
            terminal.keys("after", ENTER)
            terminal.until(
                "error: cocosearchd is not running — hint: start it with `cocosearchctl up PATH`"
            )
            terminal.until(PROMPT)
            terminal.keys(CTRL_D)
            assert terminal.ended() == 0


def test_without_a_daemon_a_terminal_is_told_at_once(tmp_path: Path) -> None:
    environment = {
        "COCOSEARCH_RUNTIME_DIR": str(tmp_path),
        "COCOSEARCH_STATE_DIR": str(tmp_path),
        "HOME": "/",
    }
    with Terminal(REPL, environment) as terminal:
        terminal.until("error: cocosearchd is not running")
        assert terminal.ended() == 69


@pytest.mark.parametrize(
    ("typed_text", "offered"),
    [
        ("/re", {"/references ", "/reranker ", "/reset"}),
        ("/index d", {"demo"}),
        ("/index demo,", {"demo"}),
        ("/topic ", {"backend"}),
        ("/lang G", {"go"}),
        ("/reranker s", {"spacy"}),
        ("how la", {"lang:"}),
        ("how sym:c", {"check", "class", "concept", "constant", "constructor", "contract"}),
        ("how sym:class,m", {"macro", "method", "module", "moved"}),
        ("how index:", {"demo"}),
        ("how lang:go", set[str]()),
        ("how", set[str]()),
        ("", set[str]()),
    ],
)
def test_completions_of_the_tab_key(served: Served, typed_text: str, offered: set[str]) -> None:
    words = WordCompleter(
        KnownNames(ReplSession(served.environment, output.Style(colour=False, links=False)))
    )
    completions = words.get_completions(Document(typed_text), CompleteEvent())
    assert {completion.text for completion in completions} == offered


def test_without_a_daemon_tab_offers_no_names(tmp_path: Path) -> None:
    names = KnownNames(
        ReplSession(
            {"COCOSEARCH_RUNTIME_DIR": str(tmp_path)}, output.Style(colour=False, links=False)
        )
    )
    assert names.listed("indexes") == names.listed("topics") == names.listed("languages") == ()


@pytest.mark.parametrize(
    "language", ["python", "docker-compose", "proto", "hcl", "csharp", "no such language"]
)
def test_colours_lose_nothing(language: str) -> None:
    text = "\n  if x: # why\n\n'a\nb' \"c\"  \n"
    assert [
        "".join(piece for _, piece in line) for line in code_colours.lines(text, language)
    ] == text.split("\n")
