"""`cocosearchctl` as a process against real sockets: its output, exit codes and imports."""

import argparse
import json
import os
import pty
import pwd
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest

from cocosearch_ipc import address, error_codes, workspace_protocol
from cocosearch_ipc import protocol as p
from cocosearch_ipc.cli import exits, parser
from cocosearch_ipc.cli.main import run
from cocosearch_ipc.cli.questions import file_verbs, query_verb
from cocosearch_ipc.cli.running import daemon_process, service_manager
from cocosearch_ipc.client import VERSION, CallFailed
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.render import answers, line_range, output, tables
from cocosearch_ipc.render.visible import CONTENT_NOTICE
from cocosearch_ipc.rpc import dispatcher
from tests.ipc.conftest import Served, start
from tests.ipc.engine import AS_OF, EngineWithFiles

CTL = [
    sys.executable,
    "-c",
    "import sys; from cocosearch_ipc.cli.main import main; sys.exit(main())",
]
# Modules that a plain query or grep may load, beside those of a bare interpreter. Nothing here without a look at
# its cost.
ALLOWED = {
    *(
        "json",
        "json.decoder",
        "json.encoder",
        "json.scanner",
        "_json",
        "re",
        "sre_compile",
        "sre_parse",
        "_sre",
    ),
    *(
        "re._casefix",
        "re._compiler",
        "re._constants",
        "re._parser",
        "enum",
        "types",
        "operator",
        "_operator",
    ),
    *(
        "functools",
        "_functools",
        "collections",
        "_collections",
        "itertools",
        "keyword",
        "reprlib",
        "copyreg",
    ),
    *("_socket", "struct", "_struct", "collections.abc", "gc"),
    *("unicodedata", "__future__"),
    *("cocosearch_ipc", "cocosearch_ipc.address", "cocosearch_ipc.client", "cocosearch_ipc.cli"),
    "cocosearch_ipc.error_codes",
    *("cocosearch_ipc.cli.exits", "cocosearch_ipc.cli.main", "cocosearch_ipc.cli.daemon_calls"),
    "cocosearch_ipc.cli.plain_commands",
    *(
        "cocosearch_ipc.render.line_range",
        "cocosearch_ipc.render.visible",
        "cocosearch_ipc.render",
        "cocosearch_ipc.render.output",
    ),
}
MODULES_OF_VERB = {  # beside those
    "query": {
        "cocosearch_ipc.cli.query_command",
        "cocosearch_ipc.render.answers",
        "cocosearch_ipc.render.comment_marks",
        "cocosearch_ipc.render.highlight",
    },
    "grep": {
        "cocosearch_ipc.cli.grep_command",
        "cocosearch_ipc.render.grep_lines",
    },
}


def ctl(served: Served, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    environment = served.environment | more.pop("env", {})
    return subprocess.run(
        [*CTL, *arguments], env=environment, capture_output=True, text=True, timeout=120, **more
    )


def test_the_json_answer_has_the_documented_shape(served: Served) -> None:
    done = ctl(served, "query", "where are", "retries", "--index", "demo", "--limit", "3", "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    keys = {"query", "index", "results", "fresh", "stale_reason", "as_of", "cache", "timings_ms"}
    assert set(answer) >= keys
    assert set(answer["results"][0]) >= {
        *(
            "index",
            "path",
            "start_line",
            "end_line",
            "start_byte",
            "end_byte",
            "language",
            "score",
            "match_type",
        ),
        *("block_type", "hierarchy", "symbol_type", "symbol_name", "symbol_signature", "content"),
        *("context_before", "context_after"),
    }
    assert served.engine.requests == [p.SearchRequest("where are retries", index="demo", limit=3)]


def test_the_answer_for_people(served: Served) -> None:
    done = ctl(served, "query", "retry", cwd="/srv")
    assert done.stdout.splitlines() == [
        " 1. src/retry.py:3  method Client.retry  ■■■■□ 73% both",
        "    2  class Client:",
        "    3      def retry(self, times: int) -> None:",
        "    4          for _ in range(times):",
        "    5              self.send()",
        "",
        "1 of demo in 1.5 ms, fresh",
    ]
    assert served.engine.requests == [p.SearchRequest("retry", cwd="/srv")]


def test_the_answer_for_editors(served: Served) -> None:
    done = ctl(served, "query", "retry", "--format", "grep", cwd="/srv")
    assert done.stdout == "demo/src/retry.py:3:def retry(self, times: int) -> None:\n"
    assert done.stderr == ""


def test_an_editor_gets_places_and_a_person_the_doubts(served: Served) -> None:
    served.engine.stale = "changes are pending"
    served.engine.notes = ("other: not searched",)
    done = ctl(served, "query", "retry", "--format", "grep", cwd="/srv")
    assert done.stdout == "demo/src/retry.py:3:def retry(self, times: int) -> None:\n"
    assert done.stderr.splitlines() == [
        "note: other: not searched",
        "not fresh: changes are pending",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "query retry --format grep --explain",
        "query retry --format compact --why-not a.py",
        "sync demo --index other",
        "watch --limit 3",
        "watch --min-evidence 0.5",
    ],
)
def test_options_that_do_not_fit_together_are_refused(served: Served, line: str) -> None:
    done = ctl(served, *line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert " — hint: " in done.stderr
    assert served.engine.requests == []


def test_an_error_is_json_where_the_answer_would_be(served: Served) -> None:
    done = ctl(served, "query", "retry", "--index", "gone", "--format", "json")
    assert json.loads(done.stderr)["error"]


def test_the_answer_for_a_language_model(served: Served) -> None:
    lines = ctl(
        served, "query", "retry", "--format", "compact", "--budget", "400"
    ).stdout.splitlines()
    assert lines[0] == CONTENT_NOTICE
    assert lines[1].startswith("src/retry.py:2-5 (hit: 3-5)")
    assert "def retry(self, times: int) -> None:" in "\n".join(lines)
    assert not any("1." in line for line in lines[:1])


def test_the_earlier_name_of_an_option_of_watch_still_counts() -> None:
    for flag in ("--min-evidence", "--min-score"):
        assert (
            parser.parser().parse_args(["watch", "--query", "q", flag, "0.5"]).min_evidence == 0.5
        )


def test_every_option_of_query_becomes_a_parameter(served: Served) -> None:
    options = "--index a --index b --topic t --all --limit 2 --lang go --path src/** --not-path x"
    options += " --symbol-type class"
    options += (
        " --symbol-name N* --min-score 0.5 --all-chunks --no-collapse --profile classic --cursor c"
    )
    options += " --reranker spacy --no-hybrid --no-cache"
    options += " --no-sync --no-linked --explain --why-not p:1 -B 1 -A 2 --no-smart --budget 9 --budget-chars 8"
    args = parser.parser().parse_args(["query", "q", *options.split()])
    params = query_verb.search_params(args)
    defaults = p.SearchRequest("q")
    assert set(params) <= set(p.SearchRequest.__slots__)
    left_out = {name for name in p.SearchRequest.__slots__ if name not in params}
    # sessions are of editors, evidence of saved queries, and `min_score` is an earlier name
    assert left_out == {"session", "index", "cwd", "min_evidence", "min_score"}
    assert all(
        value != getattr(defaults, name) for name, value in params.items() if name != "query"
    )


@pytest.mark.parametrize("verb", ["query", "grep"])
def test_a_query_or_grep_imports_next_to_nothing(served: Served, verb: str) -> None:
    code = (
        "import sys; before = set(sys.modules); from cocosearch_ipc.cli.main import run; import os\n"
        # on a slow machine a check of the service, while the reply takes its time, imports more
        "from cocosearch_ipc import client; client.LIVENESS_CHECK_S = 3600.0\n"
        f"assert run(['{verb}', 'retry', '--index', 'demo'], os.environ) == 0\n"
        "sys.stderr.write(' '.join(sorted(set(sys.modules) - before)))"
    )
    command = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"]
    done = subprocess.run(
        command, env=served.environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert set(done.stderr.splitlines()[-1].split()) <= ALLOWED | MODULES_OF_VERB[verb]


def test_lists_and_counts(served: Served) -> None:
    assert ctl(served, "list", "--names").stdout == "demo\n"
    assert ctl(served, "list").stdout.splitlines()[1].split() == [
        "demo",
        "live",
        "2",
        "0",
        "5",
        "0",
        "/srv/demo",
    ]
    assert json.loads(ctl(served, "list", "--json").stdout)["indexes"][0]["topics"] == ["backend"]
    assert (
        "python        2       5       2       0       0      0"
        in ctl(served, "stats", "demo").stdout
    )
    status = json.loads(ctl(served, "status", "--json").stdout)
    assert set(status) >= {"mcp", "indexes", "store", "embedder", "rss_bytes", "version"}
    assert set(status["mcp"]) >= {"url", "sse_url"}
    output = ctl(served, "status").stdout
    assert "memory    1.0 MB (daemon 1.0 MB)" in output
    assert ctl(served, "sync", "demo").stdout == "demo: fresh\n"
    assert ctl(served, "reindex", "demo").stdout == "demo: live, 3 files, 6 chunks\n"
    assert ctl(served, "token").stdout.strip() == served.token


def test_up_shows_progress_and_is_idempotent(served: Served, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    first = ctl(served, "up", str(tmp_path / "project"), "--wait")
    assert first.returncode == 0
    assert first.stderr.startswith("project: indexing, 0 of 3 files, 0 chunks\n")
    assert re.match(
        r"project: \S+/project is watched \(live, 3 files, 6 chunks, after ", first.stdout
    )
    assert first.stdout.splitlines()[-1].startswith('try:  cocosearchctl query "')
    again = ctl(served, "up", str(tmp_path / "project"))
    assert "is already watched, nothing changed" in again.stdout
    assert (
        json.loads(ctl(served, "up", str(tmp_path / "project"), "--json").stdout)["created"]
        is False
    )
    missing = ctl(served, "up", str(tmp_path / "nothing"))
    assert missing.returncode == exits.USAGE
    assert (
        missing.stderr
        == f"error: there is no directory {tmp_path}/nothing — hint: give the project's directory\n"
    )


def test_up_shows_no_control_character_of_a_directory(served: Served, tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m\nb").mkdir()
    for _ in "created", "there already":
        output = ctl(
            served, "up", str(tmp_path / "a\x1b[31m\nb"), "--name", "odd"
        ).stdout.splitlines()
        assert output[0].startswith(f"odd: {tmp_path}/a\\x1b[31m\\x0ab is ")


def test_up_that_waited_in_vain_says_so(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sync(request: p.SyncRequest) -> p.SyncReply:
        return p.SyncReply(request.index or "", False, AS_OF, "git is working", ("a.py",))

    monkeypatch.setattr(served.engine, "sync", sync)
    assert "not fresh: git is working (a.py)\n" in ctl(served, "up", str(tmp_path), "--wait").stderr


def test_clear_asks_first(served: Served) -> None:
    refusal = ctl(served, "clear", "demo", stdin=subprocess.DEVNULL)
    assert (refusal.returncode, "clear demo --yes" in refusal.stderr) == (exits.USAGE, True)
    assert ctl(served, "clear", "demo", "--yes").stdout == "demo is deleted (2 files, 5 chunks)\n"
    gone = ctl(served, "clear", "demo", "--yes", "--json")
    assert (gone.returncode, json.loads(gone.stderr)["code"]) == (
        exits.FAILED,
        error_codes.NOT_FOUND,
    )


def test_clear_takes_one_index_or_all(served: Served) -> None:
    served.engine.indexes["other"] = "/srv/other"
    for arguments in ([], ["demo", "--all"]):
        result = ctl(served, "clear", *arguments, "--yes")
        assert (result.returncode, "or give --all" in result.stderr) == (exits.USAGE, True)
    refusal = ctl(served, "clear", "--all", stdin=subprocess.DEVNULL)
    assert (refusal.returncode, "clear --all --yes" in refusal.stderr) == (exits.USAGE, True)
    lines = ctl(served, "clear", "--all", "--yes").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["demo", "other"]
    assert ctl(served, "clear", "--all", "--yes").stdout == "there is no index\n"
    assert json.loads(ctl(served, "clear", "--all", "--yes", "--json").stdout) == {"cleared": []}


def test_a_long_wait_is_asked_for_in_parts(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = list[int]()

    async def sync(request: p.SyncRequest) -> p.SyncReply:
        questions.append(request.timeout_ms)
        return p.SyncReply("demo", len(questions) == 3, AS_OF)

    monkeypatch.setattr(served.engine, "sync", sync)
    assert ctl(served, "sync", "demo", "--timeout", "86400").returncode == exits.OK
    assert len(questions) == 3
    assert max(questions) / 1000 < dispatcher.DEFAULT_DEADLINE_S, "no call may take longer"


def test_a_question_that_waits_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[tuple[int, float]]()

    def call(
        path: str, method: str, params: dict[str, Any], timeout_s: float = 60.0, *_: object
    ) -> dict[str, Any]:
        calls.append((params["sync_timeout_ms"], timeout_s))
        return {"query": "x", "results": []}

    monkeypatch.setattr("cocosearch_ipc.client.call", call)
    for wait in ("120", "3600"):
        run(["query", "x", "--open", "1", "--sync-timeout", wait], {"HOME": "/"})
        wait_ms, timeout_s = calls[-1]
        assert (
            min(120, int(wait)) * 1000
            <= wait_ms
            < timeout_s * 1000
            < dispatcher.DEFAULT_DEADLINE_S * 1000 + 1
        )


@pytest.mark.parametrize(
    "verb", ["query x", "status", "list", "stats", "sync", "clear x --yes", "reindex"]
)
def test_without_a_daemon(tmp_path: Path, verb: str) -> None:
    environment = {
        "COCOSEARCH_RUNTIME_DIR": str(tmp_path),
        "COCOSEARCH_STATE_DIR": str(tmp_path),
        "HOME": "/",
    }
    for extra in ([], ["--json"]):
        command = [*CTL, *verb.split(), *extra]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (exits.NOT_RUNNING, "")
        if extra:
            error = json.loads(done.stderr)
            assert error["error"] == "cocosearchd is not running"
        else:
            assert (
                done.stderr
                == "error: cocosearchd is not running — hint: start it with `cocosearchctl up PATH`\n"
            )


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("qurey x", 2, "error: argument VERB: invalid choice: 'qurey' — hint: did you mean query?"),
        (
            "query x --limt 3",
            2,
            "error: unrecognized arguments: --limt 3 — hint: did you mean --limit?",
        ),
        (
            "dependencies src --format svg",
            2,
            "error: argument --format: invalid choice: 'svg' — hint: use one of text, mermaid, dot",
        ),
        (
            "query x --limit y",
            2,
            "error: argument --limit: invalid int value: 'y' — hint: cocosearchctl query --help",
        ),
        ("query x --index nope", 1, "error: no index 'nope' — hint: there are demo"),
        ("bench --index nope", 1, "error: no index 'nope' — hint: there are demo"),
        (
            "query x --open 9 --json",
            1,
            '{"error": "there is no result 9", "hint": "the answer has 1"}',
        ),
        (
            "files --limit 0",
            2,
            "error: argument --limit: invalid count value: '0' — hint: cocosearchctl files --help",
        ),
        (
            "bench --files -1",
            2,
            "error: argument --files: invalid count value: '-1' — hint: cocosearchctl bench --help",
        ),
    ],
)
def test_errors_are_one_line(served: Served, line: str, code: int, message: str) -> None:
    done = ctl(served, *line.split())
    assert (done.returncode, done.stdout, done.stderr) == (code, "", message + "\n")


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("grep retry -c src", {"pattern": "retry", "under": "src", "mode": "counts"}),
        ("grep -i retry -w src -C 2", {"pattern": "retry", "under": "src", "context": 2}),
        ("grep retry src -l", {"pattern": "retry", "under": "src", "mode": "files"}),
        ("query one --limit 3 two --json three", {"query": "one two three", "limit": 3}),
    ],
)
def test_values_may_stand_behind_options(
    served: Served, line: str, values: dict[str, object]
) -> None:
    assert ctl(served, *line.split()).returncode == 0
    request = served.engine.requests[-1]
    assert {name: getattr(request, name) for name in values} == values


def test_a_value_too_many_is_refused(served: Served) -> None:
    done = ctl(served, "grep", "retry", "-c", "src", "-i", "tests")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: unrecognized arguments: tests — hint: cocosearchctl grep --help\n"
    )


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("query x --min-score nan", "number"),
        ("query x --sync-timeout inf", "seconds"),
        ("sync --timeout 1e30", "seconds"),
        ("sync --timeout -1", "seconds"),
    ],
)
def test_numbers_that_no_call_can_hold(served: Served, line: str, kind: str) -> None:
    verb, *_, option, value = line.split()
    done = ctl(served, *line.split())
    flags = {"--min-score": "--min-relevance/--min-score"}.get(option, option)
    problem = f"argument {flags}: invalid {kind} value: '{value}'"
    assert (done.returncode, done.stderr) == (
        2,
        f"error: {problem} — hint: cocosearchctl {verb} --help\n",
    )


def test_help_is_a_verb_and_what_comes_without_one(served: Served) -> None:
    bare = ctl(served)
    assert (bare.returncode, bare.stderr) == (exits.USAGE, "")
    assert ctl(served, "help").stdout == ctl(served, "--help").stdout == bare.stdout
    for verb in parser.VERBS:
        assert re.search(rf"^  {verb.name} +{re.escape(verb.help)}$", bare.stdout, re.MULTILINE)
    assert "\nmore:" not in bare.stdout, "a verb belongs in a group"
    assert all(f" {code} " in " ".join(bare.stdout.split()) for code in (0, 1, 2, 69, 75, 78, 130))
    assert ctl(served, "help", "query").stdout == ctl(served, "query", "--help").stdout
    assert "hint: did you mean query?" in ctl(served, "help", "qurey").stderr
    listed = json.loads(ctl(served, "help", "--json").stdout)["verbs"]
    assert {verb["verb"] for verb in listed} == {verb.name for verb in parser.VERBS}


def test_an_older_daemon_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    hint = f"hint: the daemon is 0.0.9, this is {VERSION}: run `cocosearchctl restart`\n"
    with anyio.from_thread.start_blocking_portal() as portal:
        served = start(tmp_path / "run", tmp_path / "state", portal, version="0.0.9")
        served.engine.version = "0.0.9"
        try:
            for line in (
                ["query", "retry"],
                ["query", "retry", "--limit", "1", "--full"],
                ["status"],
                ["version"],
            ):
                done = ctl(served, *line)
                assert (done.returncode, done.stderr) == (0, hint), line
            assert ctl(served, "query", "retry", "--json").stderr == ""
            assert hint in ctl(served, "up", str(tmp_path)).stderr
            refused = ctl(served, "query", "x", "--index", "nope")
            assert refused.stderr.endswith(f"; {hint.removeprefix('hint: ')}")
            assert ctl(served, "doctor").stdout.count("cocosearchctl restart") == 1
        finally:
            served.stop()


def test_the_versions_of_both_programs(served: Served, tmp_path: Path) -> None:
    assert ctl(served, "version").stdout == f"cocosearchctl {VERSION}\ncocosearchd 0.1.0\n"
    alone = ctl(served, "version", "--json", env={"COCOSEARCH_RUNTIME_DIR": str(tmp_path / "none")})
    assert json.loads(alone.stdout) == {"cocosearchctl": VERSION, "cocosearchd": None}


def test_an_interrupted_restart_says_what_becomes_of_the_daemon(served: Served) -> None:
    """The fixed engine says that it is process 1, which stays."""
    with subprocess.Popen(
        [*CTL, "restart"],
        env=served.environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "stopping cocosearchd (pid 1) ...\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    goes_on = "cocosearchd (pid 1) continues to stop in the background; `cocosearchctl restart` starts it again\n"
    assert (process.returncode, errors) == (exits.INTERRUPTED, goes_on)


@pytest.mark.parametrize("line", ["query x --limit {}", "watch --since a:{}"])
def test_a_number_that_python_does_not_read_is_refused(served: Served, line: str) -> None:
    done = ctl(served, *line.format("9" * 5000).split())
    assert (done.returncode, done.stderr.count("\n")) == (exits.USAGE, 1)
    assert done.stderr.startswith("error: ")
    assert line_range.parse_location("a.py:" + "9" * 5000) == ("a.py:" + "9" * 5000, None, None)


def test_an_interrupt_and_a_closed_pipe_leave_no_traceback(served: Served) -> None:
    served.engine.busy = 30
    process = subprocess.Popen(
        [*CTL, "query", "x", "--index", "demo"],
        env=served.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not served.engine.requests:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=50) == (b"", b"")
    assert process.returncode == exits.INTERRUPTED
    served.engine.busy = 0
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*CTL, "query", "x", "--index", "demo"],
        env=served.environment,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_colour_and_links_on_a_terminal_only(served: Served) -> None:
    plain = ctl(served, "query", "retry", "--index", "demo").stdout
    assert "\x1b" not in plain
    output = _on_a_terminal(served, {})
    assert "\x1b]8;;file:///srv/demo/src/retry.py\x1b\\" in output
    assert "\x1b[1;31mretry\x1b[0m" in output
    assert "\x1b[35mdef\x1b[0m \x1b[1;31mretry\x1b[0m(" in output
    assert "\x1b[" not in _on_a_terminal(served, {"NO_COLOR": "1", "FORCE_COLOR": "1"})
    forced = ctl(served, "query", "retry", "--index", "demo", env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b[1;31mretry\x1b[0m" in forced
    assert "\x1b]8;;" not in forced
    assert "\x1b" not in _on_a_terminal(served, {"TERM": "dumb"})


def _on_a_terminal(served: Served, more: dict[str, str]) -> str:
    main, worker = pty.openpty()
    environment = served.environment | {"TERM": "xterm"} | more
    command = [*CTL, "query", "retry", "--index", "demo"]
    subprocess.run(command, env=environment, stdout=worker, stderr=worker, timeout=120, check=True)
    os.close(worker)
    parts = list[bytes]()
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # EIO: the other side is closed
            part = b""
        if not part:
            break
        parts.append(part)
    os.close(main)
    return b"".join(parts).decode()


def test_code_cannot_drive_the_terminal() -> None:
    hit = {
        "index": "a",
        "path": "a\x1b[31m.py",
        "start_line": 1,
        "content": "x = '\x1b]0;owned\x07'\n\x9b31m",
        "symbol_name": "n\r\n",
        "symbol_type": "function",
        "score": 1.0,
        "match_type": "both",
    }
    reply = {
        "query": "x",
        "index": "a",
        "results": [hit],
        "fresh": True,
        "cache": "miss",
        "timings_ms": {},
    }
    lines = "\n".join(answers.text(reply, output.Style(colour=False, links=False), {}))
    assert not set(lines) & {"\x1b", "\x07", "\x9b", "\r"}
    assert len(list(answers.grep(reply, {}, "/"))) == 1


def test_a_snippet_shows_the_line_that_was_asked_for() -> None:
    """A function appended to a file may be the last line of a long chunk: without it, the answer
    looks wrong.
    """
    code = "\n".join([*(f"a{number} = {number}" for number in range(30)), "def wanted(): pass"])
    hit = {"index": "a", "path": "a.py", "start_line": 101, "content": code}
    hit |= {"symbol_name": None, "symbol_type": None, "score": 1.0, "match_type": "both"}
    reply = {
        "query": "wanted",
        "index": "a",
        "results": [hit],
        "fresh": True,
        "cache": "miss",
        "timings_ms": {},
    }
    lines = list(answers.text(reply, output.Style(colour=False, links=False), {}))
    assert lines[1:4] == ["    101  a0 = 0", "    … 20 lines", "    122  a21 = 21"]
    assert lines[12] == "    131  def wanted(): pass"
    other_lines = list(
        answers.text(reply | {"query": "absent"}, output.Style(colour=False, links=False), {})
    )
    assert (other_lines[1], other_lines[11]) == ("    101  a0 = 0", "    … 21 more lines")


def test_open_goes_to_the_line(served: Served) -> None:
    done = ctl(served, "query", "retry", "--index", "demo", "--open", "1", env={"EDITOR": "echo"})
    assert done.stdout == "+3 /srv/demo/src/retry.py\n"
    assert (
        ctl(served, "query", "retry", "--index", "demo", "--open", "9").returncode == exits.FAILED
    )
    done = ctl(
        served, "query", "retry", "--index", "demo", "--open", "1", env={"EDITOR": "/nowhere/ed"}
    )
    assert done.stderr.startswith("error: cannot start /nowhere/ed")


def test_every_verb_has_help_with_an_example_and_a_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for verb in parser.VERBS:
        with pytest.raises(SystemExit, match="0"):
            parser.parser().parse_args([verb.name, "--help"])
        output = " ".join(capsys.readouterr().out.split())
        assert f"example: {verb.example}" in output
        assert callable(verb.function())


def test_places_in_files() -> None:
    assert line_range.parse_location("a/b:c.py:3-9") == ("a/b:c.py", 3, 9)
    assert line_range.parse_location("a.py:3") == ("a.py", 3, 3)
    assert line_range.parse_location("a.py") == ("a.py", None, None)


def test_files_of_an_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state").mkdir()
    with anyio.from_thread.start_blocking_portal() as portal:
        served = start(tmp_path / "run", tmp_path / "state", portal, EngineWithFiles())
        params = {
            "index": "demo",
            "json": False,
            "under": "src",
            "glob": None,
            "limit": 1,
            "place": "src/a.py:2-3",
        }
        params |= {"sync_timeout_ms": None}
        for run in (file_verbs.files, file_verbs.cat, file_verbs.related, file_verbs.languages):
            assert run(argparse.Namespace(**params), served.environment) == exits.OK
        served.stop()
    output = capsys.readouterr().out
    assert output.startswith("src/a.py\nb\nc\n\n 1. src/retry.py:3")
    assert output.splitlines()[-1].split() == ["go", "tree-sitter", "yes", ".go"]
    assert served.engine.requests == [
        workspace_protocol.ListFilesRequest("demo", under="src", limit=1),
        workspace_protocol.GetFileRequest("src/a.py", "demo", start_line=2, end_line=3),
        workspace_protocol.FindRelatedRequest("src/a.py", 2, "demo", limit=1),
    ]


def test_the_name_of_a_file_may_end_as_a_location_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class OneFile(EngineWithFiles):
        async def get_file(
            self, request: workspace_protocol.GetFileRequest
        ) -> workspace_protocol.GetFileReply:
            if request.path != "notes:2-3":
                raise Failure(f"there is no file {request.path}", code=error_codes.NOT_FOUND)
            return await super().get_file(request)

    (tmp_path / "state").mkdir()
    with anyio.from_thread.start_blocking_portal() as portal:
        served = start(tmp_path / "run", tmp_path / "state", portal, OneFile())
        arguments = argparse.Namespace(place="notes:2-3", index="demo", json=False)
        assert file_verbs.cat(arguments, served.environment) == exits.OK
        arguments.place = "other:2"
        with pytest.raises(CallFailed, match=r"there is no file other$"):
            file_verbs.cat(arguments, served.environment)
        served.stop()
    assert capsys.readouterr().out == "b\nc\n"


def test_top_draws_until_it_is_interrupted(served: Served) -> None:
    assert "demo   live       2       5  12.3 kB        0      7  -" in ctl(served, "top").stdout
    main, worker = pty.openpty()
    environment = served.environment | {"TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [*CTL, "top", "--interval", "0.05"],
        env=environment,
        stdout=worker,
        stderr=worker,
        start_new_session=True,
    )
    output = b""
    while output.count(b"cocosearchd 0.1.0") < 3:
        output += os.read(main, 65536)
    assert b"queries  " in output
    assert b"12.3 kB of indexes" in output
    assert b"\x1b[?7l" in output, "a line that is too long must not become two"
    process.send_signal(signal.SIGINT)
    while b"\x1b[?1049l" not in output:
        output += os.read(main, 65536)
    assert b"\x1b[?7h" in output
    assert process.wait(60) == 0
    assert b"Traceback" not in output
    os.close(main)
    os.close(worker)


def test_the_version_is_the_distributions() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8")
    assert f'\nversion = "{VERSION}"\n' in text


def test_exit_codes_are_documented() -> None:
    documented = {
        int(code) for code in re.findall(r"^\| (\d+) \|", exits.__doc__ or "", re.MULTILINE)
    }
    assert documented == {
        value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)
    }


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("error: no luck — hint: try again\n", ("no luck", "try again")),
        (
            '{"event": "start_failed", "level": "error", "error": "e", "hint": "h"}\n{"level": "info"}\n',
            ("e", "h"),
        ),
        ('{"event": "start_failed", "level": "error"}\n', ("start_failed", "")),
        ("Traceback:\n  x\nValueError: y\n\n", ("ValueError: y", "")),
        ("", ("it wrote no message", "")),
    ],
)
def test_the_last_error_of_a_log(log: str, expected: tuple[str, str]) -> None:
    assert daemon_process.last_error(log) == expected


def test_a_daemon_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = [
        sys.executable,
        "-c",
        "import sys; sys.exit('error: a setting is wrong — hint: mend it')",
    ]
    environment = {
        "COCOSEARCH_STATE_DIR": str(tmp_path),
        "COCOSEARCH_RUNTIME_DIR": str(tmp_path / "run"),
        "HOME": "/",
    }
    # The program itself is replaced: what is tested is what is said when it ends.
    monkeypatch.setattr("cocosearch_ipc.cli.program.command", lambda _: failing)
    messages = list[str]()
    with pytest.raises(Exception, match="cocosearchd did not start: a setting is wrong") as failed:
        daemon_process.ensure_running(environment, messages.append)
    assert getattr(failed.value, "hint", "") == "mend it"
    assert messages == ["starting cocosearchd (the first start creates its database) ..."]


@pytest.mark.parametrize(
    ("log_room_bytes", "message"),
    [
        (0, "did not start: it wrote no message"),
        (1 << 62, "the disk of its state directory is full"),
    ],
)
def test_a_daemon_that_cannot_write_its_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_room_bytes: int, message: str
) -> None:
    environment = {"COCOSEARCH_STATE_DIR": str(tmp_path), "HOME": "/"}
    monkeypatch.setattr("cocosearch_ipc.cli.program.command", lambda _: ["false"])
    monkeypatch.setattr(daemon_process, "LOG_ROOM_BYTES", log_room_bytes)
    with pytest.raises(CallFailed, match=message) as failed:
        daemon_process.ensure_running(environment, lambda _: None)
    assert str(tmp_path) in failed.value.hint
    assert failed.value.exit_code == exits.NOT_RUNNING


def test_a_check_that_hangs_is_given_up_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr("cocosearch_ipc.cli.program.command", lambda _: hanging)
    monkeypatch.setattr("cocosearch_ipc.cli.setup.config_verbs.LONG_S", 0.1)
    with pytest.raises(CallFailed, match=r"did not end within 0\.1 s") as failed:
        run(["config", "check"], {"HOME": "/"})
    assert failed.value.code == error_codes.TIMED_OUT


def test_numbers_for_people() -> None:
    assert [tables.size(n) for n in (0, 999, 1500, 12_345_678)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "12.3 MB",
    ]
    assert [tables.duration(s) for s in (0.25, 59, 65, 3_700, 90_000)] == [
        "0.2 s",
        "59 s",
        "1m 05s",
        "1h 01m",
        "1d 1h",
    ]


def test_nothing_is_known_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run us under a number without a name and without a home."""

    def unknown(_: int) -> Any:
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert address.state_dir({}) == "/nonexistent/.local/state/cocosearch"
    assert address.config_file({}) == "/nonexistent/.config/cocosearch/config.yaml"
    assert not service_manager.is_installed({"PATH": os.environ["PATH"]})
