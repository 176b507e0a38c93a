"""Knowledge about code: languages, syntax trees, symbols, blocks and identifiers.

Pure and synchronous: no disk (except for the package's own query files), no database, no event
loop. Nothing here raises on a broken file. Chunking is elsewhere: see
`cocosearchd.indexing.pipeline.chunker`.
"""
