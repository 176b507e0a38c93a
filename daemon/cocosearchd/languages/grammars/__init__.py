"""Kinds of files within a language, told apart by path and content: workflows, charts, manifests.
One file per kind.

Languages of their own are not here: see `cocosearchd.languages.handlers` and
`cocosearchd.languages.language_table`.
"""
