"""The parser process for the chunker `recursive`: as `parser`, with CocoIndex's native splitter in
it.
"""

from cocosearchd.indexing.pipeline import recursive_chunker
from cocosearchd.indexing.pool.parser_worker import parser_handler
from cocosearchd.sandbox.worker_loop import run_worker

if __name__ == "__main__":
    run_worker(lambda: parser_handler(recursive_chunker.chunk_ranges))
