"""A switch to another embedder: the old vectors answer until the new ones are complete."""

import asyncio
import random
import time
from pathlib import Path

from cocosearchd.config.settings import DatabaseSettings
from cocosearchd.store.connection.database import Database
from tests.daemon import Daemon
from tests.embedding.ollama_server import Script, ollama_server
from tests.flows.test_crash import digest, in_sync, populate

FILES = 40
WAIT_S = 60.0
QUESTION = "a class that decides about retries"  # no word of the files: vectors alone answer


def populated(root: Path) -> Path:
    root.mkdir()
    populate(root, random.Random(7), FILES)
    return root


def notes(daemon: Daemon) -> str:
    (index,) = daemon.call("status")["indexes"]
    return " ".join(index["notes"])


def tables(daemon: Daemon) -> tuple[int, int]:
    """Rows of the registry, and tables of chunks."""

    async def read() -> tuple[int, int]:
        dsn = daemon.call("status")["store"]["dsn"]
        async with Database.open(dsn, DatabaseSettings()) as db, db.connection() as connection:
            counted = (
                "select (select count(*) from cocosearch_indexes), (select count(*) from pg_tables"
            )
            row = await (
                await connection.execute(counted + " where tablename like '%_chunks')")
            ).fetchone()
        assert row
        return row[0], row[1]

    return asyncio.run(read())


def until_switched(daemon: Daemon) -> None:
    end = time.monotonic() + WAIT_S
    while "vectors of" in notes(daemon) or tables(daemon) != (1, 1):
        assert time.monotonic() < end, f"{notes(daemon)} {tables(daemon)} {daemon.log[-4000:]}"
        time.sleep(0.2)
    in_sync(daemon)


def test_other_weights_under_the_same_name_are_never_mixed_in(
    stopped: Daemon, tmp_path: Path
) -> None:
    """`ollama pull` brings them while the daemon runs; the remedy that is named helps without a
    restart.
    """
    daemon, root, script = stopped, populated(tmp_path / "root"), Script(dimension=32)
    with ollama_server(script) as url:
        daemon.variables |= {
            "COCOSEARCH_EMBEDDER_PROVIDER": "ollama",
            "COCOSEARCH_EMBEDDER_OLLAMA_URL": url,
        }
        daemon.start()
        daemon.index(root, "sample")
        script.models = {"nomic-embed-text:latest": "sha256:other"}
        assert any("another nomic-embed-text" in note for note in daemon.query(QUESTION)["notes"])
        (root / "saved.py").write_text("def quokka() -> None:\n    ...\n")
        reply = daemon.query("quokka", "--sync-timeout", "3")
        assert (reply["fresh"], "saved.py" in reply["pending"]) == (False, True)
        daemon.ctl("reindex", "sample", "--no-wait")
        until_switched(daemon)
        assert "saved.py" in daemon.paths("quokka")
        assert daemon.call("status")["embedder"]["revision"] == "sha256:other"
        assert not daemon.query(QUESTION)["notes"]


def test_the_old_vectors_answer_until_the_new_ones_are_complete(
    stopped: Daemon, other_daemon: Daemon, tmp_path: Path
) -> None:
    daemon, root = stopped, populated(tmp_path / "root")
    daemon.start()
    daemon.index(root, "sample")
    expected = daemon.paths(QUESTION)
    assert expected
    daemon.stop()

    script = Script(dimension=32)
    with ollama_server(script) as url:
        ollama = {"COCOSEARCH_EMBEDDER_PROVIDER": "ollama", "COCOSEARCH_EMBEDDER_OLLAMA_URL": url}
        daemon.variables |= ollama
        daemon.start()
        # not asked for yet
        assert daemon.ctl("query", QUESTION, "--index", "sample", check=False).returncode == 1
        done = daemon.ctl("up", str(root), check=False)
        assert (done.returncode, "cocosearchctl reindex sample" in done.stderr) == (1, True), (
            done.stdout
        )
        script.status = 503  # from here on nothing can be completed
        daemon.ctl("reindex", "sample", "--no-wait")
        assert "vectors of ollama" in notes(daemon)
        assert daemon.paths(QUESTION) == expected
        (root / "saved.py").write_text("def quokka() -> None:\n    ...\n")
        in_sync(daemon)  # the one that answers is kept fresh, with the embedder it was made by
        assert "saved.py" in daemon.paths("quokka")

        daemon.kill()
        script.status = 0
        script.delay_s = 0.05
        daemon.start()
        assert daemon.paths(QUESTION, "--no-sync") is not None
        until_switched(daemon)
        assert "saved.py" in daemon.paths("quokka")
        switched = digest(daemon)

        other_daemon.variables |= ollama
        other_daemon.start()
        other_daemon.index(root, "sample")
        in_sync(other_daemon)
        assert switched == digest(other_daemon)

        daemon.stop()
    for name in ollama:
        del daemon.variables[name]
    daemon.start()
    daemon.ctl("reindex", "sample")  # and back, with the former server gone
    until_switched(daemon)
    assert set(expected) <= set(daemon.paths(QUESTION, "--limit", "50"))
    explanation = daemon.call("search", query=QUESTION, index="sample", explain=True)["explain"]
    assert explanation["lexical"]["state"] == "warm", explanation["lexical"]
