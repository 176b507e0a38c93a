"""The wheel, installed into a clean environment, works without the checkout."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.flows.newcomer import build_wheel, newcomer


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_what_the_programs_read(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith(".sql") for name in names)
    assert any(name.endswith(".scm") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "training/"))]
    assert wheel.stat().st_size < 12 << 20


@pytest.mark.timeout(300)
def test_a_newcomer_with_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--quiet", wheel],
        check=True,
        capture_output=True,
    )
    # The dependencies are those of this environment, by a path file; the package itself is the
    # wheel's: a path file inside a directory that a path file names is not read, so the editable
    # install stays invisible.
    site = next((home / "lib").glob("python*/site-packages"))
    (site / "zz_dependencies.pth").write_text(
        next(p for p in sys.path if p.endswith("site-packages")) + "\n"
    )
    where = subprocess.run(
        [python, "-P", "-c", "import cocosearchd; print(cocosearchd.__file__)"],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
    ).stdout
    assert where.startswith(str(home))
    person = newcomer(home / "bin")
    try:
        person.session()
    finally:
        person.leave()
