"""Knowledge about code: languages, syntax trees, symbols, blocks and identifiers.

Pure and synchronous: no disk (but the package's own query files), no database, no event loop.
Nothing here raises on a broken file. Cutting files into chunks is not here: see
`cocosearchd.indexing.pipeline.chunker`.
"""
