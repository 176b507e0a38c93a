"""Set-up of this machine: assistants, settings, tokens, shell completion, and what `doctor`
checks.
"""
