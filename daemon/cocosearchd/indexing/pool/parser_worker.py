"""The parser process: a worker process that parses files and cuts them into chunk ranges.

It has only the bytes of the files. It opens no user file, no database and no index, and loads
neither CocoIndex nor NumPy: it takes some 20 MB.
"""

from cocosearchd.indexing.pipeline.chunker import chunk_keywords, chunk_ranges
from cocosearchd.indexing.pipeline.parse_result import FindRanges, pack_parsed_file, parse_file
from cocosearchd.indexing.pool.parse_task import (
    ParseFile,
    ParseRequest,
    pack_response,
    unpack_request,
)
from cocosearchd.sandbox.worker_loop import Handler, run_worker


def parser_handler(cut: FindRanges) -> Handler:
    """Return the request handler, with `cut` as the function that finds chunk ranges."""
    return lambda body: _respond(unpack_request(body), cut)


def _respond(request: ParseRequest, cut: FindRanges) -> bytes:
    return pack_response([_parse(file, request, cut) for file in request.files])


def _parse(file: ParseFile, request: ParseRequest, cut: FindRanges) -> tuple[bytes, bool]:
    parsed_file, cacheable = parse_file(
        file.path, file.language, file.data, request.limits, request.overrides, cut
    )
    if request.rehearse:
        for chunk in parsed_file.chunks(file.path, file.language, file.data):
            chunk_keywords(chunk)
    return pack_parsed_file(parsed_file), cacheable


if __name__ == "__main__":
    run_worker(lambda: parser_handler(chunk_ranges))
