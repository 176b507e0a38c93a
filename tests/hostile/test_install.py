"""`install --project` and `init` in a hostile project read, write and make nothing outside of it."""

import json
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.main import run
from cocosearch_ipc.cli.setup import install
from cocosearch_ipc.cli.setup.config_verbs import FILE
from cocosearch_ipc.cli.setup.safe_folder import SafeFolder
from cocosearch_ipc.client import CallFailed

SECRET = "BEGIN OPENSSH PRIVATE KEY"
IN_PROJECTS = sorted(name for name, assistant in install.ASSISTANTS.items() if assistant.project)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory; beside it `home/.ssh`, where nothing may change."""
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "id").write_text(SECRET)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}


def outside(project: Path) -> dict[str, tuple[int, bytes]]:
    """Everything beside the project, with mode and content."""
    files = {}
    for path in sorted(project.parent.rglob("*")):
        if path != project and project not in path.parents:
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            files[str(path)] = (path.lstat().st_mode, content)
    return files


def config(name: str) -> str:
    location = install.ASSISTANTS[name].project
    assert location is not None
    return location


LINKS: dict[str, Callable[[Path, Path, str], None]] = {
    "directory linked to .ssh": lambda project, ssh, location: _first(project, location).symlink_to(
        ssh
    ),
    "directory linked to nothing": lambda project, ssh, location: _first(
        project, location
    ).symlink_to(ssh / "new"),
    "file linked to a key": lambda project, ssh, location: _parent(project, location).symlink_to(
        ssh / "id"
    ),
    "file linked to nothing": lambda project, ssh, location: _parent(project, location).symlink_to(
        ssh / "new.json"
    ),
    "file linked to /dev/zero": lambda project, ssh, location: _parent(
        project, location
    ).symlink_to("/dev/zero"),
    "file linked to itself": lambda project, ssh, location: _parent(project, location).symlink_to(
        project / location
    ),
    "FIFO": lambda project, ssh, location: os.mkfifo(_parent(project, location)),
    "directory": lambda project, ssh, location: _parent(project, location).mkdir(),
    "FIFO in place of the directory": lambda project, ssh, location: os.mkfifo(
        _first(project, location)
    ),
    "huge file": lambda project, ssh, location: _huge(_parent(project, location)),
}


def _first(project: Path, location: str) -> Path:
    return project / location.split("/")[0]


def _parent(project: Path, location: str) -> Path:
    (project / location).parent.mkdir(exist_ok=True)
    return project / location


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("name", IN_PROJECTS)
def test_no_link_leads_out_of_a_project(
    name: str,
    kind: str,
    remove: bool,
    project: Path,
    env: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    LINKS[kind](project, project.parent / "home" / ".ssh", config(name))
    previous = outside(project)
    inside = sorted(str(path) for path in project.rglob("*"))
    output = ""
    try:
        run(["install", name, "--project", *(["--remove"] if remove else [])], env)
        assert remove, "what could not be written was not said"
    except (CallFailed, OSError) as failed:
        output = str(failed)
    assert outside(project) == previous
    assert sorted(str(path) for path in project.rglob("*")) == inside
    assert SECRET not in output + capsys.readouterr().out


@pytest.mark.parametrize("name", IN_PROJECTS)
def test_a_backup_is_never_written_through_a_link(
    name: str, project: Path, env: dict[str, str]
) -> None:
    path = _parent(project, config(name))
    path.write_text("" if path.suffix == ".toml" else "{}")
    path.write_text('a = "b"\n' if path.suffix == ".toml" else '{"a": "b"}\n')
    target = project.parent / "home" / ".ssh" / "authorized_keys"
    path.with_name(path.name + install.BACKUP).symlink_to(target)
    assert run(["install", name, "--project"], env) == exits.OK
    assert not target.exists()
    assert "cocosearch" in path.read_text()


def test_a_hard_link_is_replaced_and_its_other_name_stays(
    project: Path, env: dict[str, str]
) -> None:
    victim = project.parent / "home" / "settings.json"
    victim.write_text('{"theme": "dark"}')
    os.link(victim, project / ".mcp.json")
    assert run(["install", "claude", "--project"], env) == exits.OK
    assert victim.read_text() == '{"theme": "dark"}'
    assert json.loads((project / ".mcp.json").read_text())["theme"] == "dark"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755, 0o4755])
def test_a_mode_is_kept_but_for_special_bits(mode: int, project: Path, env: dict[str, str]) -> None:
    (project / ".mcp.json").write_text("{}")
    (project / ".mcp.json").chmod(mode)
    assert run(["install", "claude", "--project"], env) == exits.OK
    assert stat.S_IMODE((project / ".mcp.json").stat().st_mode) == mode & 0o777
    assert {path.name for path in project.iterdir()} == {".mcp.json", f".mcp.json{install.BACKUP}"}


HOSTILE_JSON = (
    "[" * 100_000,
    '{"a":' * 100_000,
    '{"a":' * 400 + "1" + "}" * 400,
    '{"mcpServers": {}, "mcpServers": {"x": 1}}',
    '{"a": {"b": 1, "b": 2}}',
    "{" + ",".join(f'"k{n}": {n}' for n in range(40_000)) + ', "k1": 0}',
    '{"a": NaN}',
    '{"a": 1e999}',
    '{"a": 0.10000000000000000000000000001}',
    '{"a": ' + "9" * 10_000 + "}",
    '{"a": "\\ud800"}',
    '{"a": 1} // comment',
    '/* c */ {"a": 1}',
    '{"a": 1,}',
    '{"mcpServers": "x"}',
    "null",
    '"text"',
    "\ufeff{}",
    '{"a": "\0"}',
    '{"__proto__": {"a": 1}, "mcpServers": {"__proto__": [1, 2.5, true, null, "\\u202e"]}}',
)


@pytest.mark.parametrize("text", HOSTILE_JSON, ids=lambda text: repr(text[:30]))
def test_json_is_understood_whole_or_left_as_it_is(
    text: str, project: Path, env: dict[str, str]
) -> None:
    path = project / ".mcp.json"
    path.write_text(text, "utf-8")
    failed: CallFailed | None = None
    try:
        assert run(["install", "claude", "--project"], env) == exits.OK
    except CallFailed as refused:
        failed = refused
    if failed is not None:
        assert path.read_text("utf-8") == text
        assert failed.hint
        assert len(failed.message) < 400
        return
    after = json.loads(path.read_text("utf-8"))
    assert after["mcpServers"].pop("cocosearch")["args"] == ["mcp"]
    previous = json.loads(text)
    assert (previous.get("mcpServers") or {}) == after.pop("mcpServers")
    previous.pop("mcpServers", None)
    assert previous == after


HOSTILE_TOML = (
    'a = """\n[mcp_servers.cocosearch]\ncommand = "x"\n"""\n',
    "a = '''\n[mcp_servers.cocosearch]\n'''\n[b]\nc = nan\n",
    '[mcp_servers."cocosearch"]\ncommand = "x"\n',
    '[mcp_servers.cocosearch]\ncommand = "x"\n[mcp_servers.cocosearch.env]\nA = "b"\n',
    '[[mcp_servers.cocosearch]]\ncommand = "x"\n',
    "a = " + "[" * 5000 + "]" * 5000,
    "mcp_servers = 1\n",
    "a.b.c.d = 1\n" * 2,
    "a = nan\nb = inf\n",
)


@pytest.mark.parametrize("text", HOSTILE_TOML, ids=lambda text: repr(text[:30]))
def test_toml_is_understood_whole_or_left_as_it_is(
    text: str, project: Path, env: dict[str, str]
) -> None:
    path = _parent(project, ".codex/config.toml")
    path.write_text(text, "utf-8")
    try:
        assert run(["install", "codex", "--project"], env) == exits.OK
    except CallFailed:
        assert path.read_text("utf-8") == text
        return
    previous, after = tomllib.loads(text), tomllib.loads(path.read_text("utf-8"))
    assert after["mcp_servers"].pop("cocosearch")["args"] == ["mcp"]
    previous.setdefault("mcp_servers", {}).pop("cocosearch", None)
    assert repr(sorted(previous.items())) == repr(sorted(after.items()))


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", [FILE, f".{FILE}"])
@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "directory"])
def test_init_follows_no_link(
    kind: str, name: str, force: bool, project: Path, env: dict[str, str]
) -> None:
    key = project.parent / "home" / ".ssh" / "id"
    make: dict[str, Callable[[Path], object]] = {
        "link": lambda path: path.symlink_to(key),
        "dangling": lambda path: path.symlink_to(key.with_name("new")),
        "fifo": os.mkfifo,
        "directory": Path.mkdir,
    }
    make[kind](project / name)
    previous = outside(project)
    try:
        code = run(["init", *(["--force"] if force else [])], env)
    except OSError:
        code = exits.FAILED
    assert outside(project) == previous
    assert code == (exits.OK if force and kind != "directory" else exits.FAILED)
    if code == exits.OK:
        assert (project / name).is_file()
        assert not (project / name).is_symlink()
    assert [path.name for path in project.iterdir()] == [name], "nothing half-written is left"


def test_a_directory_that_is_swapped_meanwhile_changes_nothing_elsewhere(project: Path) -> None:
    """Every step is relative to what was opened."""
    (project / ".vscode").mkdir()
    with SafeFolder.opened(project, ".vscode") as folder:
        (project / ".vscode").rename(project / "moved")
        (project / ".vscode").symlink_to(project.parent / "home" / ".ssh")
        folder.replace("mcp.json", b"{}", 0o600)
    assert (project / "moved" / "mcp.json").read_text() == "{}"
    assert [path.name for path in (project.parent / "home" / ".ssh").iterdir()] == ["id"]
