"""Dialects of languages, one per file: workflows, charts, manifests.

Dialects are detected by path and content. Separate languages are in
`cocosearchd.languages.handlers` and `cocosearchd.languages.language_table`.
"""
