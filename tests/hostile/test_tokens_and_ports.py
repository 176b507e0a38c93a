"""Theft of the token: a foreign program on the port, a relay, a replaced token file."""

import contextlib
import http.client
import json
import os
import re
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cocosearch_ipc.failure import Failure
from cocosearch_ipc.trust.credentials import CHALLENGE, CHALLENGED_PORT, PROOF, TokenFile
from cocosearch_ipc.trust.port_holder import PortHolder, describe_holder, find_holder
from tests.daemon import Daemon, passing_daemon
from tests.mcp_messages import initialize_request, message_line

EXIT_SETTINGS = 78
SQUATTER = """\
import os, socket, sys, time
if len(sys.argv) > 3: os.setuid(int(sys.argv[3]))
s = socket.socket(); s.bind((sys.argv[1], int(sys.argv[2]))); s.listen()
print(s.getsockname()[1], flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def squatter(
    port: int = 0, *, host: str = "127.0.0.1", uid: int | None = None
) -> Iterator[tuple[int, int]]:
    """A program that listens on a port and never answers: its pid and the port."""
    command = [
        sys.executable,
        "-c",
        SQUATTER,
        host,
        str(port),
        *([] if uid is None else [str(uid)]),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


@contextlib.contextmanager
def relay(target: int) -> Iterator[tuple[int, list[bytes]]]:
    """A program that passes every connection on to the port `target`: its port, and what it was
    sent.
    """
    received = list[bytes]()

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=pump, args=(listening.accept()[0],), daemon=True).start()

    def pump(near: socket.socket) -> None:
        near.settimeout(50)
        received.append(near.recv(1 << 16))
        with (
            near,
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", target)) as far,
        ):
            far.sendall(received[-1].replace(b"Host: 127.0.0.1", b"Host: localhost"))
            while data := far.recv(1 << 16):
                near.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        yield listening.getsockname()[1], received
        listening.shutdown(socket.SHUT_RDWR)


def port_of(daemon: Daemon) -> int:
    url = daemon.call("status")["mcp"]["url"]
    return int(url.rpartition(":")[2].partition("/")[0])


# ---- a port that is held ----


def test_a_configured_port_that_is_held_ends_the_start_with_its_holder() -> None:
    with squatter() as (pid, port), passing_daemon(COCOSEARCH_SERVER_PORT=str(port)) as daemon:
        done = daemon.ctl("up", str(daemon.home), check=False)
        assert done.returncode == EXIT_SETTINGS
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert (
            f"server.port in COCOSEARCH_SERVER_PORT: port {port} of 127.0.0.1 is held by `" in line
        )
        assert f"(pid {pid}, user " in line
        assert "hint: stop that program" in line
        assert not (daemon.home / "state" / "postgres").exists()


def test_a_default_port_that_is_held_costs_the_listener_alone(
    cluster: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("def found() -> int:\n    return 1\n")
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # else a program of this machine holds the port already
            stack.enter_context(socket.create_server(("127.0.0.1", 8765)))
        daemon = stack.enter_context(passing_daemon(cluster))
        environment = {
            name: value
            for name, value in daemon.environment.items()
            if name != "COCOSEARCH_SERVER_PORT"
        }

        def ctl(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [str(daemon.bin / "cocosearchctl"), *arguments]
            return subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                stdin=subprocess.DEVNULL,
            )

        daemon._copy_cluster()
        up = ctl("up", str(tmp_path), "--name", "it")
        assert up.returncode == 0, up.stderr
        assert (
            "warning: MCP over TCP is off, because port 8765 of 127.0.0.1 is held by " in up.stderr
        )
        status = json.loads(ctl("status", "--json").stdout)
        assert "url" not in status["mcp"]
        assert status["mcp"]["error"] in status["warnings"]
        assert "MCP over TCP is off" in ctl("status").stdout
        findings = json.loads(ctl("doctor", "--json").stdout)["findings"]
        (finding,) = [
            finding for finding in findings if "MCP over TCP is off" in finding["message"]
        ]
        assert (finding["what"], finding["state"]) == ("mcp", "fail")
        assert "server.port" in finding["fix"]
        assert "found" in ctl("query", "found", "--index", "it").stdout
        bridge = subprocess.run(
            [daemon.bin / "cocosearchctl", "mcp"],
            env=environment,
            input=message_line(initialize_request()),
            capture_output=True,
            timeout=60,
        )
        assert b"serverInfo" in bridge.stdout
        token = (daemon.home / "state" / "token").read_text().strip()
        for verb in (("token",), ("status", "--open")):
            refused = ctl(*verb)
            assert refused.returncode == 1
            assert token not in refused.stdout + refused.stderr
            assert "is held by" in refused.stderr
        assert ctl("token", "--rotate").returncode == 0, "the remedy is never refused"


def test_a_second_daemon_of_the_user_answers_without_the_listener_of_the_first(
    shared: Daemon,
) -> None:
    with passing_daemon(COCOSEARCH_SERVER_PORT=str(port_of(shared))) as second:
        done = second.ctl("up", str(second.home), check=False)
        assert done.returncode == EXIT_SETTINGS
        assert f"(pid {shared.call('status')['pid']}, user " in done.stderr
        assert (
            shared.ctl("token").stdout.strip()
            == (shared.home / "state" / "token").read_text().strip()
        )


# ---- who listens ----


def test_the_listener_proves_that_its_port_is_the_daemons(shared: Daemon) -> None:
    port = port_of(shared)
    assert _tcp_proof(port, "abc") == _unix_proof(shared, "abc", port) != ""
    assert _tcp_proof(port, "abd") != _tcp_proof(port, "abc")
    assert _tcp_proof(port, "a" * 200) == "", "a challenge is short"
    assert _unix_proof(shared, "abc", "x") == ""


def test_a_proof_cannot_be_relayed_from_another_port(shared: Daemon) -> None:
    with relay(port_of(shared)) as (port, received):
        relayed = _tcp_proof(port, "abc")
        assert relayed
        assert received
        assert relayed != _unix_proof(shared, "abc", port)


@pytest.mark.parametrize("relayed", [False, True])
def test_no_verb_sends_or_shows_the_token_where_another_program_listens(
    shared: Daemon, tmp_path: Path, relayed: bool
) -> None:
    """The daemon's answer names a port that another program holds, as in another network namespace
    it can be.
    """
    token = (shared.home / "state" / "token").read_text().strip()
    with relay(port_of(shared) if relayed else 9) as (port, received):
        environment = shared.environment | {"PYTHONPATH": str(tmp_path), "SQUATTED_PORT": str(port)}
        (tmp_path / "sitecustomize.py").write_text(PATCHED_STATUS)
        for verb in (["token"], ["status", "--open"], ["doctor", "--json"]):
            done = subprocess.run(
                [shared.bin / "cocosearchctl", *verb],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 1, (verb, done.stdout, done.stderr)
            output = done.stdout + done.stderr
            assert token not in output
            assert ("is held by" if relayed else "does not answer") in output, verb
    assert received
    assert token.encode() not in b"".join(received)


# Stands in for a network namespace of its own, which tests cannot make: `status` names the port of
# the relay.
PATCHED_STATUS = """\
import os
from cocosearch_ipc import client
ask = client.call
def call(path, method, *arguments, **named):
    reply = ask(path, method, *arguments, **named)
    if method == "status":
        url = f"http://127.0.0.1:{os.environ['SQUATTED_PORT']}"
        reply["mcp"] = {"url": url + "/mcp", "sse_url": url + "/sse", "page_url": url + "/status"}
    return reply
client.call = call
"""


def _tcp_proof(port: int, challenge: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=50)
    connection.request("GET", "/healthz", headers={CHALLENGE: challenge})
    proof = connection.getresponse().headers.get(PROOF, "")
    connection.close()
    return proof


def _unix_proof(daemon: Daemon, challenge: str, port: object) -> str:
    connection = http.client.HTTPConnection("localhost", timeout=50)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(daemon.home / "run" / "rpc.sock"))
    connection.request(
        "GET", "/healthz", headers={CHALLENGE: challenge, CHALLENGED_PORT: str(port)}
    )
    proof = connection.getresponse().headers.get(PROOF, "")
    connection.close()
    return proof


@pytest.mark.skipif(sys.platform != "linux", reason="/proc names holders on Linux alone")
def test_holders_are_named_and_cannot_write_on_the_terminal() -> None:
    with squatter() as (pid, port):
        holder = find_holder("127.0.0.1", port)
        assert holder is not None
        assert (holder.pid, holder.uid) == (pid, os.geteuid())
        assert holder.command.startswith(sys.executable.rpartition("/")[2])
        assert "\n" not in holder.command, "the program's own text ends no line"
    assert find_holder("127.0.0.1", port) is None
    assert "may name it" in describe_holder("127.0.0.1", port)
    with squatter(host="0.0.0.0") as (pid, port):  # a wildcard keeps 127.0.0.1 as well
        assert (find_holder("127.0.0.1", port) or PortHolder(-1)).pid == pid
    script = (
        "import socket, time; server = socket.create_server(('127.0.0.1', 0));"
        "print(server.getsockname()[1], flush=True); time.sleep(60)"
    )
    hostile = [sys.executable, "-c", script, "\x1b]0;owned\x07`reboot`\u202e" + "x" * 5000]
    with subprocess.Popen(hostile, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        description = describe_holder("127.0.0.1", int(process.stdout.readline()))
        process.kill()
    assert description.isprintable()
    assert description.count("`") == 2
    assert len(description) < 120


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's program can be started by root alone")
def test_a_program_of_another_user_is_named_by_the_user() -> None:
    with squatter(uid=65_534) as (pid, port):
        assert f"(pid {pid}, user nobody)" in describe_holder("127.0.0.1", port)
        script = (
            "import os; from cocosearch_ipc.trust.port_holder import describe_holder; os.setuid(65533)\n"
            f"print(describe_holder('127.0.0.1', {port}))"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
        )
        assert done.stdout.strip() == "a program of user nobody", done.stderr


# ---- the bridge ----


@pytest.mark.skipif(os.geteuid() != 0, reason="a socket of another user can be made by root alone")
def test_the_bridge_speaks_to_no_socket_of_another_user(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    script = (
        "import os, socket, sys, time\n"
        "for name in ('rpc.sock', 'mcp.sock'):\n"
        "    s = socket.socket(socket.AF_UNIX); s.bind(f'{sys.argv[1]}/{name}'); globals()[name] = s\n"
        "os.setuid(65534)\n"
        "for name in ('rpc.sock', 'mcp.sock'): globals()[name].listen()\n"
        "print('ready', flush=True)\n"
        "c, _ = globals()['mcp.sock'].accept(); print(c.recv(100), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(run)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        relaying = (
            "import sys; from cocosearch_ipc import client\n"
            "from cocosearch_ipc.cli.running.bridge import SessionRelay\n"
            "relay = SessionRelay({'COCOSEARCH_RUNTIME_DIR': sys.argv[1]}, {'cwd': '/secret'}, None, None)\n"
            "try: relay._get_connection(start=False)\n"
            "except client.CallFailed as failed: print(failed.message)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", relaying, str(run)], capture_output=True, text=True, timeout=120
        )
        assert "belongs to another user" in done.stdout, done.stderr
        process.wait(10)
        assert "secret" not in process.stdout.read()


# ---- the token file ----


def test_a_token_file_is_one_file_of_the_user_alone(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("a-token-that-somebody-knows")
    mine.chmod(0o600)
    for make in (lambda path: path.symlink_to(mine), os.mkfifo, Path.mkdir):
        path = tmp_path / "token"
        make(path)
        token = TokenFile(path)
        assert not token.accepts(b"a-token-that-somebody-knows")
        with pytest.raises(Failure, match="is not a regular file of yours"):
            token.ensure()
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    token = TokenFile(tmp_path / "token")
    first = token.ensure()
    assert token.accepts(first.encode())
    for mode in (0o640, 0o604, 0o660):
        token.path.chmod(mode)
        assert not token.accepts(first.encode())
    token.path.write_bytes(b"\xff" * 64)
    token.path.chmod(0o600)
    assert not token.accepts(b"\xff" * 64)


def test_a_rotation_on_a_full_disk_keeps_the_token_and_leaves_no_file(tmp_path: Path) -> None:
    token = TokenFile(tmp_path / "token")
    first = token.ensure()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # as a full disk: no write succeeds
    try:
        with pytest.raises(OSError, match=re.escape(str(token.path))):
            token.rotate()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert token.accepts(first.encode())
    assert list(tmp_path.iterdir()) == [token.path]


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of another user can be made by root alone")
def test_a_token_of_another_user_is_refused(tmp_path: Path) -> None:
    token = TokenFile(tmp_path / "token")
    first = token.ensure()
    os.chown(token.path, 65_534, 65_534)
    assert not token.accepts(first.encode())
    with pytest.raises(Failure, match="is not a regular file of yours"):
        token.ensure()
