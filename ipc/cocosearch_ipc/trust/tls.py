"""Who may reach the TCP listener: this machine in plain text; others only if it is said, and in
TLS.
"""

import ipaddress
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from cocosearch_ipc.protocol import REFUSED, Failure


@dataclass(frozen=True, slots=True)
class Exposure:
    """Where the listener is, and whether others than this machine may reach it.

    `certificate` and `key` are paths of PEM files, both or none.
    """

    host: str = "127.0.0.1"
    remote: bool = False
    certificate: str = ""
    key: str = ""


def context(exposure: Exposure) -> ssl.SSLContext | None:
    """How the listener speaks TLS; None for plain text. Raises `Failure` (REFUSED) for what gives
    the token away.
    """
    if bool(exposure.certificate) != bool(exposure.key):
        given, missing = (
            ("tls_cert", "tls_key") if exposure.certificate else ("tls_key", "tls_cert")
        )
        raise _refused(f"server.{given} is set without server.{missing}", "set both, or none")
    if not is_loopback(exposure.host) and not (exposure.remote and exposure.certificate):
        raise _refused(
            f"listening on {exposure.host} takes server.remote: true and a certificate (server.tls_cert, "
            "server.tls_key), because whoever reads the token on its way can read the code",
            "set both, or server.host: 127.0.0.1",
        )
    return _loaded(exposure) if exposure.certificate else None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`. A name other than localhost is taken for one of
    the network.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _loaded(exposure: Exposure) -> ssl.SSLContext:
    key = Path(exposure.key).expanduser()
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise _refused(f"others can read the private key {key}", f"chmod 600 {key}")
        made.load_cert_chain(Path(exposure.certificate).expanduser(), key, password=_no_password)
    except OSError as error:  # also ssl.SSLError: not PEM, or a key of another certificate
        hint = "server.tls_cert and server.tls_key name PEM files that belong together, the key without a password"
        reason = getattr(error, "reason", None) or error.strerror or error
        raise _refused(f"the certificate cannot be used: {reason}", hint) from None
    return made


def _no_password() -> str:
    """Instead of asking on a terminal that a daemon does not have."""
    return ""


def _refused(message: str, hint: str) -> Failure:
    return Failure(message, hint, code=REFUSED)
