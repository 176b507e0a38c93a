"""On the path of a daemon that a test starts: a silent analysis process has two seconds in place of
twenty.

The daemon knows nothing of it: Python imports a module of this name by itself.
"""

import functools
import sys
from pathlib import Path

if Path(sys.orig_argv[1]).name == "cocosearchd":
    from cocosearchd.indexes import registry
    from cocosearchd.search.lexical.analysis.analyser import ProcessAnalyser

    setattr(registry, "ProcessAnalyser", functools.partial(ProcessAnalyser, deadline_s=2.0))  # noqa: B010 - mypy lets nobody assign to a class
