"""One question to many small indexes of a daemon. The real programs."""

import random
from pathlib import Path

from tests.daemon import Daemon

INDEXES = 12
SAVES = 24


def make_indexes(daemon: Daemon, directory: Path) -> list[Path]:
    roots = [directory / f"part{number}" for number in range(INDEXES)]
    for number, root in enumerate(roots):
        root.mkdir()
        (root / "mail.py").write_text(f"def send_mail_{number}(address):\n    return address\n")
        daemon.index(root, root.name)
    return roots


def test_a_save_in_any_root_is_found_by_the_next_question_to_all(
    shared: Daemon, tmp_path: Path
) -> None:
    roots = make_indexes(shared, tmp_path)
    rng = random.Random(3)
    for turn in range(SAVES):
        root = rng.choice(roots)
        (root / "saved.py").write_text(f"def purple_elephant_{turn}():\n    return {turn}\n")
        answer = shared.call("search", query=f"purple_elephant_{turn}", all_indexes=True)
        first = answer["results"][0]
        assert (first["index"], first["path"], answer["fresh"]) == (root.name, "saved.py", True)
        assert f"purple_elephant_{turn}()" in first["content"]


def test_an_answer_of_many_indexes_counts_them(shared: Daemon, tmp_path: Path) -> None:
    make_indexes(shared, tmp_path)
    text = shared.ctl("query", "send mail", "--all").stdout
    foot = text.splitlines()[-1]
    assert f" of {INDEXES} indexes in " in foot
    reply = shared.call("search", query="lang:rust send mail", all_indexes=True)
    assert len(reply["notes"]) == 1, "what holds for all of them is said once"
    assert f" and {INDEXES - 3} more indexes: " in reply["notes"][0]


def test_of_copies_the_one_of_the_project_that_asks_is_shown(
    shared: Daemon, tmp_path: Path
) -> None:
    code = '''def send_parcel(address, weight):
    """Send a parcel of some weight to an address by the cheapest carrier."""
    carrier = cheapest_carrier(weight)
    return carrier.send(address, weight)
'''
    for name in ("alpha", "beta", "gamma"):
        root = tmp_path / name
        root.mkdir()
        (root / "parcel.py").write_text(code)
        shared.index(root, name)
    for name in ("gamma", "beta", "alpha"):
        (result,) = shared.json("query", "send a parcel", "--all", cwd=tmp_path / name)["results"]
        assert (result["index"], result["similar"]) == (name, 2)
