"""TLS of the TCP listener: plain text on loopback; other addresses need TLS and `server.remote`."""

import ipaddress
import os
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from cocosearch_ipc.error_codes import REFUSED
from cocosearch_ipc.failure import Failure


@dataclass(frozen=True, slots=True)
class Exposure:
    """The address of the listener, and whether other machines may reach it.

    `certificate` and `key` are paths of PEM files; set both or none.
    """

    host: str = "127.0.0.1"
    remote: bool = False
    certificate: str = ""
    key: str = ""


def context(exposure: Exposure) -> ssl.SSLContext | None:
    """Return the TLS context of the listener; None for plain text.

    Raises `Failure` (REFUSED) for settings that would reveal the token.
    """
    if bool(exposure.certificate) != bool(exposure.key):
        present, missing = (
            ("tls_cert", "tls_key") if exposure.certificate else ("tls_key", "tls_cert")
        )
        raise _refusal(f"server.{present} is set without server.{missing}", "set both, or none")
    if not is_loopback(exposure.host) and not (exposure.remote and exposure.certificate):
        raise _refusal(
            f"listening on {exposure.host} needs server.remote: true and a certificate "
            "(server.tls_cert, "
            "server.tls_key), because anyone who intercepts the token can read the code",
            "set both, or server.host: 127.0.0.1",
        )
    return _load_context(exposure) if exposure.certificate else None


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach `host`. Names except localhost count as remote."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _load_context(exposure: Exposure) -> ssl.SSLContext:
    certificate = _expand_home(exposure.certificate)
    key = _expand_home(exposure.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise _refusal(f"others can read the private key {key}", f"chmod 600 {key}")
        certificate.stat()  # its error names the file, that of OpenSSL does not
        context.load_cert_chain(certificate, key, password=_no_password)
    except OSError as error:  # also ssl.SSLError: not PEM, or a key of another certificate
        hint = (
            "server.tls_cert and server.tls_key must name matching PEM files, "
            "the key without a password"
        )
        reason = getattr(error, "reason", None) or error.strerror or error
        if error.filename is not None:
            reason = f"{error.filename}: {reason}"
        raise _refusal(f"the certificate cannot be used: {reason}", hint) from None
    return context


def _expand_home(text: str) -> Path:
    """Return a path whose `~` or `~user` is a home directory; of no user, it stays as it is.

    `Path.expanduser` raises a `RuntimeError` for such a user.
    """
    return Path(os.path.expanduser(text))  # noqa: PTH111 - see above


def _no_password() -> str:
    """Return an empty password: a daemon has no terminal to ask for one."""
    return ""


def _refusal(message: str, hint: str) -> Failure:
    return Failure(message, hint, code=REFUSED)
