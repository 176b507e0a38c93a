"""Speed and quality, measured on the real programs.

Every script prints machine, load, command and n beside its figures.
"""

import cocosearchd  # noqa: F401 - first, as in the daemon: NumPy reads the number of threads when it is loaded
