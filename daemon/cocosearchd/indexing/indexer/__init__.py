"""The indexer process: the CocoIndex adapter, which makes rows of files and writes them."""
