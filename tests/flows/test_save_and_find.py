"""The main job: save a file, find it. The real programs."""

import json
from pathlib import Path

import pytest

from tests.daemon import Daemon, git

KEYS = {
    "index", "path", "start_line", "end_line", "start_byte", "end_byte", "language", "score", "match_type",
    "block_type", "hierarchy", "symbol_type", "symbol_name", "symbol_signature", "content", "context_before",
    "context_after",
}  # fmt: skip


def test_a_newcomer_finds_what_was_saved(shared: Daemon, project: Path) -> None:
    up = shared.ctl("up", str(project), "--wait")
    assert "project" in up.stdout
    answer = shared.query("retry only server errors and at most three times")
    assert answer["index"] == "project"
    assert answer["fresh"] is True
    first = answer["results"][0]
    assert first.keys() >= KEYS
    assert first["path"] == "src/retry.py"
    assert "should_retry" in first["content"]
    data = (project / first["path"]).read_bytes()
    assert data[first["start_byte"] : first["end_byte"]].decode() == first["content"]

    (project / "src" / "backoff.py").write_text(
        "def exponential_backoff(attempt):\n    return 2 ** attempt\n"
    )
    answer = shared.query("exponential_backoff")
    assert (answer["results"][0]["path"], answer["fresh"]) == ("src/backoff.py", True)
    assert answer["cache"] == "miss"

    (project / "src" / "backoff.py").write_text("def linear_pause(attempt):\n    return attempt\n")
    assert "exponential_backoff" not in shared.query("exponential_backoff")["results"][0]["content"]
    assert shared.query("linear_pause")["results"][0]["symbol_name"] == "linear_pause"

    (project / "src" / "backoff.py").unlink()
    assert "src/backoff.py" not in shared.paths("linear_pause")


def test_a_directory_is_named_as_in_a_hit_or_from_here(shared: Daemon, project: Path) -> None:
    shared.ctl("up", str(project), "--wait")
    inside = [
        path
        for path in shared.ctl("files", cwd=project).stdout.splitlines()
        if path.startswith("src/")
    ]
    assert inside
    for argument in (".", "src", "../src/", "./", str(project / "src")):
        assert (
            shared.ctl("files", argument, cwd=project / "src").stdout.splitlines()[-len(inside) :]
            == inside
        ), argument
    assert (
        shared.ctl("files", "..", cwd=project / "src").stdout
        == shared.ctl("files", cwd=project).stdout
    )
    assert shared.ctl("files", "/etc", cwd=project).stdout == ""


def test_up_twice_changes_nothing_and_says_so(shared: Daemon, project: Path) -> None:
    shared.ctl("up", str(project), "--wait")
    previous = shared.json("list")["indexes"]
    again = shared.ctl("up", str(project), "--wait")
    assert "already" in again.stdout
    after = shared.json("list")["indexes"]
    assert [(i["name"], i["files"], i["generation"]) for i in previous] == [
        (i["name"], i["files"], i["generation"]) for i in after
    ]


def test_the_same_question_is_answered_from_the_cache_until_a_save(
    shared: Daemon, project: Path
) -> None:
    shared.ctl("up", str(project), "--wait")
    assert shared.query("retry policy")["cache"] == "miss"
    assert shared.query("retry policy")["cache"] == "exact"
    (project / "src" / "new.py").write_text("RETRY_POLICY = 'none'\n")
    assert shared.query("retry policy")["cache"] == "miss"


def test_a_checkout_of_another_branch_is_followed(shared: Daemon, project: Path) -> None:
    shared.ctl("up", str(project), "--wait")
    git(project, "checkout", "-q", "-b", "other")
    git(project, "rm", "-q", "src/server.go")
    (project / "src" / "client.rs").write_text(
        "pub fn connect_to_host(name: &str) -> bool {\n    true\n}\n"
    )
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "second")
    assert shared.paths("connect_to_host")[0] == "src/client.rs"
    assert "src/server.go" not in shared.paths("ListenAndServe")
    git(project, "checkout", "-q", "main")
    assert shared.paths("ListenAndServe")[0] == "src/server.go"
    assert "src/client.rs" not in shared.paths("connect_to_host")


def test_the_index_of_the_current_directory_is_used(
    shared: Daemon, project: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "other"
    directory.mkdir()
    (directory / "one.py").write_text("def only_here():\n    pass\n")
    shared.ctl("up", str(project), "--wait")
    shared.ctl("up", str(directory), "--name", "second", "--wait")
    assert shared.json("query", "only_here", cwd=directory)["index"] == "second"
    assert shared.json("query", "only_here", cwd=project / "src")["index"] == "project"
    refused = shared.ctl("query", "only_here", check=False)
    assert refused.returncode == 1
    assert "project" in refused.stderr
    assert "second" in refused.stderr


def test_a_restart_keeps_everything_and_down_ends_it(daemon: Daemon, project: Path) -> None:
    daemon.ctl("up", str(project), "--wait")
    assert daemon.stop() == 0
    assert daemon.postgres() == []
    (project / "src" / "while_away.py").write_text("def written_while_away():\n    pass\n")
    daemon.start()
    # of a daemon that has just started
    answer = daemon.query("written_while_away", "--sync-timeout", "40")
    assert (answer["results"][0]["path"], answer["fresh"]) == ("src/while_away.py", True)
    assert daemon.paths("should_retry")[0] == "src/retry.py"
    daemon.ctl("down")
    assert daemon.process is not None
    assert daemon.process.wait(60) == 0
    assert daemon.postgres() == []
    late = daemon.ctl("query", "anything", check=False)
    assert late.returncode == 69
    assert late.stderr.startswith("error: ")
    assert "cocosearchctl up" in late.stderr


def test_clear_forgets_the_index_only(shared: Daemon, project: Path) -> None:
    shared.ctl("up", str(project), "--wait")
    shared.ctl("clear", "project", "--yes")
    assert shared.json("list") == {"indexes": []}
    assert (project / "src" / "retry.py").exists()
    shared.ctl("up", str(project), "--wait")
    assert shared.paths("should_retry")[0] == "src/retry.py"


def test_a_second_daemon_on_the_same_state_is_refused(shared: Daemon) -> None:
    log_length = len(shared.log)
    assert shared.launch().wait(120) == 75
    assert "already" in shared.log[log_length:]
    assert shared.json("list") == {"indexes": []}


def test_background_work_is_no_part_of_the_request_that_began_it(
    shared: Daemon, project: Path
) -> None:
    shared.ctl("up", str(project), "--wait")
    records = [json.loads(line) for line in shared.log.splitlines() if line.startswith("{")]
    watching = [
        record
        for record in records
        if record["event"] == "watching" and record["root"] == str(project)
    ]
    assert watching
    assert not any("request_id" in record for record in watching)


@pytest.mark.parametrize(
    "arguments", [("lang:yaml deploy_the_site",), ("deploy_the_site", "--lang", "yaml")]
)
@pytest.mark.parametrize("profile", ["code", "classic"])
def test_a_language_finds_the_kinds_of_its_family(
    shared: Daemon, tmp_path: Path, arguments: tuple[str, ...], profile: str
) -> None:
    """A workflow is stored as `github-actions`, and is found as `yaml`."""
    root = tmp_path / "family"
    (root / ".github" / "workflows").mkdir(parents=True)
    workflow = "name: ci\non: push\njobs:\n  deploy_the_site:\n    runs-on: ubuntu\n    steps:\n      - run: make\n"
    (root / ".github" / "workflows" / "ci.yml").write_text(workflow)
    (root / "deploy.py").write_text("def deploy_the_site():\n    pass\n")
    shared.ctl("up", str(root), "--wait")
    answer = shared.query(*arguments, "--profile", profile)
    files = {(result["path"], result["language"]) for result in answer["results"]}
    assert files == {(".github/workflows/ci.yml", "github-actions")}
