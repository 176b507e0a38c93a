"""Words for full text search in PostgreSQL: kept on demand, filled beside saves, searched."""
