"""Analysis process: it analyses texts of files for the lexical indexes.

Its parent is an `analyser.ProcessAnalyser`. It needs NumPy and a stemmer, and no parser, database
or model. Words and chunks are cached from one request to the next.
"""

from dataclasses import replace

from cocosearchd.sandbox.worker_loop import Handler, run_worker
from cocosearchd.search.lexical.analysis.analysis_messages import AnalysisRequest, analysis_to_bytes
from cocosearchd.search.lexical.analysis.documents import FileText, analyse
from cocosearchd.search.lexical.analysis.terms import TermCache

# Characters. A longer run without blanks has ended a process before; no word is as long.
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
    """Reduce a file to the ASCII words of its text, in which no expression can match more.

    The language "text" has no comments. Words on one line begin no definition.
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
