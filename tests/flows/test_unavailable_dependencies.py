"""Settings, database and embedder that are unavailable, parts that die, and signals: the daemon's
reaction.
"""

import os
import random
import shutil
import signal
import string
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest

from cocosearch_ipc.client import CallFailed
from tests import waiting
from tests.daemon import Daemon, make_daemon, passing_daemon
from tests.embedding.ollama_server import Script, ollama_server

wait_until = partial(waiting.wait_until, limit_s=90.0)


# Each of them kept libpq from the daemon's own server, or had it speak an encoding that lacks
# characters.
OF_ANOTHER_SERVER = {
    "PGHOSTADDR": "127.0.0.1",
    "PGSERVICE": "missing",
    "PGREQUIREAUTH": "scram-sha-256",
    "PGTARGETSESSIONATTRS": "standby",
    "PGCLIENTENCODING": "SQL_ASCII",
}


@pytest.fixture(scope="module")
def surviving_daemon(cluster: Path) -> Iterator[Daemon]:
    """The running daemon behind `survivor`, with variables of another server."""
    with passing_daemon(cluster, **OF_ANOTHER_SERVER) as daemon:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0
        assert "Traceback" not in daemon.log.rpartition('"ready"')[2]


@pytest.fixture
def survivor(surviving_daemon: Daemon) -> Iterator[Daemon]:
    """A running daemon, one for the tests of what it survives: each leaves it as it was."""
    yield surviving_daemon
    surviving_daemon.clear()


def first(daemon: Daemon, word: str, *, fresh: bool = False) -> str | None:
    """The path of the best answer, asked without a process of its own; None while there is none, or
    none that is as fresh as wanted.
    """
    try:
        reply = daemon.call("search", query=word, index="project")
    except CallFailed:
        return None
    results = reply["results"] if reply["fresh"] or not fresh else []
    return results[0]["path"] if results else None


@pytest.mark.parametrize(
    ("variables", "code", "sentence"),
    [
        (
            {"COCOSEARCH_SEARCH_LIMIT": "many"},
            78,
            "search.limit in COCOSEARCH_SEARCH_LIMIT is 'many'",
        ),
        ({"COCOSEARCH_SEARCH_LIMT": "3"}, 78, "did you mean COCOSEARCH_SEARCH_LIMIT"),
        (
            {"COCOSEARCH_DATABASE_URL": "postgresql://me:secret@127.0.0.1:1/x"},
            69,
            "127.0.0.1:1 cannot be reached",
        ),
    ],
)
def test_the_reason_why_a_daemon_does_not_start_is_one_sentence(
    stopped: Daemon, variables: dict[str, str], code: int, sentence: str
) -> None:
    stopped.variables.update(variables)
    assert stopped.launch().wait(120) == code
    lines = [line for line in stopped.log.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert sentence in lines[0]
    assert " — hint: " in lines[0]
    assert "Traceback" not in stopped.log
    assert "secret" not in stopped.log


def test_up_says_why_the_daemon_does_not_start(stopped: Daemon, project: Path) -> None:
    stopped.variables["COCOSEARCH_SEARCH_LIMIT"] = "many"
    refused = stopped.ctl("up", str(project), check=False)
    assert refused.returncode == 78
    assert "search.limit in COCOSEARCH_SEARCH_LIMIT is 'many'" in refused.stderr


def test_up_and_down_say_where_the_daemon_of_this_state_listens(
    survivor: Daemon, project: Path, tmp_path: Path
) -> None:
    daemon = survivor
    for line in (("up", str(project)), ("down",)):
        daemon.variables["COCOSEARCH_RUNTIME_DIR"] = str(tmp_path / "other")
        refused = daemon.ctl(*line, check=False)
        del daemon.variables["COCOSEARCH_RUNTIME_DIR"]
        assert refused.returncode == 69
        run = daemon.home / "run"
        assert (
            f"is running, with its sockets in {run} and not in {tmp_path / 'other'}"
            in refused.stderr
        )
        assert f"hint: COCOSEARCH_RUNTIME_DIR={run}" in refused.stderr
        assert daemon.answers()


def test_a_state_directory_that_cannot_be_made_is_one_sentence(
    stopped: Daemon, project: Path
) -> None:
    stopped.variables["COCOSEARCH_STATE_DIR"] = "/dev/null/state"
    assert stopped.launch().wait(120) == 1
    assert stopped.log.startswith(
        "error: /dev/null/state: Not a directory — hint: set COCOSEARCH_STATE_DIR"
    )
    assert "Traceback" not in stopped.log
    refused = stopped.ctl("up", str(project), check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert (
        refused.stderr.splitlines()[-1]
        == "error: /dev/null/state: Not a directory — hint: cocosearchctl doctor"
    )
    looked = stopped.ctl("doctor", check=False).stdout
    assert "fail  state directory: /dev/null cannot be written" in looked
    assert "set COCOSEARCH_STATE_DIR" in looked


def test_an_interrupt_while_the_daemon_starts_says_that_it_goes_on(
    stopped: Daemon, project: Path
) -> None:
    process = stopped.begin("up", str(project))
    assert process.stderr is not None
    assert process.stderr.readline().startswith("starting cocosearchd")
    wait_until(lambda: bool(psutil.Process(process.pid).children()), "the daemon starts")
    process.send_signal(signal.SIGINT)  # the daemon has locked nothing yet
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors.splitlines() == [
        "cocosearchd continues to start in the background; `cocosearchctl down` stops it",
        f"{project} is unchanged: run `cocosearchctl up` again to watch it",
    ]
    assert "has stopped" in stopped.ctl("down").stdout
    assert "not running" in stopped.ctl("down").stdout


def test_a_killed_worker_costs_no_question(survivor: Daemon, project: Path) -> None:
    daemon = survivor
    daemon.index(project)
    worker = daemon.json("status")["worker"]
    os.kill(worker["pid"], signal.SIGKILL)
    assert daemon.paths("should_retry")[0] == "src/retry.py"
    (project / "src" / "later.py").write_text("def written_after_the_kill():\n    pass\n")
    wait_until(
        lambda: first(daemon, "written_after_the_kill") == "src/later.py", daemon.log[-4000:]
    )
    assert daemon.json("status")["worker"]["deaths"] == worker["deaths"] + 1


def test_a_killed_postgres_comes_back_by_itself(survivor: Daemon, project: Path) -> None:
    daemon = survivor
    daemon.index(project)
    daemon.kill_postgres()
    (project / "src" / "later.py").write_text("def written_after_the_kill():\n    pass\n")
    wait_until(
        lambda: first(daemon, "written_after_the_kill") == "src/later.py", daemon.log[-4000:]
    )
    assert daemon.paths("written_after_the_kill")[0] == "src/later.py"
    assert daemon.json("status")["store"]["state"] == "up"


def test_a_removal_that_fails_changes_nothing(survivor: Daemon, project: Path) -> None:
    daemon = survivor
    daemon.index(project)
    dsn = daemon.call("status")["store"]["dsn"]
    blocked = (
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where wait_event_type = 'Lock' and query ~* 'drop table'"
    )
    with psycopg.connect(dsn, autocommit=True) as ending, psycopg.connect(dsn) as reading:
        reading.execute("select count(*) from codeindex_project__project_chunks")
        removal = daemon.begin("clear", "project", "--yes")
        wait_until(lambda: bool(ending.execute(blocked).fetchall()), "nobody drops the tables")
        assert "PostgreSQL went away" in removal.communicate(timeout=120)[1]
    save = project / "src" / "later.py"
    save.write_text("def written_after_the_failure():\n    pass\n")
    wait_until(
        lambda: first(daemon, "written_after_the_failure") == "src/later.py", daemon.log[-4000:]
    )
    daemon.ctl("clear", "project", "--yes")
    daemon.index(project)


def test_without_its_model_server_words_are_found_and_work_waits(
    stopped: Daemon, project: Path
) -> None:
    script = Script()
    with ollama_server(script) as url:
        stopped.variables |= {
            "COCOSEARCH_EMBEDDER_PROVIDER": "ollama",
            "COCOSEARCH_OLLAMA_URL": url,
        }
        stopped.start()
        stopped.index(project)
        assert stopped.json("status")["embedder"]["model"] == "nomic-embed-text"
        assert stopped.paths("should_retry")[0] == "src/retry.py"
        script.status = 500
        answer = stopped.query("ListenAndServe accepts connections")
        assert answer["results"][0]["path"] == "src/server.go"
        assert any("words" in note for note in answer["notes"])
        (project / "src" / "later.py").write_text("def written_in_the_meantime():\n    pass\n")
        late = stopped.query("written_in_the_meantime", "--sync-timeout", "3")
        assert late["fresh"] is False
        assert "src/later.py" in late["pending"]
        script.status = 0
        wait_until(
            lambda: first(stopped, "written_in_the_meantime") == "src/later.py",
            stopped.log[-4000:],
        )


def test_no_question_waits_for_a_slow_model_server_as_settings_change(
    stopped: Daemon, project: Path
) -> None:
    """They hold when what is being indexed by those of before is done; until then an answer says
    so.
    """
    script = Script()
    with ollama_server(script) as url:
        stopped.variables |= {
            "COCOSEARCH_EMBEDDER_PROVIDER": "ollama",
            "COCOSEARCH_OLLAMA_URL": url,
            "COCOSEARCH_EMBEDDER_QUERY_TIMEOUT_S": "0.1",
        }
        stopped.start()
        stopped.index(project)
        script.delay_s, request_count = 15.0, len(script.requests)
        (project / "src" / "later.py").write_text("def written_later():\n    pass\n")
        wait_until(lambda: len(script.requests) > request_count, "nothing is embedded")
        (project / "cocosearch.yaml").write_text("indexing: {chunkSize: 900}\n")
        wait_until(lambda: changing(stopped), "the settings are not followed")
        script.delay_s = 0.0
        wait_until(
            lambda: stopped.call("search", query="written_later", index="project")["fresh"],
            "it stays so",
        )


def test_settings_that_wait_for_a_slow_model_server_hold_up_nothing_else(
    stopped: Daemon, project: Path
) -> None:
    """Neither another index nor the end: both came after the answer of the server."""
    script, directory = Script(), stopped.home / "other"
    directory.mkdir()
    with ollama_server(script) as url:
        stopped.variables |= {
            "COCOSEARCH_EMBEDDER_PROVIDER": "ollama",
            "COCOSEARCH_OLLAMA_URL": url,
            "COCOSEARCH_EMBEDDER_QUERY_TIMEOUT_S": "0.1",
        }
        stopped.start()
        stopped.index(project)
        script.delay_s, request_count = 30.0, len(script.requests)
        (project / "src" / "later.py").write_text("def written_later():\n    pass\n")
        wait_until(lambda: len(script.requests) > request_count, "nothing is embedded")
        (stopped.home / "config.yaml").write_text("indexing: {chunk_size: 900}\n")
        assert stopped.process is not None
        stopped.process.send_signal(signal.SIGHUP)
        wait_until(lambda: changing(stopped), "the settings are not followed")
        assert stopped.call("index_codebase", path=str(directory))["created"]
        assert changing(stopped), "the other index came after it"
        assert stopped.stop() == 0
        assert '"reloaded"' not in stopped.log.partition('"stopping"')[0], "the end came after it"


def changing(daemon: Daemon) -> bool:
    """Ask a question that must be answered at once, and not as fresh; return whether it says that
    the settings have changed.
    """
    reply = daemon.call("search", query="should_retry", index="project", sync_timeout_ms=100)
    assert reply["results"][0]["path"] == "src/retry.py"
    assert not reply["fresh"], reply
    return "its settings have changed" in reply["stale_reason"]


def test_without_its_model_the_daemon_says_what_to_pull(stopped: Daemon, project: Path) -> None:
    with ollama_server(Script(models={})) as url:
        stopped.variables |= {
            "COCOSEARCH_EMBEDDER_PROVIDER": "ollama",
            "COCOSEARCH_OLLAMA_URL": url,
        }
        stopped.start()
        assert "ollama pull nomic-embed-text" in stopped.json("status")["embedder"]["hint"]
        refused = stopped.ctl("up", str(project), check=False)
        assert refused.returncode == 69
        assert "ollama pull nomic-embed-text" in refused.stderr


def test_another_embedder_that_comes_later_is_refused_until_reindexed(
    stopped: Daemon, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "again.py").write_text("def should_retry(): return False\n")
    stopped.start()
    stopped.index(project)
    assert stopped.stop() == 0
    script = Script(status=500)
    with ollama_server(script) as url:
        stopped.variables |= {
            "COCOSEARCH_EMBEDDER_PROVIDER": "ollama",
            "COCOSEARCH_OLLAMA_URL": url,
        }
        stopped.start()
        assert stopped.paths("should_retry")[0] == "src/retry.py"  # by words
        script.status = 0
        wait_until(lambda: "index_refused" in stopped.log, stopped.log)
        refused = stopped.ctl("query", "should_retry", check=False)
        assert refused.returncode == 1
        assert "cocosearchctl reindex project" in refused.stderr
        assert stopped.ctl("query", "should_retry", "--all", check=False).stderr == refused.stderr
        stopped.index(tmp_path / "other")
        answer = stopped.json("query", "should_retry", "--all")
        assert [hit["path"] for hit in answer["results"]] == ["again.py"]
        assert (answer["fresh"], "project: not searched" in answer["stale_reason"]) == (False, True)
        assert "cocosearchctl reindex project" in " ".join(answer["notes"])
        stopped.ctl("reindex", "project")
        stopped.ctl("sync", "--index", "project")
        assert stopped.paths("should_retry", "--index", "project")[0] == "src/retry.py"


def test_a_file_that_cannot_be_read_stops_no_other(shared: Daemon, project: Path) -> None:
    (project / "src" / "binary.py").write_bytes(b"\x00\x01\x02" * 100)
    (project / "src" / "large.py").write_text("x = 1\n" * 300_000)
    shared.index(project)
    assert shared.paths("should_retry")[0] == "src/retry.py"
    skipped = shared.json("stats", "project")["skipped"]
    assert skipped["binary"] == 1
    assert skipped["too_large"] == 1


def test_a_path_that_is_too_long_stops_no_other(shared: Daemon, project: Path) -> None:
    """PostgreSQL could not store it, nor anything in the same transaction. It compresses what
    repeats itself.
    """
    letters = random.Random(7)
    names = ["".join(letters.choices(string.ascii_letters, k=199)) for _ in range(14)]
    deep = project.joinpath(*names)
    deep.mkdir(parents=True)
    (deep / "deep.py").write_text("def far_below():\n    return 1\n")
    shared.index(project)
    assert shared.call("sync", index="project")["fresh"] is True
    assert shared.paths("should_retry")[0] == "src/retry.py"
    path = "/".join((*names, "deep.py"))
    report = shared.call("search", query="far_below", index="project", why_not=path)["explain"][
        "why_not"
    ]
    assert "is left out by its length" in report["reason"]


def test_skipped_files_are_counted_alike_everywhere(daemon: Daemon, project: Path) -> None:
    (project / "src" / "binary.py").write_bytes(b"\x00\x01\x02" * 100)
    (project / "src" / "large.py").write_text("x = 1\n" * 300_000)
    output = daemon.ctl("up", str(project), "--wait").stdout
    reasons = {"binary": 1, "too_large": 1}
    for restarted in (False, True):
        (listed,), (status,) = (daemon.json(verb)["indexes"] for verb in ("list", "status"))
        counted, files = (
            daemon.json("stats", "project"),
            daemon.json("files", "--index", "project")["files"],
        )
        assert (
            [counts["files"] for counts in (listed, status, counted)] == [len(files)] * 3 == [3] * 3
        )
        assert [counts["skipped"] for counts in (listed, status, counted)] == [reasons] * 3
        if not restarted:
            assert daemon.stop() == 0
            daemon.start()
    assert "5 files (2 of them skipped)" in output
    assert "3 files" in daemon.ctl("clear", "project", "--yes").stdout


def test_settings_are_read_again_on_sighup(survivor: Daemon, project: Path) -> None:
    daemon = survivor
    daemon.index(project)
    assert daemon.process is not None
    config = Path(daemon.environment["COCOSEARCH_CONFIG"])
    assert len(daemon.query("retry server")["results"]) > 1
    config.write_text(
        "search: {limit: 1, cache_bytes: 1000000}\nserver: {max_body_bytes: 2000000}\n"
    )
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: '"reloaded"' in daemon.log, daemon.log)
    assert len(daemon.query("retry server")["results"]) == 1
    assert '"needs_restart": ["search.cache_bytes", "server.max_body_bytes"]' in daemon.log
    config.write_text("search: {limit: many}\n")
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: '"reload_refused"' in daemon.log, daemon.log)
    assert len(daemon.query("retry server")["results"]) == 1
    config.unlink()
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(daemon.query("retry server")["results"]) > 1, daemon.log)
    assert "Traceback" not in daemon.log.rpartition('"reload_refused"')[2]


def test_any_other_postgresql_will_do_for_one_daemon(project: Path, dsn: str) -> None:
    """Each of two has its own view of the disk, and neither hears of what the other writes."""
    first, second = (make_daemon(COCOSEARCH_DATABASE_URL=dsn) for _ in range(2))
    try:
        first.start()
        first.index(project)
        assert first.json("status")["store"]["kind"] == "external"
        assert first.postgres() == []
        refused = second.ctl("up", str(project), check=False)
        assert refused.returncode == 69
        assert "another cocosearchd, from this machine, uses this database" in refused.stderr
        assert first.paths("should_retry")[0] == "src/retry.py"
        first.kill()
        second.start()  # what a killed daemon held is free
        assert second.paths("should_retry")[0] == "src/retry.py"
        assert second.stop() == 0
    finally:
        for daemon in (first, second):
            daemon.sweep()
            shutil.rmtree(daemon.home, ignore_errors=True)


def test_variables_of_another_server_do_not_matter(survivor: Daemon, project: Path) -> None:
    (project / "word.py").write_text("def größe():\n    return '日本語'\n", "utf-8")
    survivor.index(project)
    answer = survivor.query("größe")
    assert answer["fresh"]
    assert answer["results"][0]["path"] == "word.py"


def test_a_socket_that_was_cleaned_away_comes_back(survivor: Daemon, project: Path) -> None:
    """The server lives, and whoever is connected goes on; the next one, as a child that is started
    again, cannot.
    """
    survivor.index(project)
    (survivor.home / "state" / "postgres" / "run" / ".s.PGSQL.5432").unlink()
    psutil.Process(survivor.call("status")["worker"]["pid"]).kill()
    (project / "word.py").write_text("def zebra():\n    return 1\n")
    wait_until(lambda: first(survivor, "zebra", fresh=True) == "word.py", survivor.log)
    assert survivor.query("zebra")["fresh"]
