"""Verbs about the code graph: who defines, uses, calls and needs what."""
