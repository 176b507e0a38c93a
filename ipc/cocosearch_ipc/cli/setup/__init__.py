"""Verbs that set up this machine: assistants, settings, tokens, shell completion, `doctor`."""
