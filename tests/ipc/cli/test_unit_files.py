"""`service install` and `service uninstall` with unit files that users have changed."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.main import run
from cocosearch_ipc.cli.running import service_manager, unit_files
from cocosearch_ipc.cli.running.unit_files import ExistingUnit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """With a `systemctl` that fails where `MODE` says so: a real one needs a machine that systemd
    booted.
    """
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "systemctl"
    program.write_text('#!/bin/sh\ntest "$MODE" != unreachable\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": os.environ["PATH"]}


@pytest.fixture
def units(tmp_path: Path) -> Path:
    return tmp_path / ".config" / "systemd" / "user"


def test_changes_of_a_person_stay(
    env: dict[str, str], units: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["service", "install"], env) == exits.OK
    unit = units / "cocosearchd.service"
    changed = unit.read_text("utf-8").replace("Nice=5", "Nice=15")
    unit.write_text(changed, "utf-8")
    assert service_manager.outdated(env) == ()
    assert run(["service", "install"], env) == exits.OK
    assert unit.read_text("utf-8") == changed
    output = capsys.readouterr()
    assert "already installed" in output.out
    assert f"{unit} has your own changes, which stay" in output.err


def test_a_unit_of_another_version_is_replaced_and_what_a_person_changed_in_it_is_kept(
    env: dict[str, str], units: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    units.mkdir(parents=True)
    unit = units / "cocosearchd.service"
    socket = units / "cocosearchd.socket"
    unit.write_text("[Service]\nNice=15\n")  # written by a version that left no mark, or by hand
    socket.write_bytes(unit_files.add_mark(b"[Socket]\n"))
    assert run(["service", "install"], env) == exits.OK
    assert (
        unit.with_name("cocosearchd.service.before-cocosearch").read_text()
        == "[Service]\nNice=15\n"
    )
    assert f"{unit} had your own changes" in capsys.readouterr().err
    assert {path.name for path in units.iterdir()} == {
        "cocosearchd.service",
        "cocosearchd.service.before-cocosearch",
        "cocosearchd.socket",
        "cocosearchd-mcp.socket",
    }
    assert service_manager.outdated(env) == ()


def test_the_service_gets_what_the_daemon_reads_of_the_environment(
    env: dict[str, str], units: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    password = 'p%40 "q" \\ $HOME'
    variables = {
        "COCOSEARCH_DATABASE_URL": f"postgresql://a:{password}@h/d",
        "XDG_STATE_HOME": "/s",
        "OTHER": "x",
    }
    drop_in = units / "cocosearchd.service.d" / "environment.conf"
    assert run(["service", "install"], env | variables | {"COCOSEARCH_PROJECT": "/p"}) == exits.OK
    output = capsys.readouterr()
    assert (
        f"the service uses COCOSEARCH_DATABASE_URL, XDG_STATE_HOME of this shell ({drop_in})"
        in output.err
    )
    assert password not in output.err + output.out
    file = drop_in.with_name("environment.env")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (drop_in, file)} == {0o600}
    assert drop_in.read_text("utf-8") == f"[Service]\nEnvironmentFile={file}\n", (
        "every user can see a drop-in's values"
    )
    written = file.read_text("utf-8")
    assert read(written) == {
        name: variables[name] for name in ("COCOSEARCH_DATABASE_URL", "XDG_STATE_HOME")
    }
    assert run(["service", "install"], env) == exits.OK
    assert file.read_text("utf-8") == written, "another shell takes nothing away"
    assert run(["service", "install"], env | {"XDG_STATE_HOME": "/t"}) == exits.OK
    assert read(file.read_text("utf-8"))["XDG_STATE_HOME"] == "/t"
    assert (
        read(file.read_text("utf-8"))["COCOSEARCH_DATABASE_URL"]
        == variables["COCOSEARCH_DATABASE_URL"]
    )


def test_values_of_a_former_drop_in_move_into_the_private_file(
    env: dict[str, str], units: Path
) -> None:
    drop_in = units / "cocosearchd.service.d" / "environment.conf"
    drop_in.parent.mkdir(parents=True)
    former = r'Environment="COCOSEARCH_DATABASE_URL=postgresql://a:p%%40 \"q\" \\ $X@h/d"'
    drop_in.write_text(f"[Service]\n{former}\nNice=3\n")
    assert run(["service", "install"], env | {"COCOSEARCH_LOG_LEVEL": "debug"}) == exits.OK
    file = drop_in.with_name("environment.env")
    assert drop_in.read_text("utf-8") == f"[Service]\nNice=3\nEnvironmentFile={file}\n"
    moved = {
        "COCOSEARCH_DATABASE_URL": 'postgresql://a:p%40 "q" \\ $X@h/d',
        "COCOSEARCH_LOG_LEVEL": "debug",
    }
    assert read(file.read_text("utf-8")) == moved


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash reads such a file as systemd does")
def test_a_shell_reads_the_same_values(tmp_path: Path) -> None:
    values = {
        "A": "a b",
        "B": "$HOME `id` \\ \"q\" 'p' % # ;",
        "C": "two\nlines",
        "D": "ünï",
        "E": "\\\\n\\",
    }
    unit_files.write_environment(tmp_path / "x.d" / "environment.conf", values)
    file = tmp_path / "x.d" / "environment.env"
    code = 'set -a; . "$0"; for name in A B C D E; do printf "%s\\0" "${!name}"; done'
    done = subprocess.run(
        ["bash", "-c", code, str(file)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\0")[:-1] == list(values.values())
    assert not unit_files.write_environment(tmp_path / "x.d" / "environment.conf", values), (
        "nothing changes"
    )


def read(text: str) -> dict[str, str]:
    """Parse the lines we write with the rules of EnvironmentFile= in systemd.exec(5)."""
    values = dict[str, str]()
    for line in text.splitlines():
        matched = re.fullmatch(r'(\w+)="((?:[^"\\]|\\.)*)"', line)
        assert matched, line
        values[matched[1]] = re.sub(r"\\(.)", r"\1", matched[2])
    return values


def test_a_service_is_removed_where_its_manager_cannot_be_reached(
    env: dict[str, str],
    units: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """This is the case in a shell of cron or su: before, the files stayed, and `up` went on asking systemd in
    vain.
    """
    assert run(["service", "install"], env | {"COCOSEARCH_SEARCH_LIMIT": "5"}) == exits.OK
    wants = units / "default.target.wants"
    wants.mkdir()
    (wants / "cocosearchd.service").symlink_to(units / "cocosearchd.service")
    (units / "cocosearchd.service.d" / "mine.conf").write_text("[Service]\nNice=1\n")
    monkeypatch.setenv("MODE", "unreachable")
    unreachable = env | {"MODE": "unreachable"}
    assert run(["service", "uninstall"], unreachable) == exits.OK
    output = capsys.readouterr()
    assert "`systemctl --user daemon-reload` failed: a running service continues" in output.err
    assert output.out.splitlines()[-1].startswith("removed (")
    remaining = sorted(path.relative_to(units) for path in units.rglob("*") if not path.is_dir())
    assert remaining == [Path("cocosearchd.service.d/mine.conf")]
    assert run(["service", "uninstall"], unreachable) == exits.OK
    assert capsys.readouterr().out == "no service is installed\n"


def test_templates_from_which_other_users_start_services_stay(tmp_path: Path) -> None:
    """A machine has one directory for the services of all: they run on when one of them goes."""
    service_file = tmp_path / "cocosearchd@.service"
    socket = tmp_path / "cocosearchd@.socket"
    for path, target in ((service_file, "multi-user.target"), (socket, "sockets.target")):
        path.write_text("[Unit]\n")
        wants = tmp_path / f"{target}.wants"
        wants.mkdir()
        for uid in ("1000", "1001"):
            (wants / path.name.replace("@", f"@{uid}")).symlink_to(path)

    def left() -> list[str]:
        return sorted(
            path.name for path in tmp_path.rglob("*") if path.exists() and not path.is_dir()
        )

    def uninstalled(uid: str) -> list[Path]:
        units = {service_file: f"cocosearchd@{uid}.service", socket: f"cocosearchd@{uid}.socket"}
        return unit_files.remove(
            units, tmp_path / f"cocosearchd@{uid}.service.d" / "environment.conf"
        )

    assert uninstalled("1000") == [service_file, socket]
    assert left() == [
        "cocosearchd@.service",
        "cocosearchd@.socket",
        "cocosearchd@1001.service",
        "cocosearchd@1001.socket",
    ]
    assert uninstalled("1001") == []
    assert left() == []


def test_a_property_list_is_marked_as_well(tmp_path: Path) -> None:
    content = b'<?xml version="1.0"?>\n<plist/>\n'
    path = tmp_path / "agent.plist"
    path.write_bytes(unit_files.add_mark(content))
    assert unit_files.compare_file(path, unit_files.add_mark(content)) is ExistingUnit.CURRENT
    assert unit_files.compare_file(path, unit_files.add_mark(content + b"\n")) is ExistingUnit.OLDER
    path.write_bytes(path.read_bytes().replace(b"<plist/>", b"<plist />"))
    assert unit_files.compare_file(path, unit_files.add_mark(content)) is ExistingUnit.CHANGED
    assert (
        unit_files.compare_file(path, unit_files.add_mark(content + b"\n")) is ExistingUnit.UNKNOWN
    )
