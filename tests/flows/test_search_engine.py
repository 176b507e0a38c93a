"""Words that PostgreSQL stores for `classic`: from the first use on, through saves and crashes."""

import time
from pathlib import Path

import psycopg

from tests.daemon import Daemon

QUESTION = {"query": "should_retry", "index": "project", "profile": "classic", "use_cache": False}
COUNTS = """
select (select words from cocosearch_indexes where name = 'project'),
       (select count(*) from cocosearch_words_project),
       (select count(*) from codeindex_project__project_chunks)
"""


def counts(dsn: str) -> tuple[str, int, int]:
    """The state of the words, the number of chunks that have them, and of all chunks."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(COUNTS).fetchone()
    assert row
    return row[0], row[1], row[2]


def await_words(dsn: str, state: str) -> tuple[int, int]:
    end = time.monotonic() + 60
    while (current := counts(dsn))[0] != state:
        assert time.monotonic() < end, current
        time.sleep(0.1)
    return current[1:]


def hits(daemon: Daemon) -> list[tuple[str, int, str, float]]:
    return [
        (hit["path"], hit["start_line"], hit["match_type"], hit["score"])
        for hit in daemon.call("search", **QUESTION)["results"]
    ]


def test_words_are_stored_at_the_first_use_of_classic(
    stopped: Daemon, project: Path, dsn: str
) -> None:
    stopped.variables["COCOSEARCH_DATABASE_URL"] = dsn
    stopped.start()
    stopped.index(project)
    stopped.call("search", query="should_retry", index="project")
    state, words, chunks = counts(dsn)
    assert (state, words) == ("none", 0)
    assert chunks
    read = hits(stopped)
    assert read[0][0] == "src/retry.py"
    assert read[0][2] == "both"
    words, chunks = await_words(dsn, "complete")
    assert words == chunks > 0
    assert hits(stopped) == read

    (project / "src" / "later.py").write_text("def should_retry_later():\n    return 3\n")
    stopped.ctl("sync")
    assert "src/later.py" in [path for path, *_ in hits(stopped)]
    stopped.kill()
    (project / "src" / "later.py").unlink()
    (project / "src" / "never.py").write_text("def should_retry_never():\n    return 0\n")
    stopped.start()
    stopped.ctl("sync")
    answered = [path for path, *_ in hits(stopped)]
    assert "src/never.py" in answered
    assert "src/later.py" not in answered
    state, words, chunks = counts(dsn)
    assert (state, words) == ("complete", chunks)
