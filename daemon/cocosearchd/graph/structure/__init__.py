"""The structure of an index: what files import, cycles, outlines, and maps of central symbols."""
