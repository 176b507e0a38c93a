"""The daemon's status in Prometheus' text format (version 0.0.4): a pure function of
`StatusReply`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cocosearch_ipc.protocol import IndexStatus, StatusReply

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Metric, its help, and what it reads of an index.
_OF_INDEX: tuple[tuple[str, str, str], ...] = (
    ("files", "Files that can be searched.", "files"),
    ("chunks", "Chunks in the index.", "chunks"),
    ("pending_files", "Changes seen and not yet searchable.", "pending"),
    ("generation", "Committed batches.", "generation"),
)

_EMBEDDINGS = ("computed", "reused")


def exposition(status: StatusReply) -> str:
    """Every number of `status`, under stable names."""
    lines = [
        *_gauge("info", "The daemon's version.", [({"version": status.version}, 1)]),
        *_gauge("uptime_seconds", "Since the daemon started.", [({}, status.uptime_s)]),
        *_gauge(
            "rss_bytes",
            "Resident memory.",
            [({"process": k}, v) for k, v in status.rss_bytes.items()],
        ),
        *_counter("queries_total", "Questions answered.", [({}, status.queries.get("count", 0))]),
        *_gauge("query_milliseconds", "How long the last answers took.", _quantiles(status)),
        *_counter(
            "worker_deaths_total",
            "Ends of the indexing process.",
            [({}, status.worker.get("deaths", 0))],
        ),
        *_gauge(
            "up", "1 for what works.", [({"part": part}, works) for part, works in _parts(status)]
        ),
        *_gauge(
            "cache", "Query cache counters.", [({"what": k}, v) for k, v in status.cache.items()]
        ),
        *_gauge(
            "embeddings",
            "Texts since the start.",
            [({"what": k}, status.worker.get(k)) for k in _EMBEDDINGS],
        ),
        *_gauge("warnings", "What a person should look at.", [({}, len(status.warnings))]),
    ]
    for name, help_text, attribute in _OF_INDEX:
        lines += _gauge(
            f"index_{name}",
            help_text,
            [({"index": i.name}, getattr(i, attribute)) for i in status.indexes],
        )
    lines += _gauge("index_state", "1 for the state an index is in.", _states(status.indexes))
    lines += _gauge(
        "index_skipped_files", "Files in scope that are not searched.", _skipped(status.indexes)
    )
    lines += _gauge("index_failed_files", "Files that did not index.", _failed(status.indexes))
    return "\n".join(lines) + "\n"


def _quantiles(status: StatusReply) -> list[tuple[dict[str, str], float]]:
    shown = (("0.5", "p50_ms"), ("0.95", "p95_ms"))
    return [
        ({"quantile": name}, status.queries[key]) for name, key in shown if key in status.queries
    ]


def _parts(status: StatusReply) -> list[tuple[str, int]]:
    return [
        ("store", int(status.store.get("state") == "up")),
        ("embedder", int(status.embedder.get("state") == "up")),
        ("worker", int(status.worker.get("state") == "running")),
    ]


def _states(indexes: Iterable[IndexStatus]) -> list[tuple[dict[str, str], float]]:
    return [({"index": index.name, "state": index.state}, 1) for index in indexes]


def _skipped(indexes: Iterable[IndexStatus]) -> list[tuple[dict[str, str], float]]:
    return [
        ({"index": i.name, "reason": reason}, files)
        for i in indexes
        for reason, files in i.skipped.items()
    ]


def _failed(indexes: Iterable[IndexStatus]) -> list[tuple[dict[str, str], float]]:
    return [({"index": index.name}, index.failed_count) for index in indexes]


def _gauge(
    name: str, help_text: str, samples: Iterable[tuple[Mapping[str, str], Any]]
) -> Iterator[str]:
    return _metric(name, "gauge", help_text, samples)


def _counter(
    name: str, help_text: str, samples: Iterable[tuple[Mapping[str, str], Any]]
) -> Iterator[str]:
    return _metric(name, "counter", help_text, samples)


def _metric(
    name: str, kind: str, help_text: str, samples: Iterable[tuple[Mapping[str, str], Any]]
) -> Iterator[str]:
    yield f"# HELP cocosearch_{name} {help_text}"
    yield f"# TYPE cocosearch_{name} {kind}"
    for labels, value in samples:
        if isinstance(value, int | float):
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            yield f"cocosearch_{name}{{{shown}}} {value}" if shown else f"cocosearch_{name} {value}"


def _escaped(text: str) -> str:
    clean = text.encode("utf-8", "replace").decode()
    return clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
