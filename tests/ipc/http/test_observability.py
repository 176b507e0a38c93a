"""Metrics, the dashboard and request ids: names are the same everywhere."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from cocosearch_ipc import protocol as p
from cocosearch_ipc.http.metrics import exposition
from tests.ipc.conftest import SDK_LEAVES_STREAMS, Served
from tests.ipc.engine import FixedEngine
from tests.ipc.mcp.test_mcp import transport

pytestmark = SDK_LEAVES_STREAMS

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana.json"
WORKER = {"state": "running", "deaths": 2, "computed": 10, "reused": 90}


async def _exposed() -> str:
    status = await FixedEngine().status(p.Empty())
    return exposition(
        p.StatusReply(
            **{name: getattr(status, name) for name in status.__slots__} | {"worker": WORKER}
        )
    )


async def test_the_dashboard_asks_for_what_there_is() -> None:
    samples = dict[str, set[str]]()
    for name, labels in re.findall(
        r"^(cocosearch_\w+)(?:\{(.*)\})? ", await _exposed(), re.MULTILINE
    ):
        samples.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) >= 12
    metrics = set[str]()
    for panel in panels:
        for target in panel["targets"]:
            for name, labels in re.findall(r"(cocosearch_\w+)(?:\{([^}]*)\})?", target["expr"]):
                metrics.add(name)
                label_names = set(re.findall(r"(\w+)[!=]", labels)) | set(
                    re.findall(r"{{(\w+)}}", target["legendFormat"])
                )
                assert label_names <= samples[name], (panel["title"], name)
    assert metrics <= set(samples)
    assert len(metrics) >= 12


async def test_metrics_are_well_formed() -> None:
    text = await _exposed()
    assert "cocosearch_queries_total 3\n" in text
    assert 'cocosearch_query_milliseconds{quantile="0.95"} 90.0\n' in text
    assert 'cocosearch_up{part="worker"} 1\n' in text
    assert "cocosearch_worker_deaths_total 2\n" in text
    typed = dict(re.findall(r"^# TYPE (\w+) (gauge|counter)$", text, re.MULTILINE))
    helped = set(re.findall(r"^# HELP (\w+) \S", text, re.MULTILINE))
    names = set(re.findall(r"^(\w+)(?:\{| )", text, re.MULTILINE))
    assert names <= set(typed) == helped
    assert all((kind == "counter") == name.endswith("_total") for name, kind in typed.items())


@pytest.mark.parametrize("kind", ["http", "sse", "stdio"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_each_request_of_mcp_has_an_id_of_its_own(
    served: Served, kind: str, mode: Any
) -> None:
    async with Client(transport(served, kind), mode=mode) as client:
        for _ in range(3):
            await client.call_tool("search_code", {"query": "x", "index_name": "demo"})
    assert len(served.engine.request_ids) == 3
    assert len(set(served.engine.request_ids)) == 3
    assert all(re.fullmatch(r"[0-9a-f]{8}", request_id) for request_id in served.engine.request_ids)
