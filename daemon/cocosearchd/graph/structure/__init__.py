"""The structure of an index: imports between files, cycles, outlines, maps of central symbols."""
