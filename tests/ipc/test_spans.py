"""Spans of the real daemon and its indexer process with the SDK; the API alone makes none."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cocosearch_ipc import client
from tests.daemon import passing_daemon

pytest.importorskip("opentelemetry.sdk.trace", reason="no OpenTelemetry SDK: the group dev has it")

# What `opentelemetry-instrument` does for its users, with a file to look at.
CONFIGURED = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

out = open(os.environ["SPANS_FILE"], "a", buffering=1)
exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + chr(10))
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""


def test_a_query_and_a_file_are_spans_where_an_sdk_is_configured(
    tmp_path: Path, cluster: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(CONFIGURED)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.py").write_text("def found() -> int:\n    return 1\n")
    path = ":".join((str(tmp_path / "site"), *sys.path))
    with passing_daemon(cluster, SPANS_FILE=str(tmp_path / "spans"), PYTHONPATH=path) as daemon:
        daemon.start()
        rpc = str(daemon.home / "run" / "rpc.sock")
        client.call(rpc, "index_codebase", {"path": str(tmp_path / "project"), "name": "it"})
        list(client.stream(rpc, "follow", {"index": "it"}))
        assert client.call(rpc, "search", {"query": "found", "index": "it"})["results"]
        end = time.monotonic() + 60
        while "rpc search" not in (tmp_path / "spans").read_text():
            assert time.monotonic() < end
            time.sleep(0.05)
        daemon.stop()
    spans = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
    names = {span["name"] for span in spans}
    assert names >= {
        "rpc index_codebase",
        "rpc search",
        "search.sync",
        "index.batch",
        "index.parse",
        "index.embed",
    }
    query = next(span for span in spans if span["name"] == "rpc search")
    assert query["attributes"]["rpc.method"] == "search"
    assert len(query["attributes"]["cocosearch.request_id"]) == 8
    stages = [span for span in spans if span["name"].startswith("search.")]
    assert {span["context"]["trace_id"] for span in stages} == {query["context"]["trace_id"]}
    assert [span["attributes"]["files"] for span in spans if span["name"] == "index.parse"] == [1]
    assert [span["attributes"]["chunks"] for span in spans if span["name"] == "index.embed"] == [1]


def test_without_an_sdk_nothing_is_imported_and_nothing_made() -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from cocosearch_ipc.spans import span\n"
        "with span('a', b=1) as made: pass\n"
        "print(made, [name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *sys.path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "None []\n"
