"""What asking a model server takes, whichever it is: its URL, a client, and what is said when it is silent."""

import ipaddress
import re
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from cocosearchd.errors import BadSettings

_USERINFO = re.compile(r"^([^:/?#]+://)?[^/?#]*@")


def is_loopback(url: str) -> bool:
    """Whether a URL points at this machine: then the environment's proxies, which are for the network, are not used.

    True for `localhost` and loopback addresses; the scheme may be missing. Names are not resolved.
    """
    host = urllib.parse.urlsplit(url if "//" in url else f"//{url}").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def shown(url: str) -> str:
    """The URL as it may be logged: who asks, with a password or by a token, is left out."""
    return _USERINFO.sub(r"\1***@", url)


@contextmanager
def making_a_client(url: str) -> Iterator[None]:
    """Turns into `BadSettings` what keeps a client from being made: the URL, or the environment's proxies."""
    try:
        yield
    except (httpx.InvalidURL, ValueError, ImportError) as error:  # the last: a proxy that speaks SOCKS
        raise BadSettings(
            f"{shown(url)} cannot be asked: {error}", "look at its URL, and at the proxies of the environment"
        ) from error


def silence(url: str, error: Exception) -> str:
    """That a server has not answered, for people."""
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return f"{shown(url)} is too slow"
    return f"{shown(url)} does not answer{f': {error}' if str(error) else ''}"
