"""One scripted MCP session, and the checks of its results for every client."""

from typing import Any

TOOLS = {
    "search_code",
    "index_codebase",
    "list_indexes",
    "index_stats",
    "clear_index",
    "get_file",
    "list_files",
    "explain_query",
    "find_related",
    "grep",
    "wait_until_fresh",
}
STATS = "cocosearch://index/demo/stats"


def check(state: dict[str, Any]) -> None:
    """`state`: tools, path, failed, indexed, resources, root, prompt, each as the script of that
    client collects it.
    """
    assert set(state["tools"]) >= TOOLS
    assert state["path"] == "src/retry.py"
    assert state["failed"] == [True, "no index 'nothing'\nHint: there are demo"]
    # a client may drop the last word on progress when the answer comes with it
    name, (_, total) = state["indexed"]
    assert (name, total) == ("new", 3)
    assert state["resources"] == ["cocosearch://indexes", STATS, "cocosearch://index/new/stats"]
    assert state["root"] == "/srv/demo"
    assert state["prompt"] is True
