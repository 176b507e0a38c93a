"""`cocosearchctl repl`: questions one after the other, with history, completion and colours.

The one part of the command line that uses libraries (prompt-toolkit, Pygments); nothing else
imports it, so that no other verb pays for them.
"""
