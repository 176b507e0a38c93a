"""The version of this command line: a constant, because the distribution's metadata cost 12 ms to read."""

VERSION = "0.1.0"
