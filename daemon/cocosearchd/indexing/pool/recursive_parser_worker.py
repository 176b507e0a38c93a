"""The parser process for the chunker `recursive`: `parser_worker` with CocoIndex's splitter."""

from cocosearchd.indexing.pipeline import recursive_chunker
from cocosearchd.indexing.pool.parser_worker import parser_handler
from cocosearchd.sandbox.worker_loop import run_worker

if __name__ == "__main__":
    run_worker(lambda: parser_handler(recursive_chunker.chunk_ranges))
