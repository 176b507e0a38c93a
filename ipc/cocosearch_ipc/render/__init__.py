"""Text for people: answers, tables, progress and errors, with colour and links on a terminal.

Only this package prints. It works on replies as JSON gives them, so that the command line needs no
dataclasses.
"""
