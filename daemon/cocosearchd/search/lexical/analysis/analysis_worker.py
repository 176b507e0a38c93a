"""The worker process that analyses texts of files for the lexical indexes.

`analyser.ProcessAnalyser` starts it. It needs NumPy and a stemmer, but no parser, database or
model. It caches words and chunks from one request to the next.
"""

from dataclasses import replace

from cocosearchd.sandbox.worker_loop import Handler, run_worker
from cocosearchd.search.lexical.analysis.analysis_messages import AnalysisRequest, analysis_to_bytes
from cocosearchd.search.lexical.analysis.documents import FileText, analyse
from cocosearchd.search.lexical.analysis.terms import TermCache

# Longest run of characters without blanks that is kept. A longer run may be what killed the
# process; no word is that long.
_LONGEST_RUN = 200


def open_handler() -> Handler:
    """Return the handler of requests."""
    terms = TermCache()

    def handle(body: bytes) -> bytes:
        request = AnalysisRequest.from_bytes(body)
        files = (
            [reduce_to_plain_words(file) for file in request.files]
            if request.plain
            else request.files
        )
        return analysis_to_bytes(analyse(files, terms.chunk_cache()))

    return handle


def reduce_to_plain_words(file: FileText) -> FileText:
    """Reduce a file to the ASCII words of its text, so that no expression is slow on it.

    The language "text" has no comments. All words are on one line and separated by semicolons, so
    that expressions find no definitions.
    """
    chunks = (
        replace(chunk, text=_plain_words(chunk.text), definitions=(), names="")
        for chunk in file.chunks
    )
    return replace(file, language="text", chunks=tuple(chunks))


def _plain_words(text: str) -> str:
    runs = text.encode("ascii", "replace").decode().split()
    return "; ".join(run for run in runs if len(run) <= _LONGEST_RUN)


if __name__ == "__main__":
    run_worker(open_handler)
