"""What tree-sitter does not say of a language: the blocks of a file, with their type and place. One
file per language.

Telling apart kinds of YAML and templates by path and content is not here: see
`cocosearchd.languages.grammars`.
"""
