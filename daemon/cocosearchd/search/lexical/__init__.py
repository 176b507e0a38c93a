"""The lexical index: every chunk and file of an index by word, name, path and vector, in memory."""
