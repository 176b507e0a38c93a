"""Knowledge about code: which language a file is in, its syntax tree, its symbols and blocks, its
identifiers.

Pure and synchronous: no disk (but the package's own query files), no database, no event loop.
Nothing here raises on a broken file. Cutting files into chunks is not here: see
`cocosearchd.indexing.pipeline.chunker`.
"""
