"""Every verb answers from the disk as it was when the question came, or says that it may not."""

from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from cocosearch_ipc import address, client, error_codes
from cocosearch_ipc.cli import exits
from tests.daemon import Daemon
from tests.embedding.ollama_server import Script, ollama_server
from tests.flows.test_switched_embedder import until_switched


def test_listed_and_counted_files_are_on_disk(shared: Daemon, project: Path) -> None:
    shared.index(project)
    for number in range(10):
        new = project / f"new{number}.py"
        new.write_text(f"def just_written_{number}():\n    return 1\n")
        listed = shared.call("list_files", index="project", pattern="new*.py")
        assert ([file["path"] for file in listed["files"]], listed["fresh"]) == ([new.name], True)
        assert shared.call("index_stats", index="project")["files"] == 4
        new.unlink()
        listed = shared.call("list_files", index="project", pattern="new*.py")
        assert (listed["files"], listed["fresh"], listed["stale_reason"]) == ([], True, None)
        counted = shared.call("index_stats", index="project")
        assert (counted["files"], counted["languages"]["python"]["files"], counted["fresh"]) == (
            3,
            1,
            True,
        )
    assert listed["as_of"]["seq"] > 0


def test_a_list_and_counts_that_may_be_of_before_say_so(shared: Daemon, project: Path) -> None:
    shared.index(project)
    for method in ("list_files", "index_stats"):
        reply = shared.call(method, index="project", sync_timeout_ms=0)
        assert (reply["fresh"], bool(reply["stale_reason"])) == (False, True), method
    listed = shared.ctl("files", "src", "--no-sync", cwd=project)
    assert listed.stdout.split() == ["src/retry.py", "src/server.go"]
    assert "not fresh: " in listed.stderr
    assert "not fresh" not in shared.ctl("files", cwd=project).stderr
    assert "not fresh" in shared.ctl("stats", "project", "--no-sync").stdout
    assert "not fresh" not in shared.ctl("stats", "project", "--sync-timeout", "20").stdout
    assert shared.json("files", "--limit", "2", cwd=project)["fresh"] is True


def test_pages_of_a_list_are_one_answer(shared: Daemon, project: Path) -> None:
    (project / "many").mkdir()
    for number in range(1005):
        (project / "many" / f"m{number:04}.py").write_text("x = 1\n")
    shared.index(project)
    reply = shared.json("files", "many", "--limit", "1003", cwd=project)
    assert ([len(reply["files"]), reply["fresh"]], bool(reply["cursor"])) == ([1003, True], True)
    assert shared.json("files", "many", "--limit", "2000", cwd=project)["cursor"] is None


def test_settings_of_a_project_are_those_on_disk(shared: Daemon, project: Path) -> None:
    shared.index(project)
    for limit in (3, 4, 5):
        (project / "cocosearch.yaml").write_text(f"search:\n  limit: {limit}\n")
        reply = shared.call("config", index="project")
        assert {value["key"]: value["value"] for value in reply["values"]}["search.limit"] == limit


def test_an_index_that_fails_leaves_no_answer_of_several_fresh(
    stopped: Daemon, project: Path, tmp_path: Path, dsn: str
) -> None:
    directory = tmp_path / "other"
    directory.mkdir()
    (directory / "policy.py").write_text("def should_retry_elsewhere():\n    pass\n")
    stopped.variables["COCOSEARCH_DATABASE_URL"] = dsn
    stopped.start()
    stopped.index(project)
    stopped.index(directory)
    query = {"query": "should_retry", "all_indexes": True, "profile": "classic", "use_cache": False}
    assert stopped.call("search", **query)["fresh"] is True
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            sql.SQL("DROP TABLE {}").format(sql.Identifier("codeindex_other__other_chunks"))
        )
    reply = stopped.call("search", **query)
    assert {hit["index"] for hit in reply["results"]} == {"project"}
    assert (reply["fresh"], reply["indexes"]) == (False, ["other", "project"])
    assert reply["stale_reason"].startswith("other: not searched: "), reply["stale_reason"]


def test_an_answer_of_several_indexes_names_the_one_that_is_not_fresh(
    shared: Daemon, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    shared.ctl("up", str(tmp_path / "other"), "--topic", "both", "--wait")
    shared.ctl("up", str(project), "--topic", "both", "--wait")
    project.rename(tmp_path / "elsewhere")
    query = {"query": "should_retry", "all_indexes": True}
    for reply in (
        shared.call("search", **query),
        shared.call("list_files", topic="both"),
    ):
        assert reply["fresh"] is False
        assert reply["stale_reason"].startswith("project: "), reply["stale_reason"]
    assert not shared.call("search", query="x", index="project")["stale_reason"].startswith(
        "project: "
    )


def test_a_refused_index_is_named_in_lists_and_where_all_are_waited_for(
    stopped: Daemon, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "policy.py").write_text("def should_retry_elsewhere():\n    pass\n")
    stopped.start()
    stopped.index(project)
    stopped.stop()
    with ollama_server(Script(dimension=32)) as url:
        stopped.variables |= {
            "COCOSEARCH_EMBEDDER_PROVIDER": "ollama",
            "COCOSEARCH_EMBEDDER_OLLAMA_URL": url,
        }
        stopped.start()
        refused_query = stopped.ctl("query", "should_retry", check=False)
        assert refused_query.returncode == exits.FAILED
        assert "cocosearchctl reindex project" in refused_query.stderr
        (project / "README.md").unlink()
        for method in ("list_files", "index_stats"):
            reply = stopped.call(method, index="project")
            assert (reply["fresh"], "was built with" in reply["stale_reason"]) == (False, True), (
                reply["stale_reason"]
            )
        stopped.index(tmp_path / "other")
        # 30 s are waited for what may pass
        done = stopped.ctl("sync", check=False, cwd=tmp_path, limit_s=20)
        assert done.returncode == exits.FAILED
        (line,) = done.stdout.splitlines()
        assert line.startswith("project: not fresh: ")
        assert "cocosearchctl reindex project" in line
        reply = stopped.call("sync")
        assert (reply["fresh"], reply["index"], [*reply["refused"]]) == (
            False,
            "project",
            ["project"],
        )
        (tmp_path / "other").rename(tmp_path / "elsewhere")
        lines = stopped.ctl("sync", "--timeout", "1", check=False, cwd=tmp_path).stdout.splitlines()
        assert [line.partition(": not fresh: ")[0] for line in lines] == ["other", "project"]


UNSAVED = "def give_up_quietly(error):\n    return None\n"


def unsaved(editor: client.Session) -> tuple[str, bool]:
    """The first answer about what is not saved."""
    results = editor.call("search", {"query": "give_up_quietly", "index": "project"})["results"][0]
    return results["path"], results["overlay"]


def test_unsaved_text_stays_when_its_index_is_made_again(shared: Daemon, project: Path) -> None:
    shared.index(project)
    with client.Session(address.rpc_socket(shared.environment)) as editor:
        editor.put(str(project / "src" / "retry.py"), UNSAVED)
        assert unsaved(editor) == ("src/retry.py", True)
        shared.call("clear_index", index="project")
        shared.index(project)
        assert unsaved(editor) == ("src/retry.py", True)
        assert (
            editor.call("get_file", {"path": "src/retry.py", "index": "project"})["content"]
            == UNSAVED
        )
        assert editor.clear(str(project / "src" / "retry.py"))["files"] == 0
        assert unsaved(editor)[1] is False


def test_unsaved_text_stays_when_another_embedder_takes_over(
    stopped: Daemon, project: Path
) -> None:
    script = Script(dimension=32, models={"nomic-embed-text:latest": "sha256:old"})
    with ollama_server(script) as url:
        stopped.variables |= {
            "COCOSEARCH_EMBEDDER_PROVIDER": "ollama",
            "COCOSEARCH_EMBEDDER_OLLAMA_URL": url,
        }
        stopped.start()
        stopped.index(project)
        with client.Session(address.rpc_socket(stopped.environment)) as editor:
            editor.put(str(project / "src" / "retry.py"), UNSAVED)
            script.models = {"nomic-embed-text:latest": "sha256:other"}
            stopped.ctl("reindex", "project")
            until_switched(stopped)
            request_count = len(script.requests)
            assert unsaved(editor) == ("src/retry.py", True)
            assert unsaved(editor) == ("src/retry.py", True)
            sources = [
                text
                for request in script.requests[request_count:]
                for text in request["input"]
                if "return None" in text
            ]
            assert len(sources) == 1, "the vectors of the other embedder, made once"


def refused(daemon: Daemon, method: str, **parameters: Any) -> str:
    """Return the error of a call that is refused."""
    with pytest.raises(client.CallFailed) as failed:
        daemon.call(method, index="project", **parameters)
    assert failed.value.code == error_codes.INVALID_PARAMS
    assert failed.value.hint
    return failed.value.message


def test_requests_that_would_hold_up_others_are_refused(shared: Daemon, project: Path) -> None:
    shared.index(project)
    globs = [f"*x{number}*" for number in range(3000)]
    for profile in ("code", "classic"):
        many = {"query": " ".join(f"word_{number}" for number in range(30_000)), "profile": profile}
        assert "characters" in refused(shared, "search", **many)
        assert "3,000 filters" in refused(
            shared, "search", query="retry", profile=profile, paths=globs
        )
        largest = " ".join(f"{chr(97 + n % 26)}_{n // 26:x}" for n in range(3000))[:10_000]
        assert (
            shared.call(
                "search", index="project", query=largest, profile=profile, sync_timeout_ms=0
            )["indexes"]
            is None
        )
    assert "a filter has 5,000 characters" in refused(shared, "list_files", pattern="*" * 5000)


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        (["web", "t\x1b[2J"], "error: 't\\x1b[2J' cannot be a topic"),
        ([""], "error: '' cannot be a topic"),
        (["x" * 101], "cannot be a topic"),
        ([str(number) for number in range(21)], "error: 21 topics are too many"),
    ],
)
def test_topics_are_short_and_printable(
    shared: Daemon, project: Path, topics: list[str], message: str
) -> None:
    options = [option for topic in topics for option in ("--topic", topic)]
    done = shared.ctl("up", str(project), *options, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert all(index["topics"] == [] for index in shared.json("list")["indexes"])


def test_a_report_of_any_size_and_content_is_answered(shared: Daemon, project: Path) -> None:
    """The largest one, ones without a word of the index."""
    shared.index(project)
    frames = "".join(f'  File "/srv/src/retry.py", line {n}, in f{n}\n' for n in range(1, 9000))
    largest = f"Retries stop\n```\nTraceback (most recent call last):\n{frames}```\n"[:200_000]
    for profile in ("code", "classic"):
        answer = shared.call("search", index="project", query=largest, profile=profile)
        assert answer["results"], profile
        for text in ("qzxv wvqk\nzzqq xxvv\n", "?!\n...\n" * 100):
            answer = shared.call("search", index="project", query=text, profile=profile)
            assert all(hit["relevance"] < 0.5 for hit in answer["results"]), (profile, text)
    assert "the query is empty" in refused(shared, "search", query="```\n```\n---\n")
    assert "200,001 characters" in refused(shared, "search", query="x" * 200_001)


def test_an_index_without_a_name_is_not_the_one_around_here(shared: Daemon, project: Path) -> None:
    shared.index(project)
    for command in (
        ("query", "retry"),
        ("files",),
        ("cat", "README.md"),
        ("sync",),
        ("config", "show"),
        ("repl",),
    ):
        done = shared.ctl(*command, "--index", "", cwd=project, check=False)
        assert (done.returncode, "the index name is empty" in done.stderr) == (2, True), command
    with pytest.raises(client.CallFailed, match="no index ''"):
        shared.call("search", query="retry", index="", cwd=str(project))


def test_every_list_of_the_daemon_is_shown(shared: Daemon) -> None:
    assert "builtin" in shared.ctl("models").stdout
    assert "python" in shared.ctl("languages").stdout
    assert shared.ctl("list").stdout
    assert "embedder.provider" in shared.ctl("config", "show").stdout


def test_symbols_are_listed_with_their_lines_page_by_page(shared: Daemon, project: Path) -> None:
    (project / "A.java").write_text(
        "class A {\n  int size;\n\n  int twice(int n) {\n    return 2 * n;\n  }\n"
        "  int thrice(int n) {\n    return 3 * n;\n  }\n}\n"
    )
    shared.index(project)
    reply = shared.json(
        "query", "--symbol-type", "method", "--path", "A.java", "--limit", "1", cwd=project
    )
    assert (reply["listing"], reply["fresh"], bool(reply["cursor"])) == (True, True, True)
    (first,) = reply["results"]
    lines = (first["start_line"], first["end_line"])
    assert (first["symbol_name"], lines, first["symbol_parent"]) == ("A.twice", (4, 6), "A")
    more = shared.ctl(
        *("query", "--symbol-type", "method", "--path", "A.java"),
        *("--cursor", reply["cursor"], "--format", "compact"),
        cwd=project,
    )
    assert "A.java:7-9 method A.thrice int thrice(int n)" in more.stdout
    assert "there are more" not in more.stdout
    (project / "A.java").write_text("class A { }\n")
    listed = shared.json("query", "sym:class,method", "--path", "A.java", cwd=project)
    assert [hit["symbol_name"] for hit in listed["results"]] == ["A"]


def test_a_page_of_symbols_says_that_files_have_changed(shared: Daemon, project: Path) -> None:
    source = project / "b.py"
    source.write_text("def help_first(): pass\n\n\ndef help_second(): pass\n")
    shared.index(project, "listed")
    first = shared.call("search", query="name:help*", index="listed", limit=1)
    for selection in ({"index": "listed"}, {"all_indexes": True}):
        request = {"query": "name:help*", "cursor": first["cursor"], **selection}
        rest = shared.call("search", **request)
        assert [hit["symbol_name"] for hit in rest["results"]] == ["help_second"]
        assert not [note for note in rest["notes"] if "earlier page" in note]
    source.write_text("# one line more\n" + source.read_text())
    for selection in ({"index": "listed"}, {"all_indexes": True}):
        request = {"query": "name:help*", "cursor": first["cursor"], **selection}
        (note,) = shared.call("search", **request)["notes"]
        assert note.startswith("files have changed since the earlier page")
