"""Dialects of languages, one per file: workflows, charts, manifests.

They are distinguished by path and content. Languages of their own are in
`cocosearchd.languages.handlers` and `cocosearchd.languages.language_table`.
"""
