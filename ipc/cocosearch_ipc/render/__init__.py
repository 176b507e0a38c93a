"""What people see: answers, tables, progress and errors as text, with colour and links on a
terminal only.

The only place that prints. Works on replies as JSON gives them, so that the command line needs no
dataclasses.
"""
