"""The parser process: a worker process that parses and cuts files, and knows nothing but their
bytes.

It opens no file of a user, no database and no index, and loads neither CocoIndex nor NumPy: it
costs some 20 MB.
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
    """Return the function that answers a request, with `cut` as the way to cut files."""
    return lambda body: _respond(unpack_request(body), cut)


def _respond(request: ParseRequest, cut: FindRanges) -> bytes:
    return pack_response([_parse(file, request, cut) for file in request.files])


def _parse(file: ParseFile, request: ParseRequest, cut: FindRanges) -> tuple[bytes, bool]:
    outline, cacheable = parse_file(
        file.path, file.language, file.data, request.limits, request.overrides, cut
    )
    if request.rehearse:
        for chunk in outline.chunks(file.path, file.language, file.data):
            chunk_keywords(chunk)
    return pack_parsed_file(outline), cacheable


if __name__ == "__main__":
    run_worker(lambda: parser_handler(chunk_ranges))
