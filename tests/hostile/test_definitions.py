"""Text that looks like the start of a function, again and again, is searched in linear time."""

from pathlib import Path

from tests.daemon import Daemon
from tests.hostile.neighbour import Neighbour

END_OF_POINTERS = "int pointers_end(int a) {\n    return a;\n}\n"
POINTERS = f"char {', '.join(f'*p{number}' for number in range(24))};\n\n{END_OF_POINTERS}"
BEGIN_OF_STARS = "int stars_begin(int a){\nreturn a;\n}\n"
STARS = f"{BEGIN_OF_STARS}/*\nint {' '.join(['**'] * 900)}\n*/\n"


TEXTS = {"pointers": POINTERS, "stars": STARS}
DEFINED = {"pointers": "pointers_end", "stars": "stars_begin"}


def test_pointers_of_c_stop_no_index(
    daemon: Daemon, hostile_root: Path, neighbour: Neighbour
) -> None:
    neighbour.watch(daemon)
    daemon.index(hostile_root)
    for name, text in TEXTS.items():
        (hostile_root / f"{name}.c").write_text(text)
        neighbour.assert_fresh(daemon)
    assert_defined(daemon)

    daemon.kill()
    daemon.start()  # it reads the stored rows
    daemon.ctl("sync")
    assert_defined(daemon)
    neighbour.assert_fresh(daemon)


def assert_defined(daemon: Daemon) -> None:
    """The definition in each hostile file is found, there first."""
    for name, symbol in DEFINED.items():
        answer = daemon.call("search", query=symbol, index="hostile")
        assert answer["fresh"], daemon.log[-4000:]
        assert [result["path"] for result in answer["results"]][:1] == [f"{name}.c"]
