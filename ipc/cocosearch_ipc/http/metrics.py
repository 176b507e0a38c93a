"""The daemon's status in Prometheus' text format (version 0.0.4). Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cocosearch_ipc.protocol import IndexStatus, StatusReply

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Name, help text, and the attribute of `IndexStatus` with the value.
_INDEX_METRICS: tuple[tuple[str, str, str], ...] = (
    ("files", "Searchable files.", "files"),
    ("chunks", "Chunks in the index.", "chunks"),
    ("pending_files", "Changes that are not searchable yet.", "pending"),
    ("generation", "Committed batches; 2^32 more after each loss of commits.", "generation"),
)

_EMBEDDINGS = ("computed", "reused")


def exposition(status: StatusReply) -> str:
    """Format all numbers of `status` as metrics. The names of the metrics are stable."""
    return "\n".join([*_daemon_metrics(status), *_all_index_metrics(status.indexes)]) + "\n"


def _daemon_metrics(status: StatusReply) -> list[str]:
    return [
        *_gauge("info", "The daemon's version.", [({"version": status.version}, 1)]),
        *_gauge("uptime_seconds", "Time since the daemon started.", [({}, status.uptime_s)]),
        *_gauge(
            "rss_bytes",
            "Resident memory.",
            [({"process": k}, v) for k, v in status.rss_bytes.items()],
        ),
        *_counter(
            "cpu_seconds_total",
            "CPU time of each part, with ended processes.",
            [({"process": k}, v) for k, v in status.cpu_s.items()],
        ),
        *_counter("queries_total", "Answered queries.", [({}, status.queries.get("count", 0))]),
        *_gauge("query_milliseconds", "Latency of the latest queries.", _quantiles(status)),
        *_counter(
            "worker_deaths_total",
            "Ends of the indexer process.",
            [({}, status.worker.get("deaths", 0))],
        ),
        *_gauge(
            "up",
            "1 if the part works, else 0.",
            [({"part": part}, works) for part, works in _parts(status)],
        ),
        *_gauge(
            "cache", "Query cache counters.", [({"what": k}, v) for k, v in status.cache.items()]
        ),
        *_gauge(
            "embeddings",
            "Embedded texts since the start, computed or reused.",
            [({"what": k}, status.worker.get(k)) for k in _EMBEDDINGS],
        ),
        *_gauge("warnings", "Number of warnings.", [({}, len(status.warnings))]),
    ]


def _all_index_metrics(indexes: Iterable[IndexStatus]) -> list[str]:
    lines = list[str]()
    for name, help_text, attribute in _INDEX_METRICS:
        lines += _gauge(
            f"index_{name}",
            help_text,
            [({"index": index.name}, getattr(index, attribute)) for index in indexes],
        )
    lines += _gauge("index_state", "1 for the current state of an index.", _states(indexes))
    lines += _gauge(
        "index_skipped_files", "Files in scope that are not searched.", _skipped_counts(indexes)
    )
    lines += _gauge("index_failed_files", "Files that failed to index.", _failed_counts(indexes))
    return lines


def _quantiles(status: StatusReply) -> list[tuple[dict[str, str], float]]:
    quantiles = (("0.5", "p50_ms"), ("0.95", "p95_ms"))
    return [
        ({"quantile": name}, status.queries[key])
        for name, key in quantiles
        if key in status.queries
    ]


def _parts(status: StatusReply) -> list[tuple[str, int]]:
    return [
        ("store", int(status.store.get("state") == "up")),
        ("embedder", int(status.embedder.get("state") == "up")),
        ("worker", int(status.worker.get("state") == "running")),
    ]


def _states(indexes: Iterable[IndexStatus]) -> list[tuple[dict[str, str], float]]:
    return [({"index": index.name, "state": index.state}, 1) for index in indexes]


def _skipped_counts(indexes: Iterable[IndexStatus]) -> list[tuple[dict[str, str], float]]:
    return [
        ({"index": i.name, "reason": reason}, files)
        for i in indexes
        for reason, files in i.skipped.items()
    ]


def _failed_counts(indexes: Iterable[IndexStatus]) -> list[tuple[dict[str, str], float]]:
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
            text_labels = ",".join(f'{key}="{_escape_label(text)}"' for key, text in labels.items())
            yield (
                f"cocosearch_{name}{{{text_labels}}} {value}"
                if text_labels
                else f"cocosearch_{name} {value}"
            )


def _escape_label(text: str) -> str:
    clean = text.encode("utf-8", "replace").decode()
    return clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
