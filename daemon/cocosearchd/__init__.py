"""The daemon: watches roots, keeps their indexes equal to the disk, answers from the warm process.

Two flows over shared knowledge: `indexing` writes files into an index, `search` reads answers out of it. They never
call each other; they meet in PostgreSQL (`store`) and in one integer, the generation. Front ends (sockets, MCP, the
command line) are not here: see the package `cocosearch_ipc`.
"""
