"""Clones the benchmark's repositories at their pinned revisions. Needs git and access to the
internet.

    python -m benchmarks.quality.clone DIRECTORY

Each repository becomes DIRECTORY/NAME without history. What is there already is left alone.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.quality.corpus import Repository, repositories


def main() -> int:
    """Clone what is missing; 1 if one could not be had."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    chosen = [
        repository
        for repository in repositories()
        if not arguments.only or repository.name in arguments.only
    ]
    failed = [
        repository.name
        for repository in chosen
        if not clone(repository, arguments.directory / repository.name)
    ]
    if failed:
        sys.stderr.write(f"could not be cloned: {', '.join(failed)}\n")
    return 1 if failed else 0


def clone(repository: Repository, directory: Path) -> bool:
    """Fetch one revision, and only the folder that is indexed; the root's ignore file comes
    along.
    """
    if directory.exists():
        return True
    git = ["git", "-C", str(directory)]
    steps = [
        ["git", "init", "--quiet", str(directory)],
        [*git, "remote", "add", "origin", repository.url],
        [
            *git,
            "fetch",
            "--quiet",
            "--depth=1",
            "--filter=blob:none",
            "origin",
            repository.revision,
        ],
        [*git, "sparse-checkout", "set", repository.benchmark_root or "/"],
        [*git, "checkout", "--quiet", "FETCH_HEAD"],
    ]
    if not repository.benchmark_root:
        del steps[3]
    sys.stdout.write(f"{repository.name} {repository.revision[:12]}\n")
    for step in steps:
        if subprocess.run(step, check=False).returncode:
            shutil.rmtree(directory, ignore_errors=True)
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
