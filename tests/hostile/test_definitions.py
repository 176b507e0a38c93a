"""Text that looks like the begin of a function and never becomes one costs no more than it is long."""

from pathlib import Path

import pytest

from tests.daemon import Daemon
from tests.hostile.neighbour import Neighbour

END_OF_POINTERS = "int pointers_end(int a) {\n    return a;\n}\n"
POINTERS = f"char {', '.join(f'*p{number}' for number in range(24))};\n\n{END_OF_POINTERS}"
BEGIN_OF_STARS = "int stars_begin(int a){\nreturn a;\n}\n"
STARS = f"{BEGIN_OF_STARS}/*\nint {' '.join(['**'] * 900)}\n*/\n"


@pytest.mark.parametrize(("text", "name"), [(POINTERS, "pointers_end"), (STARS, "stars_begin")])
def test_pointers_of_c_stop_no_index(
    daemon: Daemon, hostile_root: Path, neighbour: Neighbour, text: str, name: str
) -> None:
    neighbour.watch(daemon)
    daemon.ctl("up", str(hostile_root), "--wait")
    (hostile_root / "hostile.c").write_text(text)
    neighbour.assert_fresh(daemon)
    assert_defined_in_hostile_c(daemon, name)

    daemon.kill()
    daemon.start()  # it reads the stored row
    daemon.ctl("sync")
    assert_defined_in_hostile_c(daemon, name)
    neighbour.assert_fresh(daemon)


def assert_defined_in_hostile_c(daemon: Daemon, name: str) -> None:
    answer = daemon.call("search", query=name, index="hostile")
    assert answer["fresh"], daemon.log[-4000:]
    assert [result["path"] for result in answer["results"]] == ["hostile.c"]
