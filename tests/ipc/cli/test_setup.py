"""Set-up verbs: assistants' configurations, shell completion, `doctor`, services, tokens."""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cocosearch_ipc import address
from cocosearch_ipc.cli import exits, parser
from cocosearch_ipc.cli.main import run
from cocosearch_ipc.cli.running import service_manager, unit_files
from cocosearch_ipc.cli.setup import completion, doctor, install
from cocosearch_ipc.client import CallFailed
from tests.ipc.cli.test_cli import CTL
from tests.ipc.conftest import Served


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "COCOSEARCH_STATE_DIR": str(tmp_path / "state"),
        "COCOSEARCH_RUNTIME_DIR": str(tmp_path / "run"),
    }


def read(path: Path) -> dict[str, Any]:
    text = path.read_text("utf-8")
    document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("name", sorted(install.ASSISTANTS))
def test_an_assistant_is_set_up_once_and_keeps_what_it_had(
    name: str, env: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assistant = install.ASSISTANTS[name]
    path = assistant.user(env)
    path.parent.mkdir(parents=True, exist_ok=True)
    is_toml = path.suffix == ".toml"
    texts = (
        f'model = "x"\n\n[{assistant.keys}.other]\ncommand = "o"\n\n[after]\nkey = 1\n'
        if is_toml
        else json.dumps({"theme": "dark", assistant.keys: {"other": {"command": "ö"}}}, indent=4)
    )
    path.write_text(texts, "utf-8")
    path.chmod(0o640)
    assert run(["install", name], env) == exits.OK
    after = read(path)
    entry = after[assistant.keys].pop("cocosearch")
    assert after == (tomllib.loads(texts) if is_toml else json.loads(texts))
    words = (
        entry["command"]
        if isinstance(entry["command"], list)
        else [entry["command"], *entry["args"]]
    )
    assert words[0].endswith("cocosearchctl")
    assert words[1:] == ["mcp"]
    assert path.with_name(path.name + install.BACKUP).read_text("utf-8") == texts
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    written = path.read_bytes()
    assert run(["install", name, "--json"], env) == exits.OK
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["changed"] is False
    assert path.read_bytes() == written
    assert run(["install", name, "--remove"], env) == exits.OK
    assert read(path) == after
    assert list(path.parent.glob("*.new")) == []


def test_printing_an_assistants_configuration_changes_nothing(
    env: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["install", "codex", "--print"], env) == exits.OK
    assert tomllib.loads(capsys.readouterr().out)["mcp_servers"]["cocosearch"]["args"] == ["mcp"]
    assert list(tmp_path.iterdir()) == []


def test_a_project_has_its_own_configuration(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert run(["install", "vscode", "--project"], env) == exits.OK
    assert (
        read(tmp_path / "project" / ".vscode" / "mcp.json")["servers"]["cocosearch"]["type"]
        == "stdio"
    )
    with pytest.raises(Exception, match="no configuration per project"):
        run(["install", "claude-desktop", "--project"], env)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cursor", '{"a": 1, // comment\n}', "is not plain JSON"),
        ("cursor", "[]", "has an unexpected structure"),
        ("cursor", '{"mcpServers": []}', "has an unexpected structure"),
        ("cursor", '{"a": "\udce9"}', "is not UTF-8"),
        ("codex", "a = '\udce9'", "is not UTF-8"),
        ("codex", "a = [", "is not valid TOML"),
        ("codex", 'mcp_servers = { cocosearch = { command = "x" } }', "in an unknown form"),
    ],
)
def test_a_file_we_do_not_understand_is_left_alone(
    name: str, text: str, message: str, env: dict[str, str]
) -> None:
    path = install.ASSISTANTS[name].user(env)
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8", "surrogateescape")
    with pytest.raises(CallFailed, match=message):
        run(["install", name], env)
    assert path.read_text("utf-8", "surrogateescape") == text


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["cocosearchctl", "rei"], {"reindex"}),
        (["cocosearchctl", "query", "--lim"], {"--limit"}),
        (["cocosearchctl", "query", "x", "--index", ""], {"alpha", "beta"}),
        (["cocosearchctl", "stats", "al"], {"alpha"}),
        (["cocosearchctl", "service", "inst"], {"install"}),
        (["cocosearchctl", "install", "claude"], {"claude", "claude-desktop"}),
    ],
)
def test_bash_completes(typed: list[str], offered: set[str]) -> None:
    script = "\n".join(
        [
            "cocosearchctl() { printf 'alpha\\nbeta\\n'; }",
            *completion.bash(),
            f"COMP_WORDS=({' '.join(word or chr(39) * 2 for word in typed)})",
            f"COMP_CWORD={len(typed) - 1}",
            "_cocosearchctl",
            'echo "${COMPREPLY[@]}"',
        ]
    )
    done = subprocess.run(["bash", "-u", "-c", script], capture_output=True, text=True, timeout=120)
    assert (set(done.stdout.split()), done.stderr) == (offered, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")
def test_a_name_is_offered_as_it_is_and_never_run(tmp_path: Path) -> None:
    """A project names its index: in `cocosearch.yaml`, or by its directory."""
    (tmp_path / "two words").mkdir()
    script = "\n".join(
        [
            "cocosearchctl() { printf '%s\\n' 'x$(touch ran)' 'x`touch ran`' 'x; y'; }",
            *completion.bash(),
            't() { COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _cocosearchctl; printf \'%s\\n\' "${COMPREPLY[@]}"; }',
            "t cocosearchctl stats x",
            "t cocosearchctl query --index x",
            "t cocosearchctl up two",
        ]
    )
    done = subprocess.run(
        ["bash", "-u", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    names = [r"x\$\(touch\ ran\)", r"x\`touch\ ran\`", r"x\;\ y"]
    assert (done.stdout.splitlines(), done.stderr) == ([*names, *names, "two words"], "")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_know_every_verb_and_option(shell: str, tmp_path: Path) -> None:
    text = "\n".join({"zsh": completion.zsh, "fish": completion.fish}[shell]())
    for verb, options in completion.words().items():
        assert verb in text
        for option in options:
            assert option.removeprefix("--") in text
    assert set(completion.TAKES_NAME) <= {verb.name for verb in parser.VERBS}
    if program := shutil.which(shell):
        (tmp_path / "script").write_text(text)
        subprocess.run([program, "-n", str(tmp_path / "script")], check=True, timeout=120)


def test_doctor_finds_trouble_and_names_the_fix(
    env: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "token").write_text("x" * 40)
    (tmp_path / "state" / "token").chmod(0o644)
    (tmp_path / "state" / "some" / "where").mkdir(parents=True)
    (tmp_path / "state" / "some" / "where" / "rows").write_bytes(b"x" * 2_000_000)
    assert run(["doctor", "--json"], env) == exits.FAILED
    findings = {f["what"]: f for f in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["runtime directory"]["fix"] == f"chmod 700 {tmp_path / 'run'}"
    assert findings["token"]["fix"] == f"chmod 600 {tmp_path / 'state' / 'token'}"
    assert findings["daemon"]["state"] == "fail"
    assert findings["clock"]["state"] == "ok"
    assert findings["disk"]["message"].endswith("state, which holds 2.0 MB")
    assert all(f["fix"] or f["what"] == "warning" for f in findings.values() if f["state"] != "ok")


def test_doctor_is_content_with_a_healthy_daemon(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor"], served.environment) == exits.OK
    output = capsys.readouterr().out
    assert "ok    daemon: version 0.1.0, pid 1" in output
    assert "ok    index demo: live, 2 files, inotify" in output


def test_doctor_recommends_no_restart_for_work_that_waits_by_itself(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    served.engine.paused = "indexing waits: 9 MiB are free in /srv, 512 are needed"
    assert run(["doctor", "--json"], served.environment) == exits.OK
    findings = [
        f for f in json.loads(capsys.readouterr().out)["findings"] if f["what"] == "warning"
    ]
    assert [(f["message"], f["fix"]) for f in findings] == [
        (served.engine.paused, "it continues by itself, after its cause is fixed"),
        ("port 7 is taken", "cocosearchctl restart, after its cause is fixed"),
    ]


def test_a_worker_that_starts_is_not_broken(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    served.engine.worker = "starting"
    assert run(["doctor"], served.environment) == exits.OK
    assert "warn  worker: starting" in capsys.readouterr().out


def test_a_worker_that_runs_again_is_not_broken() -> None:
    """Its daemon tells how the last one ended for as long as it runs."""
    finding = doctor._part("worker", {"state": "running", "deaths": 2, "error": "signal SIGKILL"})
    assert (finding.state, finding.fix) == ("ok", "")
    assert "signal SIGKILL" in finding.message
    assert (
        doctor._part("worker", {"state": "waiting", "deaths": 2, "error": "signal SIGKILL"}).state
        == "fail"
    )


SYSTEMCTL = """#!{python}
import os, sys
open(os.environ["HOME"] + "/calls", "a").write(" ".join(sys.argv[1:]) + "\\n")
print(os.environ.get("SAYS", "active") if "show" not in sys.argv else os.environ.get("SHOWS", "ActiveState=active"))
inactive = "is-active" in sys.argv and os.environ.get("SAYS", "active") != "active"
sys.exit(3 if inactive or "fail" in os.environ.get("MODE", "") else 0)
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with a `systemctl` that records its calls: a real one needs a machine that
    systemd booted.
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").write_text(SYSTEMCTL.format(python=sys.executable))
    (tmp_path / "bin" / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
def test_the_service_is_installed_once_and_removed(
    systemd: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = tmp_path / ".config" / "systemd" / "user" / "cocosearchd.service"
    assert not service_manager.is_installed(systemd)
    assert run(["service", "install"], systemd) == exits.OK
    assert capsys.readouterr().out.startswith("installed (")
    program = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    assert Path(program.removeprefix("ExecStart=")).exists()
    assert service_manager.is_installed(systemd)
    assert not service_manager.is_installed(systemd | {"COCOSEARCH_STATE_DIR": "/elsewhere"})
    assert run(["service", "install"], systemd) == exits.OK
    assert capsys.readouterr().out.startswith("already installed (")
    for verb in ("stop", "start", "status"):
        assert run(["service", verb], systemd) == exits.OK
    calls = (tmp_path / "calls").read_text().splitlines()
    units = "cocosearchd.socket cocosearchd-mcp.socket cocosearchd.service"
    looked = "--user is-active cocosearchd.service"
    command = "--user daemon-reload"
    assert calls[:4] == [command, looked, command, f"--user enable --now {units}"]
    assert calls[-4:] == [
        f"--user stop {units}",
        f"--user start {units}",
        looked,
        "--user --no-pager status cocosearchd.service",
    ]
    assert run(["service", "status", "--json"], systemd) == exits.OK
    (document,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert (json.loads(document)["installed"], json.loads(document)["running"]) == (True, True)
    assert run(["service", "status", "--json"], systemd | {"SAYS": "inactive"}) == exits.NOT_RUNNING
    assert run(["service", "uninstall"], systemd) == exits.OK
    assert list(unit.parent.iterdir()) == []
    capsys.readouterr()
    assert run(["service", "uninstall", "--json"], systemd) == exits.OK
    assert json.loads(capsys.readouterr().out)["changed"] is False
    assert run(["service", "status"], systemd) == exits.NOT_RUNNING
    with pytest.raises(Exception, match="no service is installed"):
        run(["service", "start"], systemd)


FAILED = "ActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainStatus=1"
AGAIN = "ActiveState=activating\nSubState=auto-restart\nResult=exit-code\nExecMainStatus="


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
@pytest.mark.parametrize("state", [FAILED, AGAIN + "1"])
@pytest.mark.parametrize(
    "line", [["up", "."], ["down"], ["query", "retry"], ["query", "retry", "--limit=3", "--full"]]
)
def test_a_service_that_fails_is_not_waited_for(
    systemd: dict[str, str], tmp_path: Path, state: str, line: list[str]
) -> None:
    """Its manager holds the socket: who connects is accepted by nobody, and no answer comes."""
    env = systemd | {"XDG_RUNTIME_DIR": str(tmp_path / "r"), "SHOWS": state}
    assert run(["service", "install"], env) == exits.OK
    path = Path(address.rpc_socket(env))
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(100)
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith("COCOSEARCH_")
        }
        done = subprocess.run(
            [*CTL, *line],
            env=variables | env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=50,
        )
    assert done.returncode == exits.NOT_RUNNING
    assert "error: the service cocosearchd has failed (exit-code, exit code 1)" in done.stderr
    assert "journalctl --user -u cocosearchd" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
@pytest.mark.parametrize(
    "state", ["ActiveState=active\nSubState=running", "ActiveState=inactive", "", AGAIN + "69"]
)
def test_a_service_that_may_still_come_is_waited_for(systemd: dict[str, str], state: str) -> None:
    """With 69 its database is not there yet."""
    assert run(["service", "install"], systemd) == exits.OK
    service_manager.require_healthy(systemd | {"SHOWS": state})


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
def test_half_a_service_is_removed_as_well(systemd: dict[str, str], tmp_path: Path) -> None:
    assert run(["service", "install"], systemd) == exits.OK
    units = tmp_path / ".config" / "systemd" / "user"
    (units / "cocosearchd.service").unlink()
    assert not service_manager.is_installed(systemd)
    assert run(["service", "uninstall"], systemd) == exits.OK
    assert list(units.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
def test_a_daemon_that_runs_by_itself_makes_way_for_the_service(
    served: Served,
    systemd: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # the fixed engine says that it is process 1, which stays
    monkeypatch.setattr(service_manager, "STOP_S", 0.1)
    assert (
        run(["service", "install"], systemd | served.environment | {"PATH": systemd["PATH"]})
        == exits.OK
    )
    assert not served.engine.stopped.is_set(), "one that the service runs goes on"
    environment = systemd | served.environment | {"PATH": systemd["PATH"], "SAYS": "inactive"}
    assert run(["service", "install"], environment) == exits.OK
    assert served.engine.stopped.is_set()
    assert "stopping the daemon that `up` started (pid 1)" in capsys.readouterr().err


def test_an_agent_is_loaded_again_and_unloaded_only_if_it_is_there(tmp_path: Path) -> None:
    commands = service_manager._launchd({"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    (unload, load) = commands.commands["install"]
    (again,) = commands.commands["uninstall"]
    assert unload == again == (service_manager.MAY_FAIL, "launchctl", "bootout", unload[-1])
    assert load[:2] == ("launchctl", "bootstrap")
    missing = service_manager.ServiceManager(
        {}, {"install": ((service_manager.MAY_FAIL, "false"), ("true",)), "start": (("false",),)}
    )
    service_manager._run_commands(missing, "install")
    with pytest.raises(Exception, match=r"`false` failed \(1\)"):
        service_manager._run_commands(missing, "start")


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
def test_doctor_sees_a_service_of_another_version_and_one_that_failed(
    systemd: dict[str, str], tmp_path: Path
) -> None:
    def found() -> tuple[str, str]:
        (finding,) = [finding for finding in doctor.machine(systemd) if finding.what == "service"]
        return finding.state, finding.fix

    assert found() == ("ok", "")
    assert run(["service", "install"], systemd) == exits.OK
    assert found() == ("ok", "")
    systemd["SAYS"] = "failed"
    assert found() == ("fail", "cocosearchctl logs, then cocosearchctl service start")
    unit = tmp_path / ".config" / "systemd" / "user" / "cocosearchd.service"
    unit.write_text(unit.read_text() + "Nice=10\n")
    assert found() == ("fail", "cocosearchctl logs, then cocosearchctl service start"), (
        "a person's change is no version"
    )
    unit.write_bytes(unit_files.add_mark(b"# of another version\n"))
    assert found() == ("warn", "cocosearchctl service install")
    assert service_manager.journal(systemd, 5, follow=True) is not None
    assert (
        service_manager.journal(systemd | {"COCOSEARCH_STATE_DIR": "/elsewhere"}, 5, follow=True)
        is None
    )


def test_doctor_sees_a_bridge_that_is_gone_and_a_listener_that_does_not_answer(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "cocosearch_ipc.http.serve.renew", lambda bound: bound
    )  # it would be there again within seconds
    for _ in range(20):  # a look that has begun may still make it again
        (served.run / "mcp.sock").unlink(missing_ok=True)
        time.sleep(0.02)
    served.engine.mcp = {"url": "http://127.0.0.1:1/mcp"}
    assert run(["doctor", "--json"], served.environment) == exits.FAILED
    findings = {f["what"]: f for f in json.loads(capsys.readouterr().out)["findings"]}
    assert (findings["bridge socket"]["state"], findings["bridge socket"]["fix"]) == (
        "fail",
        "cocosearchctl restart",
    )
    assert findings["mcp"]["state"] == "fail"
    assert "does not answer" in findings["mcp"]["message"]


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
def test_a_service_manager_that_fails_is_quoted_and_nothing_has_changed(
    served: Served, systemd: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a login session, existing unit files would make `up` ask systemd in vain."""
    monkeypatch.setenv("MODE", "fail")
    environment = systemd | served.environment | {"PATH": systemd["PATH"], "SAYS": "inactive"}
    with pytest.raises(Exception, match=r"`systemctl --user daemon-reload` failed \(3\)"):
        run(["service", "install"], environment)
    assert not any(
        path.exists() for path in service_manager.manager(environment, system=False).files
    )
    assert not served.engine.stopped.is_set()


def test_directories_follow_the_environment(tmp_path: Path) -> None:
    variables = {
        "COCOSEARCH_STATE_DIR": "/a/state",
        "COCOSEARCH_RUNTIME_DIR": "/a/run",
        "COCOSEARCH_CONFIG": "/a/c.yaml",
    }
    assert address.rpc_socket(variables) == "/a/run/rpc.sock"
    assert address.bridge_socket(variables) == "/a/run/mcp.sock"
    assert (address.token_file(variables), address.config_file(variables)) == (
        "/a/state/token",
        "/a/c.yaml",
    )
    assert address.log_file(variables) == "/a/state/cocosearchd.log"
    xdg = {"XDG_STATE_HOME": "/x/s", "XDG_RUNTIME_DIR": "/x/r", "XDG_CONFIG_HOME": "/x/c"}
    assert (address.state_dir(xdg), address.runtime_dir(xdg)) == (
        "/x/s/cocosearch",
        "/x/r/cocosearch",
    )
    assert address.config_file(xdg) == "/x/c/cocosearch/config.yaml"
    assert address.runtime_dir(xdg | {"COCOSEARCH_STATE_DIR": "/b"}) == "/b/run", "side by side"
    relative = {"XDG_STATE_HOME": "s", "XDG_RUNTIME_DIR": "r", "XDG_CONFIG_HOME": "./c"}
    for locate in (address.state_dir, address.runtime_dir, address.config_file):
        assert locate(relative) == locate(dict.fromkeys(relative, "")) == locate({}), (
            "as the specification wants it"
        )


def test_a_deep_runtime_directory_gets_a_short_stand_in(tmp_path: Path) -> None:
    deep = {"COCOSEARCH_RUNTIME_DIR": str(tmp_path / ("d" * 120))}
    variables = {"COCOSEARCH_RUNTIME_DIR": str(tmp_path / ("e" * 120))}
    assert len(os.fsencode(address.rpc_socket(deep))) <= address.SOCKET_PATH_BYTES
    assert (
        address.rpc_socket(deep) == address.rpc_socket(dict(deep)) != address.rpc_socket(variables)
    )
    assert address.rpc_socket(deep).startswith(f"/tmp/cocosearch-{os.geteuid()}-")


def test_no_socket_lies_where_another_user_could_take_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)  # a user without /run/user
    assert address.runtime_dir({"HOME": "/home/a"}) == "/home/a/.local/state/cocosearch/run"


@pytest.mark.skipif(os.geteuid() == 0, reason="root has directories of the system")
def test_an_ordinary_user_without_xdg_has_home_directories() -> None:
    assert address.state_dir({"HOME": "/home/a"}).startswith("/home/a/")
    assert address.config_file({"HOME": "/home/a"}) == "/home/a/.config/cocosearch/config.yaml"


@pytest.mark.skipif(os.geteuid() != 0, reason="for root only")
def test_root_has_directories_that_others_can_reach() -> None:
    assert address.state_dir({"HOME": "/root"}) == "/var/lib/cocosearch"
    assert address.config_file({"HOME": "/root"}) == "/etc/cocosearch/config.yaml"
