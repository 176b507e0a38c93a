"""The daemon's side of indexing: starts the indexer process and feeds it dirty files."""
