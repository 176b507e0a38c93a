"""Handlers of languages, one per file: the blocks that tree-sitter queries do not give.

Kinds of YAML and templates, distinguished by path and content, are in
`cocosearchd.languages.grammars`.
"""
