"""Every verb answers from the disk as it was when the question came, or says that it may not."""

from pathlib import Path

import psycopg
from psycopg import sql

from tests.daemon import Daemon
from tests.embedding.ollama_server import Script, ollama_server


def test_what_is_listed_and_counted_is_on_disk(shared: Daemon, project: Path) -> None:
    shared.ctl("up", str(project), "--wait")
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
        assert (counted["files"], counted["languages"]["python"]["files"], counted["fresh"]) == (3, 1, True)
    assert listed["as_of"]["seq"] > 0


def test_a_list_and_counts_that_may_be_of_before_say_so(shared: Daemon, project: Path) -> None:
    shared.ctl("up", str(project), "--wait")
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
    shared.ctl("up", str(project), "--wait")
    reply = shared.json("files", "many", "--limit", "1003", cwd=project)
    assert ([len(reply["files"]), reply["fresh"]], bool(reply["cursor"])) == ([1003, True], True)
    assert shared.json("files", "many", "--limit", "2000", cwd=project)["cursor"] is None


def test_a_refused_index_is_listed_as_one_that_is_not_followed(stopped: Daemon, project: Path) -> None:
    stopped.start()
    stopped.ctl("up", str(project), "--wait")
    stopped.stop()
    with ollama_server(Script(dimension=32)) as url:
        stopped.variables |= {"COCOSEARCH_EMBEDDER_PROVIDER": "ollama", "COCOSEARCH_EMBEDDER_OLLAMA_URL": url}
        stopped.start()
        (project / "README.md").unlink()
        for method in ("list_files", "index_stats"):
            reply = stopped.call(method, index="project")
            assert (reply["fresh"], "was built with" in reply["stale_reason"]) == (False, True), reply["stale_reason"]


def test_settings_of_a_project_are_those_on_disk(shared: Daemon, project: Path) -> None:
    shared.ctl("up", str(project), "--wait")
    for limit in (3, 4, 5):
        (project / "cocosearch.yaml").write_text(f"search:\n  limit: {limit}\n")
        told = shared.call("config", index="project")
        assert {value["key"]: value["value"] for value in told["values"]}["search.limit"] == limit


def test_an_index_that_fails_leaves_no_answer_of_several_fresh(
    stopped: Daemon, project: Path, tmp_path: Path, dsn: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "policy.py").write_text("def should_retry_elsewhere():\n    pass\n")
    stopped.variables["COCOSEARCH_DATABASE_URL"] = dsn
    stopped.start()
    stopped.ctl("up", str(project), "--wait")
    stopped.ctl("up", str(other), "--wait")
    asked = {"query": "should_retry", "all_indexes": True, "profile": "classic", "use_cache": False}
    assert stopped.call("search", **asked)["fresh"] is True
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier("codeindex_other__other_chunks")))
    reply = stopped.call("search", **asked)
    assert {hit["index"] for hit in reply["results"]} == {"project"}
    assert (reply["fresh"], reply["indexes"]) == (False, ["other", "project"])
    assert reply["stale_reason"].startswith("other: not searched: "), reply["stale_reason"]
