"""Unit files, agent and compose file, checked by the tools that read them, or by their rules."""

import os
import plistlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cocosearch_ipc import address
from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.running import service_manager
from cocosearch_ipc.http import guard, serve
from cocosearchd import __main__ as daemon_main
from cocosearchd.config.layers import NOT_SETTINGS, load_settings
from cocosearchd.config.settings import Settings
from cocosearchd.indexing.coordinator import indexer_process
from cocosearchd.indexing.indexer import indexer
from cocosearchd.indexing.pool.boxed_parser import POOL_SIZE
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.store.server import embedded
from cocosearchd.watching import watched_root

ROOT = Path(__file__).resolve().parents[2]
USER = sorted((ROOT / "systemd" / "user").iterdir())
SYSTEM = sorted((ROOT / "systemd" / "system").iterdir())
AGENT = ROOT / "launchd" / f"{service_manager.LABEL}.plist"
# launchd.plist(5). A key that is not here is ignored without a word.
LAUNCHD_KEYS = {
    *(
        "Label",
        "ProgramArguments",
        "EnvironmentVariables",
        "RunAtLoad",
        "KeepAlive",
        "ThrottleInterval",
        "ExitTimeOut",
    ),
    *("ProcessType", "LowPriorityIO", "Nice", "Umask", "SoftResourceLimits", "HardResourceLimits"),
    *("StandardErrorPath", "Sockets"),
}
SOCKET_KEYS = {"SockPathName", "SockPathMode", "SockNodeName", "SockServiceName", "SockFamily"}
IMAGE = re.compile(r"(?P<name>[\w/-]+):\d[\w.-]*@sha256:[0-9a-f]{64}")
SERVICE_KEYS = {
    *(
        "image",
        "environment",
        "command",
        "entrypoint",
        "shm_size",
        "ports",
        "volumes",
        "healthcheck",
        "restart",
    ),
    *("profiles", "depends_on", "build"),
}

CLUSTER = ("citus-coordinator", "citus-worker-1", "citus-worker-2", "citus-schema")


def test_a_stop_ends_before_those_who_wait_for_it_kill_the_daemon() -> None:
    longest_stop = (
        serve.GRACE_S
        + indexer_process.STOP_S
        + watched_root.CLOSE_S
        + embedded.STOP_LIMIT_S
        + embedded.QUIT_LIMIT_S
        + daemon_main.LEAVE_S
    )
    assert guard.DRAIN_S < serve.GRACE_S
    assert indexer.STOP_S < indexer_process.STOP_S
    assert longest_stop < service_manager.STOP_S
    limits = [
        int(value)
        for path in (*USER, *SYSTEM)
        for _, key, value in units(path)
        if key == "TimeoutStopSec"
    ]
    limits.append(plistlib.loads(AGENT.read_bytes())["ExitTimeOut"])
    assert len(limits) == 3
    assert all(limit > service_manager.STOP_S for limit in limits)


needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd on this machine"
)


def units(path: Path) -> list[tuple[str, str, str]]:
    """(section, key, value) of a unit file, in order."""
    lines = list[tuple[str, str, str]]()
    section = ""
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            lines.append((section, key, value))
    return lines


@pytest.fixture
def copies(tmp_path: Path) -> dict[str, list[Path]]:
    """The units with a program that exists, the templates as an instance: what systemd-analyze can
    look at.
    """
    paths_by_text = dict[str, list[Path]]()
    for kind, files in (("user", USER), ("system", SYSTEM)):
        (tmp_path / kind).mkdir()
        for file in files:
            text = file.read_text("utf-8")
            for placeholder in service_manager.PLACEHOLDERS:
                text = text.replace(placeholder, "/bin/true")
            names = (
                [file.name, file.name.replace("@", "@1000")] if "@" in file.name else [file.name]
            )
            for name in names:
                (tmp_path / kind / name).write_text(text)
            paths_by_text.setdefault(kind, []).append(tmp_path / kind / names[-1])
    return paths_by_text


@needs_systemd
@pytest.mark.parametrize("kind", ["user", "system"])
def test_systemd_has_nothing_to_say(
    copies: dict[str, list[Path]], tmp_path: Path, kind: str
) -> None:
    scope = ["--user"] if kind == "user" else []
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path), "SYSTEMD_LOG_LEVEL": "info"}
    command = ["systemd-analyze", "verify", *scope, *map(str, copies[kind])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    # it returns 0 for a key it does not know, and says so
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_a_misspelt_key_would_be_seen(copies: dict[str, list[Path]], tmp_path: Path) -> None:
    unit = next(path for path in copies["system"] if path.suffix == ".service")
    unit.write_text(unit.read_text().replace("RestartSec=", "RestartSecs="))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60
    )
    assert "RestartSecs" in done.stderr


@needs_systemd
@pytest.mark.parametrize(("kind", "most"), [("user", 6.6), ("system", 1.6)])
def test_the_exposure_stays_low(
    copies: dict[str, list[Path]], tmp_path: Path, kind: str, most: float
) -> None:
    unit = next(path for path in copies[kind] if path.suffix == ".service")
    scope = ["--user"] if kind == "user" else []
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", *scope, str(unit)]
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert level is not None
    assert float(level[1]) <= most


@pytest.mark.parametrize(
    "path", [path for path in (*USER, *SYSTEM) if path.suffix == ".service"], ids=lambda p: p.name
)
def test_a_service_agrees_with_the_daemon(path: Path) -> None:
    keys = {key: value for _, key, value in units(path)}
    assert keys["Type"] == "notify"
    assert keys["WatchdogSec"] == "30"
    assert keys["RestartPreventExitStatus"] == f"{exits.ALREADY_RUNNING} {exits.BAD_SETTINGS}"
    assert keys["KillMode"] == "mixed"
    starts = int(keys["StartLimitIntervalSec"]) / int(keys["RestartSec"])
    assert starts < int(keys["StartLimitBurst"]), (
        "a database that comes later than the daemon is waited for"
    )
    variables = dict(pair.split("=", 1) for pair in keys["Environment"].split())
    load_settings(None, dict.fromkeys(variables, "/tmp"))  # unknown names are refused
    program = keys["ExecStart"].split()
    assert program[0].endswith("/cocosearchd")
    assert len(program) == 1


def gibibytes(size: str) -> int:
    assert size.endswith("G")
    return int(size.removesuffix("G"))


@pytest.mark.parametrize(
    "path", [path for path in (*USER, *SYSTEM) if path.suffix == ".service"], ids=lambda p: p.name
)
def test_a_service_has_bounds_that_end_one_process_and_not_the_unit(path: Path) -> None:
    keys = {key: value for _, key, value in units(path)}
    assert gibibytes(keys["MemoryHigh"]) < gibibytes(keys["MemoryMax"])
    assert (
        gibibytes(keys["MemoryMax"]) << 30
        > ResourceLimits().address_space_bytes * POOL_SIZE.max_processes
    )
    assert gibibytes(keys["MemorySwapMax"]) <= 1
    assert int(keys["TasksMax"]) <= 512
    assert (keys["LimitCORE"], keys["OOMPolicy"]) == ("0", "continue")


def test_the_user_unit_has_every_restriction_that_needs_no_namespace() -> None:
    """The restrictions equal those of the system unit, except what a user's manager may be refused."""
    folder = ROOT / "systemd"
    user = {(key, value) for _, key, value in units(folder / "user" / "cocosearchd.service")}
    system = {(key, value) for _, key, value in units(folder / "system" / "cocosearchd@.service")}
    needs_more = re.compile(
        r"Protect|Private|CapabilityBoundingSet|AmbientCapabilities|ProcSubset|RemoveIPC|IPAddress"
    )
    pattern = re.compile(
        r"User$|Environment|StateDirectory|RuntimeDirectory|ExecStart|WantedBy|DefaultInstance|Description|After"
    )
    for key, value in system - user:
        assert needs_more.match(key) or pattern.match(key), f"{key}={value}"


def test_the_sockets_are_those_that_clients_use(tmp_path: Path) -> None:
    listens = {value for path in USER for _, key, value in units(path) if key == "ListenStream"}
    environment = {"XDG_RUNTIME_DIR": str(tmp_path)}
    rpc = address.rpc_socket(environment).replace(str(tmp_path), "%t")
    assert listens == {rpc, f"127.0.0.1:{Settings().server.port}"}
    for path in (*USER, *SYSTEM):
        keys = {key: value for _, key, value in units(path)}
        if keys.get("ListenStream", "").startswith("%t"):
            assert (keys["SocketMode"], keys["DirectoryMode"], keys["FileDescriptorName"]) == (
                "0600",
                "0700",
                "rpc",
            )


def test_the_agent_has_only_keys_that_launchd_knows() -> None:
    plist = plistlib.loads(AGENT.read_bytes())
    assert set(plist) <= LAUNCHD_KEYS
    assert plist["Label"] == service_manager.LABEL
    assert plist["KeepAlive"] == {"SuccessfulExit": False, "Crashed": True}
    assert (plist["Umask"], plist["Sockets"]["rpc"]["SockPathMode"]) == (0o077, 0o600)
    assert plist["Sockets"]["mcp"]["SockServiceName"] == str(Settings().server.port)
    assert set(plist["Sockets"]) == {"rpc", "mcp"}
    for options in plist["Sockets"].values():
        assert set(options) <= SOCKET_KEYS


def test_the_agent_gets_this_users_paths(tmp_path: Path) -> None:
    environment = {
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        "PATH": "/usr/bin",
    }
    plist = plistlib.loads(service_manager.agent(AGENT.read_bytes(), environment))
    assert "/Users/you" not in str(plist)
    assert plist["Sockets"]["rpc"]["SockPathName"] == address.rpc_socket(environment)
    assert plist["ProgramArguments"][0].endswith("cocosearchd")


def compose() -> dict[str, Any]:
    document = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    assert isinstance(document, dict)
    return document


def test_compose_is_infrastructure_only() -> None:
    file = compose()
    assert set(file) == {"name", "services", "volumes"}
    assert set(file["services"]) == {"postgres", "ollama", "ollama-model", *CLUSTER}
    for name, described in file["services"].items():
        assert set(described) <= SERVICE_KEYS, name
        image = IMAGE.fullmatch(base_image(described))
        assert image, "a version, and the digest of what it was"
        assert image["name"] in ("pgvector/pgvector", "ollama/ollama", "citusdata/citus")
        for port in described.get("ports", ()):
            assert port.startswith("127.0.0.1:"), "loopback only"
        for volume in described.get("volumes", ()):
            assert volume.partition(":")[0] in file["volumes"], "named volumes"


def base_image(service: dict[str, Any]) -> str:
    """The image of a service, or the one that its own is built from."""
    if "build" not in service:
        return str(service["image"])
    assert set(service["build"]) == {"dockerfile_inline"}
    first, *steps = service["build"]["dockerfile_inline"].splitlines()
    assert not [line for line in steps if line.startswith("FROM")]
    return str(first.removeprefix("FROM "))


def test_the_cluster_of_compose_is_a_profile_with_a_schema() -> None:
    """Coordinator and workers are one kind of server, and only the coordinator is reached."""
    services = compose()["services"]
    nodes = [services[name] for name in CLUSTER if name != "citus-schema"]
    assert all(services[name]["profiles"] == ["cluster"] for name in CLUSTER)
    assert [bool(node["ports"]) for node in nodes] == [True, False, False]
    assert len({node["volumes"][0] for node in nodes}) == 3
    for name in ("build", "command", "environment", "healthcheck"):
        assert all(node[name] == nodes[0][name] for node in nodes)
    assert "shared_preload_libraries=citus" in nodes[0]["command"]
    schema = services["citus-schema"]
    healthy = {"condition": "service_healthy"}
    assert schema["depends_on"] == {name: healthy for name in CLUSTER if name != "citus-schema"}
    script = schema["entrypoint"][2]
    assert re.search(r"schema_based_sharding = on;\s+create schema if not exists team_a ", script)
    assert re.findall(r"citus_add_node\('([\w-]+)'", script) == list(CLUSTER[1:3])


def test_compose_services_are_healthy_before_others_start() -> None:
    services = compose()["services"]
    for name in ("postgres", "ollama"):
        check = services[name]["healthcheck"]
        assert check["test"][0] == "CMD"
        assert {"interval", "timeout", "retries"} <= set(check)
    for name in ("postgres", "citus-coordinator"):
        # a server that initialises the database answers on its socket
        assert {"--host", "127.0.0.1"} <= set(services[name]["healthcheck"]["test"])
    assert services["ollama-model"]["depends_on"] == {"ollama": {"condition": "service_healthy"}}
    assert "-pg17@" in services["postgres"]["image"], "the volume holds data of this major version"
    assert "profiles" not in services["postgres"]


def test_composes_variables_are_settings_or_its_own() -> None:
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    ports = ("COCOSEARCH_POSTGRES_PORT", "COCOSEARCH_OLLAMA_PORT", "COCOSEARCH_CITUS_PORT")
    ours = {"COCOSEARCH_POSTGRES_PASSWORD", *ports}
    for name in set(re.findall(r"COCOSEARCH_\w+", text)) - ours - NOT_SETTINGS:
        load_settings(None, {name: "ollama" if name.endswith("PROVIDER") else "x"})
    url = re.search(r"COCOSEARCH_DATABASE_URL=(\S+)", text)
    assert url is not None
    assert (
        url[1] == "postgresql://cocosearch:$COCOSEARCH_POSTGRES_PASSWORD@127.0.0.1:5433/cocosearch"
    )


def test_compose_has_no_password_of_its_own() -> None:
    """Compose refuses to start without the variable, and prints what is behind `:?`."""
    password = compose()["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert re.fullmatch(r"\$\{COCOSEARCH_POSTGRES_PASSWORD:\?[^}]*make password[^}]*\}", password)


def test_the_password_of_compose_is_random_and_private(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    make = ["make", "--silent", f"PYTHON={sys.executable}", "password"]
    subprocess.run(make, cwd=tmp_path, check=True, timeout=60)
    written = (tmp_path / ".env").read_text()
    assert re.fullmatch(r"COCOSEARCH_POSTGRES_PASSWORD=[0-9a-f]{48}\n", written)
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    subprocess.run(make, cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / ".env").read_text() == written, "one that is there stays"
    assert "/.env" in (ROOT / ".gitignore").read_text().splitlines()
