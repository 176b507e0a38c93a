"""The frames of `top`: what the daemon does now, from two statuses and the latencies seen so far. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from cocosearch_ipc.render import out, tables

BARS = "▁▂▃▄▅▆▇█"


def frame(
    now: dict[str, Any], before: dict[str, Any] | None, latencies_ms: Sequence[float], style: out.Style
) -> Iterator[str]:
    """Lines of one frame. `before` is the status of a moment ago, for rates."""
    elapsed = now["uptime_s"] - before["uptime_s"] if before and before["pid"] == now["pid"] else 0.0
    rss = now["rss_bytes"]
    yield (
        style.paint(f"cocosearchd {now['version']}", out.BOLD)
        + f"  pid {now['pid']}  up "
        + tables.duration(now["uptime_s"])
    )
    parts = "  ".join(f"{name} {tables.size(count)}" for name, count in rss.items() if name != "total")
    yield f"memory  {tables.size(rss.get('total', 0))}  ({parts})"
    yield f"worker  {now['worker'].get('state', '-')}  store {now['store'].get('state', '-')}  " + cache(now["cache"])
    if latencies_ms:
        shown = f"{sparkline(latencies_ms)}  now {latencies_ms[-1]:.1f} ms, worst {max(latencies_ms):.1f} ms"
        yield f"answers {shown}"
    yield ""
    rows = [("index", "state", "files", "chunks", "pending", "clock", "commits/s")]
    earlier = {index["name"]: index for index in before["indexes"]} if before and elapsed > 0 else {}
    for index in now["indexes"]:
        clock = str(index["as_of"]["seq"]) if index["as_of"] else "-"
        rows.append(
            (
                index["name"],
                index["state"],
                f"{index['files']:,}",
                f"{index['chunks']:,}",
                f"{index['pending']:,}",
                clock,
                _rate(index, earlier.get(index["name"]), elapsed),
            )
        )
    head, *body = tables.table(rows)
    yield style.paint(head, out.BOLD)
    yield from body
    for warning in now.get("warnings") or ():
        yield style.paint(f"warning: {out.printable(warning, keep='')}", out.YELLOW)


def cache(counters: dict[str, int]) -> str:
    """The hit rate where the counters allow one, else the counters."""
    hits = sum(count for name, count in counters.items() if "hit" in name)
    misses = sum(count for name, count in counters.items() if "miss" in name)
    if hits + misses:
        return f"cache hits {hits / (hits + misses):.0%} of {hits + misses:,}"
    return "cache " + (", ".join(f"{name} {count:,}" for name, count in counters.items()) or "-")


def sparkline(values: Sequence[float]) -> str:
    """A bar a value, on a scale from 0 to the largest."""
    most = max(values) or 1.0
    return "".join(BARS[min(len(BARS) - 1, int(value / most * len(BARS)))] for value in values)


def _rate(index: dict[str, Any], earlier: dict[str, Any] | None, elapsed: float) -> str:
    if earlier is None or elapsed <= 0:
        return "-"
    return f"{max(0, index['generation'] - earlier['generation']) / elapsed:.1f}"
