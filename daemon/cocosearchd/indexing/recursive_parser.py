"""The parser process for the chunker `recursive`: as `parser`, with CocoIndex's native splitter in it."""

from cocosearchd.indexing import recursive
from cocosearchd.indexing.parser import parser_handler
from cocosearchd.sandbox.serving import run_worker

if __name__ == "__main__":
    run_worker(lambda: parser_handler(recursive.ranges))
