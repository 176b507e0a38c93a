"""What asking a model server takes, whichever it is: its URL, a client, and what is said when it is
silent.
"""

import ipaddress
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from cocosearchd.errors import BadSettings
from cocosearchd.runtime.masking import find_secrets, mask_address, mask_secrets, mask_urls


def is_loopback(url: str) -> bool:
    """Whether a URL points at this machine: then the environment's proxies, which are for the
    network, are not used.

    True for `localhost` and loopback addresses; the scheme may be missing. Names are not resolved.
    """
    host = urllib.parse.urlsplit(url if "//" in url else f"//{url}").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def display_url(url: str) -> str:
    """The URL as it may be logged."""
    return mask_address(url)


def redact(text: str, url: str, *secrets: str) -> str:
    """What a server or a library says of a request to `url`: it may quote the address or the
    key.
    """
    return mask_urls(mask_secrets(text, (*find_secrets(url), *filter(None, secrets))))


@contextmanager
def client_settings_errors(url: str) -> Iterator[None]:
    """Turns into `BadSettings` what keeps a client from being made: the URL, or the environment's
    proxies.
    """
    try:
        yield
    # the last: a proxy that speaks SOCKS
    except (httpx.InvalidURL, ValueError, ImportError) as error:
        raise BadSettings(
            f"{display_url(url)} cannot be asked: {redact(str(error), url)}",
            "look at its URL, and at the proxies of the environment",
        ) from None


def no_answer_message(url: str, error: Exception) -> str:
    """That a server has not answered, for people."""
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return f"{display_url(url)} is too slow"
    reason = redact(str(error), url)
    return f"{display_url(url)} does not answer{f': {reason}' if reason else ''}"
