"""RootScope against git itself on random trees, and the layers that git does not know."""

import os
import subprocess
from pathlib import Path

import pytest

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.watching.git import stamps
from cocosearchd.watching.ignore import default_patterns, root_scope
from cocosearchd.watching.ignore.patterns import EMPTY
from cocosearchd.watching.ignore.root_scope import RootScope
from tests.watching.support import git
from tests.watching.trees import RandomTree

EVERYTHING = IndexingSettings(include=("*",), index_secrets=True)


@pytest.fixture
def only_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what is excluded beside git's rules, so that git's answer is the whole answer."""
    monkeypatch.setattr(default_patterns, "TOOL_FILES", EMPTY)
    monkeypatch.setattr(default_patterns, "OUTPUT_DIRECTORIES", EMPTY)


def ignored_by_git(root: Path, paths: list[str]) -> set[str]:
    done = subprocess.run(
        ["git", "check-ignore", "--stdin", "-z"],
        cwd=root,
        input=b"".join(os.fsencode(path) + b"\0" for path in paths),
        capture_output=True,
        check=False,
    )
    return {os.fsdecode(path) for path in done.stdout.split(b"\0") if path}


def listed_by_git(root: Path) -> set[bytes]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
        check=True,
    ).stdout
    return {path for path in listed.split(b"\0") if path and (root / os.fsdecode(path)).is_file()}


def in_scope(root: Path) -> set[bytes]:
    """By asking for each file alone, and, as a scan does, for directories on the way."""
    scope, paths, stack = RootScope(os.fsencode(root), EVERYTHING), set[bytes](), [b""]
    while stack:
        folder = stack.pop()
        for entry in os.scandir(os.path.join(os.fsencode(root), folder)):
            path = os.path.join(folder, entry.name)
            if entry.name == b".git":
                continue
            if entry.is_dir():
                stack.extend([] if scope.is_pruned(path) else [path])
            elif scope.is_in_scope(path):
                paths.add(path)
    return paths


def compare(where: Path, seed: int) -> None:
    tree = RandomTree(where / f"t{seed}", seed, track=seed % 2 == 1)
    scope = RootScope(os.fsencode(tree.root), EVERYTHING)
    paths = [path for path in [*tree.files, *tree.folders] if path]
    ours = {
        path
        for path in paths
        if scope.is_left_out(os.fsencode(path), directory=path in tree.folders)
    }
    tracked = {
        path.decode()
        for path in subprocess.run(
            ["git", "ls-files", "-z"], cwd=tree.root, capture_output=True, check=True
        ).stdout.split(b"\0")
    }
    # git speaks of an ignored directory as ignored even if it tracks something in it; a scan has to
    # enter it.
    entered = {
        path for path in tree.folders if any(file.startswith(path + "/") for file in tracked)
    }
    # It also takes a name with wildcards for a pattern of what it tracks.
    unsure = entered | {path for path in paths if tracked != {""} and set(path) & set("*?[\\")}
    assert ours - unsure == ignored_by_git(tree.root, paths) - unsure, f"seed {seed}"
    assert in_scope(tree.root) == listed_by_git(tree.root), f"seed {seed}"


@pytest.mark.usefixtures("only_git")
def test_decisions_are_those_of_git(tmp_path: Path) -> None:
    for seed in range(40):
        compare(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.usefixtures("only_git")
def test_decisions_are_those_of_git_on_many_trees(tmp_path: Path) -> None:
    for seed in range(1000, 1600):
        compare(tmp_path, seed)


def scope_of(root: Path, settings: IndexingSettings | None = None) -> RootScope:
    return RootScope(os.fsencode(root), settings or IndexingSettings())


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    "path",
    [
        "node_modules/left-pad/index.js",
        "src/__pycache__/x.py",
        ".git/hooks/pre-commit.py",
        "build/generated.py",
        "web/dist/app.js",
        "package-lock.json",
        "deep/down/Cargo.lock",
        "static/jquery.min.js",
        ".venv/lib/x.py",
    ],
)
def test_excluded_without_being_told(tmp_path: Path, path: str) -> None:
    assert not scope_of(tmp_path).is_in_scope(path.encode())


def test_build_output_that_git_tracks_is_source(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, **{"build/kept.py": "", "build/made.py": "", "app/out/kept.py": ""})
    git(tmp_path, "add", "build/kept.py", "app/out/kept.py")
    scope = scope_of(tmp_path)
    assert scope.is_in_scope(b"build/kept.py")
    assert scope.is_in_scope(b"app/out/kept.py")
    assert not scope.is_in_scope(b"build/made.py")
    assert not scope.is_in_scope(b"build/more/made.py")


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.production",
        "server.pem",
        "id_rsa",
        "id_ed25519.pub",
        ".netrc",
        "credentials.json",
        "x.tfvars",
    ],
)
def test_secrets_stay_out_unless_asked_for(tmp_path: Path, name: str) -> None:
    everything = IndexingSettings(include=("*",))
    assert not scope_of(tmp_path, everything).is_in_scope(name.encode())
    assert not scope_of(tmp_path, everything).is_in_scope(b"src/" + name.encode())
    assert scope_of(tmp_path, IndexingSettings(include=("*",), index_secrets=True)).is_in_scope(
        name.encode()
    )


def test_an_example_of_an_environment_is_no_secret(tmp_path: Path) -> None:
    assert scope_of(tmp_path, IndexingSettings(include=("*",))).is_in_scope(b".env.example")


def test_a_repository_cannot_take_secrets_back(tmp_path: Path) -> None:
    write(tmp_path, **{".cocosearchignore": "!.env\n", ".gitignore": "!.env\n"})
    assert not scope_of(tmp_path, IndexingSettings(include=("*",))).is_in_scope(b".env")


def test_our_own_ignore_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            ".cocosearchignore": "*.md\n!node_modules/\n",
            "src/.cocosearchignore": "!README.md\n/gen/\n",
        },
    )
    write(tmp_path, **{".gitignore": "kept.py\n", "src/.gitignore": ""})
    write(tmp_path, **{"other/.cocosearchignore": "!kept.py\n"})
    scope = scope_of(tmp_path)
    assert not scope.is_in_scope(b"README.md")
    assert scope.is_in_scope(b"src/README.md")
    assert not scope.is_in_scope(b"src/gen/x.py")
    assert not scope.is_in_scope(b"kept.py")
    assert scope.is_in_scope(b"other/kept.py")
    assert scope.is_in_scope(b"node_modules/mine/index.js")


def test_patterns_of_the_user_come_first(tmp_path: Path) -> None:
    write(tmp_path, **{".gitignore": "*.gen.py\n", ".cocosearchignore": "docs/\n"})
    settings = IndexingSettings(
        exclude=("tests/", "!*.gen.py", "!docs/"), include=("*.py", "docs/**")
    )
    scope = scope_of(tmp_path, settings)
    assert not scope.is_in_scope(b"tests/x.py")
    assert scope.is_in_scope(b"a.gen.py")
    assert scope.is_in_scope(b"docs/a.md")
    assert not scope.is_in_scope(b"a.md")


def test_only_supported_types_by_default(tmp_path: Path) -> None:
    scope = scope_of(tmp_path)
    assert scope.is_in_scope(b"main.go")
    assert scope.is_in_scope(b"Makefile")
    assert not scope.is_in_scope(b"photo.jpeg")


def test_rules_can_be_left_alone(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, **{".gitignore": "x.py\n"})
    assert not scope_of(tmp_path).is_in_scope(b"x.py")
    assert scope_of(tmp_path, IndexingSettings(respect_gitignore=False)).is_in_scope(b"x.py")


def test_without_a_repository_the_same_syntax_holds(tmp_path: Path) -> None:
    write(tmp_path, **{".gitignore": "/a/*\n!/a/keep.py\n", "b/.gitignore": "*.py\n"})
    scope = scope_of(tmp_path)
    assert scope.is_in_scope(b"a/keep.py")
    assert not scope.is_in_scope(b"a/x.py")
    assert not scope.is_in_scope(b"b/x.py")


def test_a_root_inside_of_a_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(
        tmp_path,
        **{".gitignore": "/sub/deep/gen/\n*.tmp.py\n", "sub/.gitignore": "deep/local.py\n"},
    )
    write(
        tmp_path,
        **{
            "sub/deep/x.py": "",
            "sub/deep/forced.tmp.py": "",
            ".git/info/exclude": "/sub/deep/private.py\n",
        },
    )
    git(tmp_path, "add", "-f", "sub/deep/forced.tmp.py")
    scope = scope_of(tmp_path / "sub" / "deep")
    assert scope.is_in_scope(b"x.py")
    assert scope.is_in_scope(b"forced.tmp.py")
    for out in (b"gen/x.py", b"a.tmp.py", b"local.py", b"private.py"):
        assert not scope.is_in_scope(out), out


def test_an_ignored_directory_that_is_a_root_is_indexed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, **{".gitignore": "vendor/\n", "vendor/lib/x.py": ""})
    assert scope_of(tmp_path / "vendor" / "lib").is_in_scope(b"x.py")


def test_a_repository_inside_of_the_root_has_its_own_rules(tmp_path: Path) -> None:
    outer, inner = tmp_path, tmp_path / "inner"
    inner.mkdir()
    git(outer, "init", "-q")
    git(inner, "init", "-q")
    write(outer, **{".gitignore": "*.out.py\n", "inner/.gitignore": "*.in.py\n"})
    scope = scope_of(outer)
    assert scope.is_in_scope(b"inner/x.out.py")
    assert not scope.is_in_scope(b"inner/x.in.py")
    assert not scope.is_in_scope(b"x.out.py")


def test_excludes_file_of_the_configuration(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    git(root, "init", "-q")
    (root / ".git" / "mine").write_text("*.mine.py\n")
    git(root, "config", "core.excludesFile", ".git/mine")
    scope = scope_of(root)
    assert not scope.is_in_scope(b"x.mine.py")
    (root / ".git" / "mine").write_text("*.other.py\n")
    assert scope.outdated()
    assert scope.refresh_git() is None, "files may be in or out that were not"
    assert scope.renew().is_in_scope(b"x.mine.py")


def test_a_commit_is_no_reason_to_scan_but_forced_files_are(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(
        tmp_path,
        **{".gitignore": "*.gen.py\nhidden/\n", "x.py": "", "x.gen.py": "", "hidden/y.py": ""},
    )
    scope = scope_of(tmp_path)
    assert not scope.is_in_scope(b"x.gen.py")
    git(tmp_path, "add", "x.py")
    fresh = scope.refresh_git()
    assert scope.outdated()
    assert fresh is not None
    assert not fresh.outdated()
    git(tmp_path, "add", "-f", "hidden/y.py")
    assert fresh.refresh_git() is None
    assert fresh.renew().is_in_scope(b"hidden/y.py")
    assert not fresh.renew().is_pruned(b"hidden")


def test_a_linked_worktree_shares_the_exclude_file(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git(main, "init", "-q")
    write(main, **{"x.py": ""})
    git(main, "add", ".")
    git(main, "commit", "-q", "-m", "first")
    git(main, "worktree", "add", "-q", str(tree))
    write(main, **{".git/info/exclude": "private.py\n"})
    assert not scope_of(tree).is_in_scope(b"private.py")
    assert scope_of(tree).is_in_scope(b"x.py")


def make_incomplete(git_dir: Path) -> None:
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")
    (git_dir / "refs").mkdir()


@pytest.mark.parametrize("kind", ["directory", "pointer", "pointer to nothing", "link", "links"])
def test_a_repository_that_is_completed_is_noticed(tmp_path: Path, kind: str) -> None:
    """No event comes from inside of a `.git`, nor from where it leads."""
    root = tmp_path / "root"
    marker = root / "sub" / ".git"
    marker.parent.mkdir(parents=True)
    git_dir = marker if kind in ("directory", "links") else tmp_path / "elsewhere"
    if kind == "links":
        git_dir.mkdir()
        (git_dir / "objects").symlink_to(tmp_path / "objects")
    elif kind.startswith("pointer"):
        marker.write_text(f"gitdir: {git_dir}\n")
    elif kind == "link":
        marker.symlink_to(git_dir)
    if kind != "pointer to nothing":
        git_dir.mkdir(exist_ok=True)
        make_incomplete(git_dir)
    scope = scope_of(root)
    assert scope.is_in_scope(b"sub/x.py")
    assert not scope.outdated()
    if kind == "pointer to nothing":
        git_dir.mkdir()
        make_incomplete(git_dir)
        assert not scope.outdated()
    (tmp_path if kind == "links" else git_dir).joinpath("objects").mkdir()
    assert scope.outdated()


def test_a_repository_that_is_completed_within_a_step_of_the_clock_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git_dir = tmp_path / "sub" / ".git"
    git_dir.mkdir(parents=True)
    make_incomplete(git_dir)
    # Patched, because the step of a clock cannot be made longer: a change leaves the same stamps.
    real = stamps.own_stamp
    frozen = {os.fsencode(git_dir): real(os.fsencode(git_dir))}
    monkeypatch.setattr(stamps, "own_stamp", lambda file: frozen.get(file) or real(file))
    monkeypatch.setattr(root_scope, "own_stamp", stamps.own_stamp)
    scope = scope_of(tmp_path)
    assert scope.is_in_scope(b"sub/x.py")
    assert not scope._notice_completed_repository()
    (git_dir / "objects").mkdir()
    assert scope._notice_completed_repository()
