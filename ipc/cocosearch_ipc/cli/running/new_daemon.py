"""Waits for a daemon that another program starts."""

import time

from cocosearch_ipc import client

SOCKET_POLL_S = 1.0  # interval of checks for a new daemon


def await_socket(path: str) -> None:
    """Wait, without a limit, until another program has started a daemon."""
    time.sleep(SOCKET_POLL_S)
    while not client.reachable(path):
        time.sleep(SOCKET_POLL_S)
