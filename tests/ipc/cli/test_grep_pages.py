"""Pages of `grep` become one reply."""

from typing import Any

from cocosearch_ipc.cli.grep_command import merge_pages


def page(*lines: int, fresh: bool = True, cursor: str | None = None) -> dict[str, Any]:
    return {
        "files": [{"index": "demo", "path": "a.py", "lines": list(lines)}],
        "cursor": cursor,
        "complete": fresh,
        "fresh": fresh,
        "stale_code": None if fresh else "pending_changes",
        "stale_reason": None if fresh else "a.py is not indexed yet",
        "as_of": {"demo": 1} if fresh else None,
        "pending": [] if fresh else ["a.py"],
        "notes": ["first"] if fresh else ["first", "a.py was not searched"],
        "total_lines": 3,
    }


def test_a_reply_is_as_fresh_as_its_stalest_page() -> None:
    merged = merge_pages(page(1, 2, cursor="next"), page(3, fresh=False))
    assert merged == page(1, 2, 3, fresh=False)
    assert merge_pages(page(1, fresh=False), page(2, 3))["stale_code"] == "pending_changes"
    assert merge_pages(page(1, cursor="next"), page(2, 3)) == page(1, 2, 3)
