"""`cocosearchctl repl`: interactive queries with history, completion and colours.

Only this part of the command line uses libraries (prompt-toolkit, Pygments). No other module
imports it, so that other verbs do not load them.
"""
