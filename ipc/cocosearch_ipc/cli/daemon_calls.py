"""Calls the daemon for a verb: its parameters, the current directory, and time for changes.

This module is on the hot path, so it imports almost nothing.
"""

from __future__ import annotations

import os

from cocosearch_ipc import address, client

TYPE_CHECKING = False  # not imported: `typing` costs the hot path 3 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

WORK_S = 60.0


def fetch_results(
    params: dict[str, Any],
    env: Mapping[str, str],
    on_other_version: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Return the reply of `search`. `on_other_version`: see `client.call`."""
    return call_and_wait(env, "search", with_project(params), on_other_version)


def call_and_wait(
    env: Mapping[str, str],
    method: str,
    params: dict[str, Any],
    on_other_version: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Return the reply of a method that first waits for changes and then works."""
    timeout_s = WORK_S + params.get("sync_timeout_ms", 0) / 1000

    def check_service() -> None:
        from cocosearch_ipc.cli.running import service_manager

        service_manager.require_healthy(env)

    reply: dict[str, Any] = client.call(
        address.rpc_socket(env), method, params, timeout_s, on_other_version, check_service
    )
    return reply


def given_parameters(**params: Any) -> dict[str, Any]:
    """Keep only parameters with a value: an older daemon applies its own defaults."""
    return {name: value for name, value in params.items() if value not in (None, [], False)}


def with_cwd(params: dict[str, Any]) -> dict[str, Any]:
    """Add the current directory to parameters that name no index."""
    if any(params.get(name) for name in ("index", "indexes", "topics", "all_indexes")):
        return params
    try:
        return params | {"cwd": os.getcwd()}
    # without a directory the daemon takes the only index, or lists all indexes
    except FileNotFoundError:
        return params


def with_project(params: dict[str, Any]) -> dict[str, Any]:
    """Add the current directory to parameters of a search, unless they name one index.

    Of copies in several indexes, the one of the project around the directory is shown.
    """
    return params if params.get("index") else with_cwd({}) | params


def roots(env: Mapping[str, str]) -> dict[str, str]:
    """Return the root directory of each index, by index name."""
    reply = client.call(address.rpc_socket(env), "list_indexes")
    return {index["name"]: index["root"] for index in reply["indexes"]}
