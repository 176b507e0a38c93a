"""Handlers of languages, one per file: they read blocks that tree-sitter queries do not give.

Dialects of YAML and of templates, distinguished by path and content, are in
`cocosearchd.languages.dialects`.
"""
