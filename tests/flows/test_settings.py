"""Settings through the real programs: files of projects, and messages about them."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cocosearch_ipc.cli.setup.config_verbs import starter
from cocosearchd.config.project import TOP, read_project
from cocosearchd.config.setting_effects import PROJECT_SETTINGS
from tests.daemon import Daemon, passing_daemon
from tests.waiting import wait_until

# of the starter file: what is left when a person takes away the `#`
SETTING = re.compile(r"# ( *(?:\w+:|- ).*)")
SHOP = """\
topics: [web]
linkedIndexes: [library, nowhere]
search: {limit: 2}
indexing:
  exclude: [generated/]
"""


@pytest.fixture(scope="module")
def settled(cluster: Path) -> Iterator[Daemon]:
    """One daemon for the tests of this file."""
    with passing_daemon(cluster) as daemon:
        daemon.start()
        yield daemon
        daemon.stop()


def make(home: Path, name: str, files: dict[str, str]) -> Path:
    for path, text in files.items():
        target = home / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return home / name


def test_a_project_settles_its_own_index(settled: Daemon) -> None:
    daemon = settled
    code = {
        f"{name}.py": f"def {name}_basket():\n    return 'basket'\n"
        for name in ("open", "close", "empty")
    }
    shop = make(
        daemon.home,
        "shop",
        code | {"generated/basket.py": "def basket():\n    pass\n", "cocosearch.yaml": SHOP},
    )
    library = make(
        daemon.home,
        "library",
        {"lib.py": "class Basket:\n    def add_basket(self):\n        return 1\n"},
    )
    daemon.ctl("up", str(library))
    daemon.ctl("up", str(shop))

    # An answer is of the index and of what it links, with the project's limit; what cannot be
    # searched is named.
    reply = daemon.query("basket", "--index", "shop")
    assert reply["indexes"] == ["shop", "library"]
    more = daemon.query("basket", "--index", "shop", "--limit", "5")
    assert {hit["index"] for hit in more["results"]} == {"shop", "library"}
    assert len(reply["results"]) == 2
    assert reply["notes"] == ["shop links 'nowhere', and there is no such index"]
    alone = daemon.json("query", "basket", "--index", "shop", "--no-linked", "--limit", "9")
    assert (alone["index"], len(alone["results"])) == ("shop", 4), "three files and the settings"
    assert daemon.query("basket", "--index", "library")["index"] == "library", (
        "a link leads one way"
    )
    assert daemon.json("query", "basket", "--topic", "web")["indexes"] == ["shop", "library"]

    # A change holds for the next question.
    (shop / "cocosearch.yaml").write_text(
        SHOP.replace("generated/", "empty.py").replace("nowhere", "shop")
    )
    reply = daemon.json("query", "basket", "--index", "shop", "--limit", "9", "--no-linked")
    assert reply["fresh"]
    assert {hit["path"] for hit in reply["results"]} >= {"generated/basket.py"}
    assert "empty.py" not in {hit["path"] for hit in reply["results"]}
    (line,) = [
        index["notes"] for index in daemon.json("list")["indexes"] if index["name"] == "shop"
    ]
    assert line == [
        "settings changed: exclude, linked_indexes; only files that come or go are touched"
    ]

    # A bad file is said in one sentence, and what held holds on; all indexes can be waited for from
    # anywhere.
    (shop / "cocosearch.yaml").write_text("indexing: {exclud: [x]}\n")
    assert daemon.json("sync", cwd=daemon.home)["indexes"][:2] == ["library", "shop"]
    assert "empty.py" not in daemon.paths("basket", "--index", "shop", "--limit", "9")
    output = daemon.ctl("status").stdout
    assert (
        "shop: unknown setting 'indexing.exclud' in cocosearch.yaml:1: did you mean indexing.exclude?"
        in output
    )
    assert "unknown setting 'indexing.exclud'" in daemon.ctl("up", str(shop)).stdout

    # Each value says where it comes from.
    (shop / "cocosearch.yaml").write_text(SHOP)
    daemon.ctl("sync", "shop")
    shown_values = {
        value["key"]: value for value in daemon.json("config", "show", cwd=shop)["values"]
    }
    assert shown_values["search.limit"] == {
        "key": "search.limit", "value": 2, "layer": "project", "place": "cocosearch.yaml:3",
    }  # fmt: skip
    assert shown_values["server.port"]["place"] == "COCOSEARCH_SERVER_PORT"
    assert shown_values["topics"]["value"] == ["web"]


def test_settings_without_a_daemon(tmp_path: Path, stopped: Daemon) -> None:
    stopped.variables["COCOSEARCH_DATABASE_URL"] = "postgresql://me:hunter2@127.0.0.1:1/x"
    (stopped.home / ".env").write_text("COCOSEARCH_SEARCH_LIMIT=7\n")
    project = make(tmp_path, "p", {"cocosearch.yaml": "indexing: {chunkSize: 500}\n"})
    output = stopped.ctl("config", "show", "--json", cwd=project).stdout
    values = {value["key"]: value for value in json.loads(output)["values"]}
    assert "hunter2" not in output
    assert values["search.limit"]["place"] == f"{stopped.home}/.env:1"
    assert (values["indexing.chunk_size"]["value"], values["indexing.chunk_size"]["layer"]) == (
        500,
        "project",
    )

    checked = stopped.ctl("config", "check", "--json", cwd=project, check=False)
    findings = {value["what"]: value for value in json.loads(checked.stdout)["findings"]}
    assert checked.returncode == 1
    assert (findings["settings"]["state"], findings["embedder"]["state"]) == ("ok", "ok")
    assert "cannot be reached" in findings["database"]["message"]
    assert "inotify watches" in findings

    (stopped.home / "config.yaml").write_text("serach: {limit: 3}\nsearch: {limt: 3}\n")
    wrong = stopped.ctl("config", "check", cwd=project, check=False)
    assert wrong.returncode == 78
    assert "unknown setting 'serach.limit'" in wrong.stdout
    wrong = stopped.ctl("config", "show", cwd=project, check=False)
    assert (wrong.returncode, wrong.stdout) == (78, "")
    assert "did you mean search.limit?" in wrong.stderr


@pytest.mark.parametrize(
    ("part", "lines", "words"),
    [
        pytest.param(
            *("listener", "server: {host: 0.0.0.0}", "needs server.remote: true"),
            marks=pytest.mark.slow,
        ),
        ("listener", 'server: {host: "a\\nb"}', "needs server.remote: true"),
        ("listener", "server: {tls_cert: /none, tls_key: /none}", "/none: No such file"),
        ("weights", "search: {weights_file: /none}", "/none has no weights: No such file"),
    ],
)
def test_the_check_refuses_what_the_daemon_refuses(
    stopped: Daemon, part: str, lines: str, words: str
) -> None:
    (stopped.home / "config.yaml").write_text(lines)
    checked = stopped.ctl("config", "check", check=False)
    refused = stopped.ctl("up", str(stopped.home), check=False)
    assert (checked.returncode, refused.returncode) == (78, 78), (lines, refused.stderr)
    assert re.search(rf"^fail +{part}: .*{re.escape(words)}", checked.stdout, re.MULTILINE)
    assert words in refused.stderr, "the daemon says why on one line of its log"


def test_the_check_says_that_port_0_is_any(stopped: Daemon) -> None:
    (stopped.home / "config.yaml").write_text("server: {port: 0}\n")
    assert "port 0 of 127.0.0.1" in stopped.ctl("config", "check").stdout


@pytest.mark.parametrize(
    ("size", "bytes_count"),
    [("24.5 MB", 25_690_112), pytest.param("33554432B", 1 << 25, marks=pytest.mark.slow)],
)
def test_the_server_starts_with_every_size_that_the_check_accepts(
    cluster: Path, size: str, bytes_count: int
) -> None:
    with passing_daemon(cluster, COCOSEARCH_DATABASE_SHARED_BUFFERS=size) as daemon:
        daemon.start()
        query = "select pg_size_bytes(current_setting('shared_buffers'))"
        with psycopg.connect(daemon.json("status")["store"]["dsn"]) as connection:
            assert connection.execute(query).fetchone() == (bytes_count,)


def test_a_shortened_option_is_not_taken_for_another(stopped: Daemon) -> None:
    done = subprocess.run(
        [stopped.bin / "cocosearchd", "--st", "search.limit=3", "--show-settings"],
        env=stopped.environment,
        cwd=stopped.home,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "unrecognized arguments: --st search.limit=3" in done.stderr


def test_init_writes_once(tmp_path: Path, stopped: Daemon) -> None:
    assert json.loads(stopped.ctl("init", "--json", cwd=tmp_path).stdout) == {
        "path": str(tmp_path / "cocosearch.yaml")
    }
    (tmp_path / "cocosearch.yaml").write_text("name: mine\n")
    refused = stopped.ctl("init", str(tmp_path), check=False)
    assert refused.returncode == 1
    assert "already exists" in refused.stderr
    assert (tmp_path / "cocosearch.yaml").read_text() == "name: mine\n"
    stopped.ctl("init", str(tmp_path), "--force")
    assert (tmp_path / "cocosearch.yaml").read_text() == starter(tmp_path.name)
    assert stopped.ctl("init", "nowhere", check=False).returncode == 2


def test_the_starter_names_every_setting_and_holds_when_all_of_it_is_set(tmp_path: Path) -> None:
    lines = starter("shop").splitlines()
    (tmp_path / "cocosearch.yaml").write_text(
        "\n".join(match[1] for line in lines if (match := SETTING.match(line)))
    )
    project = read_project(os.fsencode(tmp_path), {})
    assert {value.key for value in project.values} == PROJECT_SETTINGS
    assert {key for key, _ in project.origins} == set(TOP)
    assert (project.name, project.warnings) == ("shop", ())
    (tmp_path / "cocosearch.yaml").write_text(starter("shop"))
    assert read_project(os.fsencode(tmp_path), {}).values == ()


def test_rows_of_an_older_version_answer_with_a_warning(settled: Daemon, project: Path) -> None:
    daemon = settled
    daemon.index(project)
    store = daemon.json("status")["store"]["dsn"]
    old = "symbol_kinds = null, symbol_names = null, chunk_hash = 'of another version'"
    with psycopg.connect(store, autocommit=True) as connection:  # as an upgrade leaves them
        connection.execute(f"update codeindex_project__project_chunks set {old}")
    daemon.stop()
    daemon.start()
    warning = "chunks of project are of an older version"
    reply = daemon.query("sym:method retry", "--index", "project")
    assert [hit["path"] for hit in reply["results"]] == ["src/retry.py"]
    assert warning in reply["notes"][0]
    assert daemon.query("retry", "--index", "project")["notes"] == [], "nothing is lacking for this"
    chunks = daemon.json("stats", "project")["chunks"]
    (listed,) = [
        index["notes"] for index in daemon.json("list")["indexes"] if index["name"] == "project"
    ]
    assert daemon.json("stats", "project")["notes"] == listed
    assert daemon.json("stats", "project")["notes"][0].startswith(f"{chunks} {warning}")
    daemon.ctl("reindex", "project")
    daemon.ctl("sync", "project")
    assert daemon.json("stats", "project")["notes"] == []
    assert daemon.query("sym:method retry", "--index", "project")["notes"] == []


def test_files_of_an_older_version_are_read_again_for_their_symbols(
    settled: Daemon, project: Path
) -> None:
    """No chunk is written again, so nothing is embedded."""
    daemon = settled
    daemon.index(project)
    listed = daemon.query("sym:method", "--index", "project")["results"]
    rows = "select filename, chunk_number, xmin::text from codeindex_project__project_chunks order by 1, 2"
    older = """update cocosearch_indexes set shaping_settings = (
        select jsonb_object_agg(key, 'of another version') from jsonb_each(shaping_settings))"""
    with psycopg.connect(daemon.json("status")["store"]["dsn"], autocommit=True) as connection:
        written = connection.execute(rows).fetchall()
        connection.execute("update codeindex_project__project_files set symbols = null")
        connection.execute(older)
        daemon.stop()
    daemon.start()
    daemon.ctl("sync", "project")
    reply = daemon.query("sym:method", "--index", "project")
    assert (reply["results"], reply["notes"]) == (listed, [])
    assert reply["results"][0]["symbol_signature"]
    with psycopg.connect(daemon.json("status")["store"]["dsn"], autocommit=True) as connection:
        assert connection.execute(rows).fetchall() == written


def test_a_root_that_is_away_has_the_settings_it_had(settled: Daemon, tmp_path: Path) -> None:
    """Without its file it would be another project, all of whose files are to be read again:
    twice.
    """
    root = make(
        tmp_path, "mobile", {"cocosearch.yaml": "indexing: {chunk_size: 400}\n", "a.py": "a = 1\n"}
    )
    settled.ctl("up", str(root), "--wait")
    for restart in (False, True):
        away = root.rename(tmp_path / "away")
        if restart:
            settled.stop()
            settled.start()
        reply = settled.call("search", query="a", index="mobile")
        assert ([result["path"] for result in reply["results"]], reply["fresh"]) == (
            ["a.py"],
            False,
        )
        away.rename(root)
        assert settled.call("sync", index="mobile")["fresh"]
    (root / "later.py").write_text("b = 1\n")
    assert settled.call("sync", index="mobile")["fresh"], (
        "what is written then is made as all before was"
    )
    messages = [
        line
        for line in settled.log.splitlines()
        if '"settings_changed"' in line and '"mobile"' in line
    ]
    assert messages == []
    values = settled.call("config", index="mobile")["values"]
    assert [result["value"] for result in values if result["key"] == "indexing.chunk_size"] == [400]
    settled.ctl("clear", "mobile", "--yes")


def test_declared_sources_are_watched_from_the_start(stopped: Daemon) -> None:
    daemon = stopped
    api = make(daemon.home, "api", {"a.py": "def answer():\n    return 42\n"})
    late = daemon.home / "late"
    (daemon.home / "config.yaml").write_text(
        f"sources:\n  - {api} topic:backend\n  - {late} topic:web\n"
    )
    daemon.start()
    wait_until(lambda: any("late" in line for line in daemon.call("status")["warnings"]), "warning")
    make(daemon.home, "late", {"b.py": "def late_answer():\n    return 43\n"})
    wait_until(lambda: len(daemon.call("list_indexes")["indexes"]) == 2, "two indexes")
    topics = {index["name"]: index["topics"] for index in daemon.call("list_indexes")["indexes"]}
    assert topics == {"api": ["backend"], "late": ["web"]}
    wait_until(lambda: not daemon.call("status")["warnings"], "no warning")
    hits = daemon.call("search", query="late_answer", topics=["web"])["results"]
    assert [hit["path"] for hit in hits] == ["b.py"]
