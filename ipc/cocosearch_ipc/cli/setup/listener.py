"""Checks that a TCP address belongs to the daemon before a token is sent or shown."""

import http.client
import secrets
import socket
import ssl
import urllib.parse
from collections.abc import Mapping
from typing import Any

from cocosearch_ipc import address, client
from cocosearch_ipc.trust.credentials import CHALLENGE, CHALLENGED_PORT, PROOF
from cocosearch_ipc.trust.port_holder import describe_holder

Env = Mapping[str, str]
TIMEOUT_S = 5.0
DEFAULT_PORT = 8765  # settings.ServerSettings.port; this package must not import that module
REMEDY = "stop that program, then run `cocosearchctl token --rotate` and `cocosearchctl restart`"
# The address of a listener, and how this machine reaches it.
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared only


def connect(url: str) -> http.client.HTTPConnection:
    """Connect to an address from the daemon's status.

    The certificate need not name that address.
    """
    parts = urllib.parse.urlsplit(url)
    host = ANYWHERE.get(str(parts.hostname), str(parts.hostname))
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(host, parts.port, timeout=TIMEOUT_S, context=context)
    return http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_S)


def require_own_listener(env: Env, url: str) -> None:
    """Raise `client.CallFailed` unless the daemon of this user's Unix socket listens at `url`."""
    parts = urllib.parse.urlsplit(url)
    host = str(parts.hostname)
    port = int(parts.port or 0)
    challenge = secrets.token_hex(32)
    try:
        expected = _proof(
            _unix(address.rpc_socket(env)), {CHALLENGE: challenge, CHALLENGED_PORT: str(port)}
        )
        proof = _proof(connect(url), {CHALLENGE: challenge})
    except (OSError, http.client.HTTPException) as error:
        raise client.CallFailed(
            f"{url} does not answer: {error}", "cocosearchctl restart", code=0
        ) from None
    if expected is None:
        hint = "cocosearchctl restart"
        raise client.CallFailed(
            "the daemon is of an older version and cannot prove its port", hint, code=0
        )
    if not secrets.compare_digest(proof or "", expected):
        holder = describe_holder(host, port)
        message = f"port {port} of {host} is not the daemon's, it is held by {holder}"
        raise client.CallFailed(f"{message}: that program would receive the token", REMEDY, code=0)


def require_token_address(env: Env, status: dict[str, Any]) -> str:
    """Return the daemon's address for clients with a token; "" if it has none.

    Raises `client.CallFailed` if another program listens there.
    """
    mcp = status["mcp"]
    if mcp.get("error"):
        raise client.CallFailed(
            str(mcp["error"]), "clients that use this port send it their token", code=0
        )
    url = str(mcp.get("url") or "")
    if url:
        require_own_listener(env, url)
    return url


def _proof(connection: http.client.HTTPConnection, headers: dict[str, str]) -> str | None:
    try:
        connection.request("GET", "/healthz", headers=headers)
        return connection.getresponse().headers.get(PROOF)
    finally:
        connection.close()


def _unix(path: str) -> http.client.HTTPConnection:
    """Open HTTP over the daemon's Unix socket.

    Raises `client.CallFailed` if the socket belongs to another user.
    """
    connection = http.client.HTTPConnection("localhost", timeout=TIMEOUT_S)
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(TIMEOUT_S)
    connection.sock = stream
    stream.connect(path)
    client.require_own_peer(stream, path)
    return connection
