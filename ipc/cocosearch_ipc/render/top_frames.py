"""The frames of `top`: what the daemon does now, from what was seen so far. Pure."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cocosearch_ipc.render import output, tables

BARS = "▁▂▃▄▅▆▇█"
HISTORY = 60  # frames, and bars of a sparkline
Status = dict[str, Any]


@dataclass(slots=True)
class FrameState:
    """What a frame needs beside the status of now: the one before, bytes in PostgreSQL by index,
    rates so far.
    """

    before: Status | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    queries_s: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def elapsed_s(self, now: Status) -> float:
        """Since the status before; 0 where that was another daemon's."""
        return (
            now["uptime_s"] - self.before["uptime_s"]
            if self.before and self.before["pid"] == now["pid"]
            else 0.0
        )

    def next(self, now: Status) -> None:
        """`now` becomes the status before."""
        if (elapsed := self.elapsed_s(now)) > 0 and self.before is not None:
            self.queries_s.append(max(0, _answered(now) - _answered(self.before)) / elapsed)
        self.before = now


def frame(now: Status, seen: FrameState, style: output.Style) -> Iterator[str]:
    """Lines of one frame."""
    yield (
        style.paint(f"cocosearchd {now['version']}", output.BOLD)
        + f"  pid {now['pid']}  up "
        + tables.duration(now["uptime_s"])
    )
    rss = now["rss_bytes"]
    parts = "  ".join(
        f"{name} {tables.size(count)}" for name, count in rss.items() if name != "total"
    )
    yield f"memory   {tables.size(rss.get('total', 0))}  ({parts})"
    yield f"store    {_store(now['store'], seen.sizes)}"
    pending = sum(index["pending"] for index in now["indexes"])
    yield f"queue    {pending:,} changes, worker {now['worker'].get('state', '-')}"
    yield f"cache    {cache(now['cache'])}"
    yield f"queries  {queries(now.get('queries') or {}, seen.queries_s)}"
    yield ""
    yield from _indexes(now, seen, style)
    for warning in now.get("warnings") or ():
        yield style.paint(f"warning: {output.printable(warning, keep='')}", output.YELLOW)


def cache(counters: Mapping[str, int]) -> str:
    """The hit rate where the counters allow one, else the counters."""
    hits = sum(count for name, count in counters.items() if "hit" in name)
    misses = sum(count for name, count in counters.items() if "miss" in name)
    held = (
        f", {counters['entries']:,} answers in {tables.size(counters['bytes'])}"
        if "bytes" in counters
        else ""
    )
    if hits + misses:
        return f"{hits / (hits + misses):.0%} of {hits + misses:,} hit{held}"
    return ", ".join(f"{name} {count:,}" for name, count in counters.items()) or "-"


def queries(found: Mapping[str, Any], rates: Sequence[float]) -> str:
    """How many, how fast they come and are answered, and the times of the last ones."""
    recent = list(found.get("recent_ms") or ())[-HISTORY:]
    if not recent:
        return "none yet"
    rate = f"{rates[-1]:.1f}/s, " if rates else ""
    times = f"p50 {found['p50_ms']:.1f} ms, p95 {found['p95_ms']:.1f} ms"
    return f"{found['count']:,}, {rate}{times}  {sparkline(recent)}"


def sparkline(values: Sequence[float]) -> str:
    """A bar a value, on a scale from 0 to the largest."""
    most = max(values) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int(value / most * len(BARS)))] for value in values)


def _indexes(now: Status, seen: FrameState, style: output.Style) -> Iterator[str]:
    elapsed = seen.elapsed_s(now)
    earlier = (
        {index["name"]: index for index in seen.before["indexes"]}
        if seen.before and elapsed > 0
        else {}
    )
    rows = [
        ("index", "state", "files", "chunks", "size", "pending", "clock", "files/s", "commits/s")
    ]
    for index in now["indexes"]:
        before = earlier.get(index["name"])
        size = seen.sizes.get(index["name"])
        rows.append(
            (
                index["name"],
                index["state"],
                tables.count(index["files"]),
                tables.count(index["chunks"]),
                "-" if size is None else tables.size(size),
                f"{index['pending']:,}",
                str(index["as_of"]["seq"]) if index["as_of"] else "-",
                _rate(index, before, _clock, elapsed),
                _rate(index, before, _generation, elapsed),
            )
        )
    head, *body = tables.table(rows)
    yield style.paint(head, output.BOLD)
    yield from body


def _store(store: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
    held = f", {tables.size(sum(sizes.values()))} of indexes" if sizes else ""
    return f"PostgreSQL {store.get('server', '')} {store.get('kind', '')}, {store.get('state', '-')}{held}"


def _answered(status: Status) -> int:
    return int((status.get("queries") or {}).get("count", 0))


def _generation(index: Mapping[str, Any]) -> float:
    return float(index["generation"])


def _clock(index: Mapping[str, Any]) -> float:
    return float(index["as_of"]["seq"]) if index["as_of"] else 0.0


def _rate(
    index: Mapping[str, Any], earlier: Mapping[str, Any] | None, of: Any, elapsed: float
) -> str:
    if earlier is None or elapsed <= 0:
        return "-"
    return f"{max(0.0, of(index) - of(earlier)) / elapsed:.1f}"
