"""Durations of the latest answers."""

from cocosearchd.search.latency import WINDOW, Latency


def test_percentiles_are_of_the_last_answers() -> None:
    latency = Latency()
    assert latency.summary() == {"count": 0, "recent_ms": []}
    for took in range(1, 1001):
        latency.add(float(took))
    summary = latency.summary()
    assert summary["count"] == 1000
    assert summary["recent_ms"] == [float(took) for took in range(1001 - WINDOW, 1001)]
    assert (summary["p50_ms"], summary["p95_ms"]) == (940.0, 994.0)
