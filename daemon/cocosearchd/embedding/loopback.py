"""Whether a URL points at this machine: then the environment's proxies, which are for the network, are not used."""

import ipaddress
import urllib.parse


def is_loopback(url: str) -> bool:
    """True for `localhost` and loopback addresses; the scheme may be missing. Names are not resolved."""
    host = urllib.parse.urlsplit(url if "//" in url else f"//{url}").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
