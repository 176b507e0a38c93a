"""Makes the SCIP indexes that the code graph is compared with: `make truth DIRECTORY=scip`.

The directory gets a checkout NAME and an index NAME.scip of each project, and the Node packages of
the indexers and of what the projects import. Needs git, Node and the network.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.graph.projects import PROJECTS, Project

_INDEXERS = ("@sourcegraph/scip-python@0.6.6", "@sourcegraph/scip-typescript@0.4.0")
# The TypeScript projects import these packages; without them, types are unknown.
_PACKAGES = (
    *("redux@5", "immer@11", "reselect@5", "redux-thunk@3", "react@19", "react-redux@9"),
    *("@types/react@19", "@types/react-dom@19", "@types/node@20", "vitest@3"),
    *("@standard-schema/spec", "@standard-schema/utils"),
)
_OPTIONS = {
    "target": "es2022",
    "module": "esnext",
    "moduleResolution": "bundler",
    "strict": True,
    "skipLibCheck": True,
    "noEmit": True,
    "jsx": "react-jsx",
    "lib": ["dom", "dom.iterable", "esnext"],
    "types": [],
    "allowImportingTsExtensions": True,
    "esModuleInterop": True,
    "resolveJsonModule": True,
}


def make_index(directory: Path, project: Project) -> None:
    """Check a project out at its revision, if it is not there, and index it."""
    checkout = directory / project.name
    if not checkout.exists():
        url = f"https://github.com/{project.repository}"
        _run(directory, ["git", "clone", "--quiet", url, str(checkout)])
    _run(checkout, ["git", "checkout", "--quiet", project.revision])
    output = directory / f"{project.name}.scip"
    binaries = directory / "node_modules" / ".bin"
    if project.language == "Python":
        environment = directory / f"{project.name}.env.json"
        environment.write_text(json.dumps([_python_package(checkout, project)]), "utf-8")
        command = [str(binaries / "scip-python"), "index", "--quiet", "--project-name"]
        command += [project.name, "--environment", str(environment), "--output", str(output)]
    else:
        _write_typescript_settings(checkout, project)
        command = [str(binaries / "scip-typescript"), "index", "--no-progress-bar"]
        command += ["--output", str(output), "tsconfig.scip.json"]
    _run(checkout, command)


def _python_package(checkout: Path, project: Project) -> dict[str, object]:
    """Return the project as an installed package: else its own modules have no global names."""
    root = checkout / project.folders[0]
    paths = sorted(
        path.relative_to(root).as_posix() for path in root.glob(f"{project.name}/**/*.py")
    )
    return {"name": project.name, "version": "0", "files": paths}


def _write_typescript_settings(checkout: Path, project: Project) -> None:
    paths = {name: [f"./{path}"] for name, path in project.paths.items()}
    settings = {
        "compilerOptions": {**_OPTIONS, **project.options, "paths": paths},
        "include": list(project.folders),
    }
    (checkout / "tsconfig.scip.json").write_text(json.dumps(settings, indent=1), "utf-8")
    packages = checkout / "node_modules"
    if not packages.exists():
        packages.symlink_to(checkout.parent / "node_modules")


def _run(directory: Path, command: Sequence[str]) -> None:
    subprocess.run(command, cwd=directory, check=True)


def main(directory: Path) -> None:
    """Install the indexers and index all projects."""
    directory.mkdir(parents=True, exist_ok=True)
    install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", "."]
    _run(directory, [*install, *_INDEXERS, *_PACKAGES])
    for project in PROJECTS:
        make_index(directory, project)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
