"""The ranking profile `classic`: PostgreSQL's vectors and words, fused and reranked."""
