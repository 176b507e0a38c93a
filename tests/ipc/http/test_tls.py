"""Clients of other machines: refused without `server.remote` and TLS, then served with the token."""

import contextlib
import datetime as dt
import http.client
import ipaddress
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.from_thread
import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport

from cocosearch_ipc import client, error_codes
from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.main import run
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.http import tls_listener
from cocosearch_ipc.trust import tls
from tests.daemon import passing_daemon
from tests.ipc.conftest import SDK_LEAVES_STREAMS, Served, start

pytestmark = SDK_LEAVES_STREAMS


def certify(directory: Path, name: str = "server") -> tuple[Path, Path]:
    """A new self-signed certificate for 127.0.0.1, localhost and search.example, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cocosearchd test")])
    names = [
        x509.DNSName("localhost"),
        x509.DNSName("search.example"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    now = dt.datetime.now(dt.UTC)
    authority = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate = directory / f"{name}.pem"
    secret = directory / f"{name}.key"
    certificate.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    secret.touch(mode=0o600)
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, secret


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "state").mkdir()
    certificate, key = certify(tmp_path)
    context = tls.context(tls.Exposure("127.0.0.1", False, str(certificate), str(key)))
    with anyio.from_thread.start_blocking_portal() as portal:
        running = start(
            tmp_path / "run", tmp_path / "state", portal, tls=context, hosts=("search.example",)
        )
        yield running
        running.stop()


def trusting(served: Served) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=served.state.parent / "server.pem")


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_client_that_trusts_the_certificate_is_served(encrypted: Served, kind: str) -> None:
    assert encrypted.bound.urls()["url"] == f"https://127.0.0.1:{encrypted.bound.port}/mcp"
    context = trusting(encrypted)

    def client_of(**more: object) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(verify=context, **more)  # type: ignore[arg-type]

    transport: Any = SSETransport if kind == "sse" else StreamableHttpTransport
    address = encrypted.bound.urls()["sse_url" if kind == "sse" else "url"]
    headers = {"Authorization": f"Bearer {encrypted.token}"}
    async with Client(
        transport(address, headers=headers, httpx_client_factory=client_of)
    ) as asking:
        answer = await asking.call_tool("search_code", {"query": "retries", "index_name": "demo"})
    assert "src/retry.py" in answer.content[0].text
    # the Unix socket stays as it is
    assert client.call(encrypted.rpc, "status")["mcp"]["url"].startswith("https://")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "{token}"}, 200),
        ({"Authorization": "{token}", "Host": "search.example:8765"}, 200),
        ({"Authorization": "{token}", "Host": "evil.example"}, 421),
        ({"Authorization": "{token}", "Origin": "https://evil.example"}, 403),
        # not the scheme it is served with
        ({"Authorization": "{token}", "Origin": "http://127.0.0.1:{port}"}, 403),
        ({"Authorization": "{token}", "Origin": "https://127.0.0.1:{port}"}, 200),
    ],
)
def test_the_guard_stands_behind_it(
    encrypted: Served, headers: dict[str, str], status: int
) -> None:
    port = encrypted.bound.port
    values = {n: v.format(token=f"Bearer {encrypted.token}", port=port) for n, v in headers.items()}
    connection = http.client.HTTPSConnection(
        "127.0.0.1", port, timeout=50, context=trusting(encrypted)
    )
    connection.request("GET", "/metrics", headers=values)
    assert connection.getresponse().status == status
    connection.close()


def test_doctor_speaks_it(encrypted: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"], encrypted.environment) == exits.OK
    findings = {
        finding["what"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]
    }
    assert findings["mcp"]["message"] == f"{encrypted.bound.urls()['url']} accepts the token"


def test_plain_text_is_let_go(encrypted: Served) -> None:
    address = ("127.0.0.1", encrypted.bound.port or 0)
    with socket.create_connection(address, 30) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert not plain.recv(100).startswith(b"HTTP")
    connection = http.client.HTTPSConnection(*address, timeout=50, context=trusting(encrypted))
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok\n"
    connection.close()


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def crowded(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    """A front end in TLS with room for few handshakes."""
    monkeypatch.setattr(tls_listener, "MAX_HANDSHAKES", 5)
    (tmp_path / "state").mkdir()
    certificate, key = certify(tmp_path)
    context = tls.context(tls.Exposure("127.0.0.1", False, str(certificate), str(key)))
    options = {"use_uvloop": request.param}
    with anyio.from_thread.start_blocking_portal(backend_options=options) as portal:
        running = start(tmp_path / "run", tmp_path / "state", portal, tls=context)
        yield running
        running.stop()


def test_connections_without_a_handshake_are_few(crowded: Served) -> None:
    address = ("127.0.0.1", crowded.bound.port or 0)
    first_count = _count_descriptors()
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(contextlib.closing(socket.create_connection(address, 10)))
            for _ in range(30)
        ]
        closed = [_is_closed(connection) for connection in silent[:-5]]
        connection = http.client.HTTPSConnection(*address, timeout=50, context=trusting(crowded))
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        connection.close()
        assert sum(closed) >= 20
        assert _count_descriptors() - first_count <= 30 + 5 + 2
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()


def _count_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.5)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_a_stop_does_not_wait_for_handshakes(crowded: Served) -> None:
    address = ("127.0.0.1", crowded.bound.port or 0)
    with socket.create_connection(address, 10) as silent:
        crowded.portal.call(crowded.stopping.set)
        crowded.ended.result(10)
        assert _is_closed(silent)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 30)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "search.example"])
@pytest.mark.parametrize(("remote", "certified"), [(False, False), (True, False), (False, True)])
def test_other_machines_take_a_word_and_a_certificate(
    tmp_path: Path, host: str, remote: bool, certified: bool
) -> None:
    certificate, key = certify(tmp_path) if certified else ("", "")
    with pytest.raises(Failure, match=r"needs server\.remote: true and a certificate") as failed:
        tls.context(tls.Exposure(host, remote, str(certificate), str(key)))
    assert failed.value.code == error_codes.REFUSED
    assert "\n" not in failed.value.message


def test_with_both_they_may(tmp_path: Path) -> None:
    certificate, key = certify(tmp_path)
    context = tls.context(tls.Exposure("0.0.0.0", True, str(certificate), str(key)))
    assert context is not None
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    for host in ("127.0.0.1", "127.8.9.1", "::1", "localhost"):
        assert tls.context(tls.Exposure(host)) is None


def test_a_certificate_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    certificate, key = certify(tmp_path)
    _, foreign = certify(tmp_path, "other")
    (tmp_path / "empty").touch(mode=0o600)
    open_key = tmp_path / "open.key"
    open_key.write_bytes(key.read_bytes())
    open_key.chmod(0o644)
    for cert, secret, words in (
        (certificate, "", "server.tls_cert is set without server.tls_key"),
        ("", key, "server.tls_key is set without server.tls_cert"),
        (certificate, tmp_path / "nothing", f"{tmp_path}/nothing: No such file"),
        (certificate, "~no-such-user/key", "~no-such-user/key: No such file"),
        ("~no-such-user/cert", key, "~no-such-user/cert: No such file"),
        (tmp_path / "empty", key, "cannot be used"),
        (certificate, foreign, "KEY_VALUES_MISMATCH"),
        (certificate, open_key, "others can read the private key"),
    ):
        with pytest.raises(Failure) as failed:
            tls.context(tls.Exposure("127.0.0.1", False, str(cert), str(secret)))
        assert words in failed.value.message
        assert "\n" not in failed.value.message
        assert failed.value.hint


def test_the_daemon_refuses_to_start_and_says_why() -> None:
    with passing_daemon(COCOSEARCH_SERVER_HOST="0.0.0.0") as daemon:
        done = daemon.run()
        assert done.returncode == 78, "a service manager must not start it again and again"
        assert done.stderr.startswith(
            "error: listening on 0.0.0.0 needs server.remote: true and a certificate"
        )
        assert not (daemon.home / "state" / "postgres").exists()  # it did not get that far
