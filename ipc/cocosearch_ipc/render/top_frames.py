"""The frames of `top`: current activity of the daemon, and rates since earlier frames. Pure."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cocosearch_ipc.render import output, tables

BARS = "▁▂▃▄▅▆▇█"
HISTORY = 60  # frames, and bars of a sparkline
# After a loss of commits, generations go on at the next multiple (`cocosearchd.store.index_records`).
LINEAGE = 1 << 32
Status = dict[str, Any]


@dataclass(slots=True)
class FrameState:
    """Input of a frame beside the current status: previous status, PostgreSQL bytes, rates.

    `sizes` are bytes by index.
    """

    previous: Status | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    queries_s: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def elapsed_s(self, status: Status) -> float:
        """Return the seconds since the previous status; 0 if it was another daemon's."""
        return (
            status["uptime_s"] - self.previous["uptime_s"]
            if self.previous and self.previous["pid"] == status["pid"]
            else 0.0
        )

    def next(self, status: Status) -> None:
        """Store `status` as the previous one."""
        if (elapsed := self.elapsed_s(status)) > 0 and self.previous is not None:
            self.queries_s.append(
                max(0, _answer_count(status) - _answer_count(self.previous)) / elapsed
            )
        self.previous = status


def frame(status: Status, state: FrameState, style: output.Style) -> Iterator[str]:
    """Yield the lines of one frame."""
    yield (
        style.paint(f"cocosearchd {status['version']}", output.BOLD)
        + f"  pid {status['pid']}  up "
        + tables.duration(status["uptime_s"])
    )
    rss = status["rss_bytes"]
    parts = "  ".join(tables.memory_parts(rss))
    yield f"memory   {tables.size(rss.get('total', 0))}  ({parts})"
    yield f"store    {_store(status['store'], state.sizes)}"
    pending = sum(index["pending"] for index in status["indexes"])
    yield f"queue    {pending:,} changes, indexer {status['worker'].get('state', '-')}"
    yield f"cache    {cache(status['cache'])}"
    yield f"queries  {queries(status.get('queries') or {}, state.queries_s)}"
    yield ""
    yield from _indexes(status, state, style)
    for warning in status.get("warnings") or ():
        yield style.paint(f"warning: {output.printable(warning, keep='')}", output.YELLOW)


def cache(counters: Mapping[str, int]) -> str:
    """Format the hit rate, or the counters if there is none."""
    hits = sum(count for name, count in counters.items() if "hit" in name)
    misses = sum(count for name, count in counters.items() if "miss" in name)
    entries = (
        f", {counters['entries']:,} answers in {tables.size(counters['bytes'])}"
        if "bytes" in counters
        else ""
    )
    if hits + misses:
        return f"{hits / (hits + misses):.0%} of {hits + misses:,} hit{entries}"
    return ", ".join(f"{name} {count:,}" for name, count in counters.items()) or "-"


def queries(counters: Mapping[str, Any], rates: Sequence[float]) -> str:
    """Format count, rate and latency of queries, with a sparkline of the latest ones."""
    recent = list(counters.get("recent_ms") or ())[-HISTORY:]
    if not recent:
        return "none yet"
    rate = f"{rates[-1]:.1f}/s, " if rates else ""
    times = f"p50 {counters['p50_ms']:.1f} ms, p95 {counters['p95_ms']:.1f} ms"
    return f"{counters['count']:,}, {rate}{times}  {sparkline(recent)}"


def sparkline(values: Sequence[float]) -> str:
    """Draw one bar per value, scaled from 0 to the largest."""
    largest = max(values) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int(value / largest * len(BARS)))] for value in values)


def _indexes(status: Status, state: FrameState, style: output.Style) -> Iterator[str]:
    elapsed = state.elapsed_s(status)
    earlier = (
        {index["name"]: index for index in state.previous["indexes"]}
        if state.previous and elapsed > 0
        else {}
    )
    rows = [
        ("index", "state", "files", "chunks", "size", "pending", "clock", "files/s", "commits/s")
    ]
    for index in status["indexes"]:
        previous = earlier.get(index["name"])
        size = state.sizes.get(index["name"])
        rows.append(
            (
                index["name"],
                index["state"],
                output.format_number(index["files"]),
                output.format_number(index["chunks"]),
                "-" if size is None else tables.size(size),
                f"{index['pending']:,}",
                str(index["as_of"]["seq"]) if index["as_of"] else "-",
                _rate(index, previous, _clock, elapsed),
                _rate(index, previous, _commit_count, elapsed),
            )
        )
    head, *body = tables.table(rows)
    yield style.paint(head, output.BOLD)
    yield from body


def _store(store: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
    total = f", {tables.size(sum(sizes.values()))} of indexes" if sizes else ""
    server = f"{store.get('server', '')} {store.get('kind', '')}"
    return f"PostgreSQL {server}, {store.get('state', '-')}{total}"


def _answer_count(status: Status) -> int:
    return int((status.get("queries") or {}).get("count", 0))


def _commit_count(index: Mapping[str, Any]) -> float:
    return float(index["generation"] % LINEAGE)


def _clock(index: Mapping[str, Any]) -> float:
    return float(index["as_of"]["seq"]) if index["as_of"] else 0.0


def _rate(
    index: Mapping[str, Any], earlier: Mapping[str, Any] | None, of: Any, elapsed: float
) -> str:
    if earlier is None or elapsed <= 0:
        return "-"
    return f"{max(0.0, of(index) - of(earlier)) / elapsed:.1f}"
