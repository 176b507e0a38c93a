"""Helps providers with a model server: its URL, its client, messages when it does not answer."""

import ipaddress
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from cocosearchd.errors import BadSettings
from cocosearchd.runtime.masking import find_secrets, mask_address, mask_secrets, mask_urls


def is_loopback(url: str) -> bool:
    """Return whether a URL points at this machine.

    Requests to this machine do not use the environment's proxies. True for `localhost` and loopback
    addresses; the scheme may be missing. Names are not resolved.
    """
    host = urllib.parse.urlsplit(url if "//" in url else f"//{url}").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def redact(text: str, url: str, *secrets: str) -> str:
    """Remove the secrets that a message about a request to `url` may quote."""
    return mask_urls(mask_secrets(text, (*find_secrets(url), *filter(None, secrets))))


@contextmanager
def client_settings_errors(url: str) -> Iterator[None]:
    """Turn errors of the URL or of the environment's proxies into `BadSettings`."""
    try:
        yield
    # ImportError: a SOCKS proxy needs another package.
    except (httpx.InvalidURL, ValueError, ImportError) as error:
        raise BadSettings(
            f"{mask_address(url)} cannot be asked: {redact(str(error), url)}",
            "check its URL, and the proxies of the environment",
        ) from None


def no_answer_message(url: str, error: Exception) -> str:
    """Say that a server does not answer, for people."""
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return f"{mask_address(url)} is too slow"
    reason = redact(str(error), url)
    return f"{mask_address(url)} does not answer{f': {reason}' if reason else ''}"
