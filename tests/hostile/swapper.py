"""A process that swaps a directory for a symbolic link and back as fast as it can, to win every
race.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def swapping(directory: Path, target: Path, pause_s: float = 0.0) -> Iterator[None]:
    """Meanwhile `directory` is now itself, now a link to `target`, for `pause_s` each. At the end
    it is itself.
    """
    process = subprocess.Popen(
        [sys.executable, __file__, directory, target, str(pause_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdout.readline()  # it has begun
        yield
    finally:
        process.stdin.close()
        assert process.wait(20) == 0
        process.stdout.close()


def main(directory: Path, target: Path, pause_s: float) -> None:
    """Swap until the standard input ends."""
    aside = directory.with_name(f"{directory.name}.aside")
    os.set_blocking(0, False)
    print("swapping", flush=True)
    while _goes_on():
        directory.rename(aside)
        directory.symlink_to(target)
        time.sleep(pause_s)
        directory.unlink()
        aside.rename(directory)
        time.sleep(pause_s)


def _goes_on() -> bool:
    try:
        return bool(os.read(0, 1))
    except BlockingIOError:
        return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
