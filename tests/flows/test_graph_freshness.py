"""The code graph is never stale: a question after a save sees it, through faults as well."""

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cocosearch_ipc import address, client
from cocosearch_ipc.client import CallFailed
from tests.daemon import Daemon, git

Place = tuple[str, int]  # path, line from 1
SYNC_MS = 30_000


@dataclass
class Package:
    """Modules that define one task each and call those of others, as they are on disk."""

    root: Path
    names: dict[str, str] = field(default_factory=dict)  # path -> the task that it defines
    calls: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # -> (path, task)

    def write(self, path: str, name: str, calls: list[tuple[str, str]]) -> None:
        self.names[path], self.calls[path] = name, calls
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(module_text(name, calls))

    def delete(self, path: str) -> None:
        del self.names[path], self.calls[path]
        (self.root / path).unlink()

    def callers(self, path: str) -> set[Place]:
        """The lines that call the task of a module; a call of a former name is none."""
        return {
            (caller, line)
            for caller, calls in self.calls.items()
            for line, target in enumerate(calls, len(calls) + 3)
            if target == (path, self.names[path])
        }


def module_text(name: str, calls: list[tuple[str, str]]) -> str:
    """Imports, an empty line, the head of the task, and one call a line."""
    imports = [f"from {Path(path).stem} import {task}" for path, task in calls]
    body = [f"    {task}()" for _, task in calls] or ["    pass"]
    return "\n".join([*imports, "", f"def {name}():", *body, ""])


def references(daemon: Daemon, root: Path, target: str, **parameters: Any) -> set[Place]:
    """Ask for the calls of a definition; the answer must be fresh and complete."""
    reply = daemon.call(
        "references",
        target=target,
        cwd=str(root),
        kinds=["call"],
        limit=1000,
        sync_timeout_ms=SYNC_MS,
        **parameters,
    )
    assert reply["fresh"] is True, reply["stale_reason"]
    assert reply["complete"] is True, reply["notes"]
    return {(file["path"], use["line"]) for file in reply["files"] for use in file["references"]}


def assert_unknown(daemon: Daemon, root: Path, target: str) -> None:
    with pytest.raises(CallFailed, match="no definition is named"):
        references(daemon, root, target)


def compare(daemon: Daemon, package: Package, paths: Iterator[str] | list[str]) -> None:
    """Compare the callers of the tasks of modules with the disk."""
    for path in paths:
        expected = package.callers(path)
        assert references(daemon, package.root, package.names[path]) == expected, path


def pairs(daemon: Daemon, root: Path, count: int, seed: int) -> None:
    """Write or delete a module, ask at once: a wrong answer that is called fresh is the sin."""
    rng = random.Random(seed)
    package = Package(root)
    for number in range(count):
        path = f"src/module_{rng.randrange(12)}.py"
        former = package.names.get(path)
        if former is not None and rng.random() < 0.15:
            package.delete(path)
        else:
            is_rename = rng.random() < 0.5
            name = f"task_{seed}_{number}" if former is None or is_rename else former
            targets = [item for item in package.names.items() if item[0] != path]
            calls = rng.sample(targets, min(len(targets), rng.randrange(4)))
            package.write(path, name, calls)
        if path in package.names:
            compare(daemon, package, [path])
        if former is not None and package.names.get(path) != former:
            assert_unknown(daemon, root, former)
        if package.names:
            compare(daemon, package, [rng.choice(sorted(package.names))])
    compare(daemon, package, sorted(package.names))


def test_a_question_after_a_save_sees_it(shared: Daemon, project: Path) -> None:
    shared.index(project)
    pairs(shared, project, 50, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_thousand_questions_after_saves(shared: Daemon, project: Path) -> None:
    shared.index(project)
    pairs(shared, project, 1000, seed=2)


def write_chain(root: Path, tag: str, count: int = 6) -> Package:
    """Modules of which each calls the task of the one before it."""
    package = Package(root)
    previous = list[tuple[str, str]]()
    for number in range(count):
        path, name = f"src/chain_{number}.py", f"{tag}_{number}"
        package.write(path, name, previous)
        previous = [(path, name)]
    return package


def test_a_renamed_definition_takes_its_references_along(shared: Daemon, project: Path) -> None:
    package = write_chain(project, "step")
    shared.index(project)
    compare(shared, package, sorted(package.names))
    package.write("src/chain_0.py", "renamed", [])
    assert references(shared, project, "renamed") == set()
    assert_unknown(shared, project, "step_0")
    package.write("src/chain_1.py", "step_1", [("src/chain_0.py", "renamed")])
    assert references(shared, project, "renamed") == {("src/chain_1.py", 4)}


def test_a_branch_and_back(shared: Daemon, project: Path) -> None:
    main = write_chain(project, "step")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "chain")
    shared.index(project)
    compare(shared, main, sorted(main.names))
    git(project, "switch", "-q", "-c", "other")
    for path in main.names:
        (project / path).unlink()
    other_package = write_chain(project, "stage", 4)
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "other chain")
    compare(shared, other_package, sorted(other_package.names))
    assert_unknown(shared, project, "step_1")
    for branch, package, gone in (
        ("main", main, "stage_1"),
        ("other", other_package, "step_1"),
    ) * 2:
        git(project, "switch", "-q", branch)
        compare(shared, package, sorted(package.names))
        assert_unknown(shared, project, gone)


def test_after_a_kill_the_graph_is_that_of_the_disk(daemon: Daemon, project: Path) -> None:
    package = write_chain(project, "step")
    daemon.index(project)
    compare(daemon, package, sorted(package.names))
    daemon.kill()
    package.write("src/chain_0.py", "renamed", [])
    package.write("src/chain_1.py", "step_1", [("src/chain_0.py", "renamed")])
    package.delete("src/chain_5.py")
    daemon.start()
    compare(daemon, package, sorted(package.names))
    assert_unknown(daemon, project, "step_0")
    package.write("src/chain_5.py", "step_5", [("src/chain_0.py", "renamed")])
    compare(daemon, package, ["src/chain_0.py"])


@contextmanager
def unsaved_session(daemon: Daemon) -> Iterator[str]:
    """A session for unsaved text, as long as the block lasts."""
    socket = address.rpc_socket(daemon.environment)
    with closing(client.stream(socket, "overlay.open", {})) as sessions:
        yield next(iter(sessions))["session"]


def test_unsaved_text_is_in_the_answers_of_its_client_only(shared: Daemon, project: Path) -> None:
    package = write_chain(project, "step", 3)
    shared.index(project)
    text = module_text("added", [("src/chain_0.py", "step_0"), ("src/chain_1.py", "step_1")])
    with unsaved_session(shared) as session:
        shared.call("overlay.put", session=session, path="src/new.py", text=text, cwd=str(project))
        unsaved = references(shared, project, "step_0", session=session)
        assert unsaved == {("src/chain_1.py", 4), ("src/new.py", 5)}
        compare(shared, package, sorted(package.names))
        # the definition itself is renamed in an editor
        shared.call(
            "overlay.put",
            session=session,
            path="src/chain_0.py",
            text=module_text("renamed", []),
            cwd=str(project),
        )
        assert references(shared, project, "renamed", session=session) == set()
        with pytest.raises(CallFailed):
            references(shared, project, "step_0", session=session)
        assert references(shared, project, "step_0") == {("src/chain_1.py", 4)}
        (project / "src/chain_2.py").write_text(module_text("step_2", [("src/new.py", "added")]))
        assert references(shared, project, "added", session=session) == {("src/chain_2.py", 4)}
        shared.call("overlay.clear", session=session, path="src/chain_0.py", cwd=str(project))
        unsaved = references(shared, project, "step_0", session=session)
        assert unsaved == {("src/chain_1.py", 4), ("src/new.py", 5)}
