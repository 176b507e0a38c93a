"""Longest times that work on a hostile file of 1 MiB holds the interpreter's lock.

`python -m benchmarks.interpreter_holds [--rounds 5]`

A second thread asks for the interpreter without end. The longest time that it had to wait is the
longest hold, and a busy machine adds to it: so each row is the least of several rounds. Work that
is done in worker processes is not here.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.measure import machine
from cocosearchd.embedding.providers.builtin import BuiltinEmbedder
from cocosearchd.forms.unicode_forms import spellings
from cocosearchd.indexing.pipeline.skip_rules import is_secret
from cocosearchd.languages import detect
from cocosearchd.languages.identifiers import split_text
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.search.answers.clipped_lines import clip_lines
from cocosearchd.search.answers.disk_files import make_contents
from cocosearchd.search.lexical.analysis.analysis_messages import (
    AnalysisRequest,
    analysis_from_bytes,
    analysis_to_bytes,
)
from cocosearchd.search.lexical.analysis.documents import (
    ChunkText,
    FileText,
    analyse,
    assemble_documents,
)
from cocosearchd.search.lexical.analysis.terms import TermCache
from cocosearchd.search.lexical.segments.segment import build_segment

MIB = 1 << 20
CHUNK = 2000  # characters
TEXTS = {
    "comments": "/* ",
    "blanks": " ",
    "letters": "a",
    "humps": "aB",
    "marks": "a\u0327\u0301\u0327",
    "ideographs": "\u6f22",
    "quotes": '\\"',
    "lines": "\n",
    "words": "word%d ",
    "pointers": "int ** ",
}


def texts() -> Iterator[tuple[str, str]]:
    """Each text of 1 MiB of UTF-8."""
    for name, part in TEXTS.items():
        if "%d" in part:
            yield name, "".join(part % number for number in range(90_000))[:MIB]
        else:
            yield name, part * (MIB // len(part.encode()))


def work_over(text: str) -> dict[str, Callable[[], object]]:
    """Return the work that the daemon itself does with the text of a file, or with parts of it."""
    data = text.encode()
    file = file_of(text)
    analysis = analyse([file], TermCache().chunk_cache())
    response = analysis_to_bytes(analysis)
    document = assemble_documents([file], analysis)
    chunk, embedder = text[:CHUNK], BuiltinEmbedder()
    return {
        "request to the analysis": AnalysisRequest((file,)).to_bytes,
        "response of the analysis": lambda: analysis_from_bytes(response, [file]),
        "segment of the file": lambda: build_segment([document], 64),
        "text of the file": lambda: make_contents(data),
        "lines of the file": lambda: clip_lines("\n".join(make_contents(data).lines(1, MIB)), 200),
        "tokens of a chunk": lambda: estimate_tokens(chunk),
        "language of the file": lambda: detect.detect("a.h", data[: detect.HEAD_BYTES]),
        "secrets of the file": lambda: is_secret(data),
        "vector of a chunk": lambda: embedder.documents([chunk]),
        "vectors of all chunks": lambda: embedder.documents([chunk.text for chunk in file.chunks]),
        "words of a chunk": lambda: split_text(chunk),
        "chunk as a phrase": lambda: spellings(chunk),
    }


def file_of(text: str) -> FileText:
    """The text in chunks."""
    parts = [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
    sizes = np.cumsum([0, *(len(part.encode()) for part in parts)]).tolist()
    chunks = tuple(
        ChunkText(start, end, part)
        for part, start, end in zip(parts, sizes, sizes[1:], strict=False)
    )
    return FileText("a.c", 1, "c", chunks, np.zeros((len(chunks), 64), np.float32))


def longest_hold_s(work: Callable[[], object]) -> float:
    """Seconds that another thread waited for the interpreter while the work was done, at most."""
    gaps, done = [0.0], threading.Event()

    def tick() -> None:
        last = time.perf_counter()
        while not done.is_set():
            now = time.perf_counter()
            gaps[0] = max(gaps[0], now - last)
            last = now
        gaps[0] = max(gaps[0], time.perf_counter() - last)  # the work may have been one hold

    thread = threading.Thread(target=tick)
    thread.start()
    time.sleep(0.005)
    gaps[0] = 0.0
    try:
        work()
    finally:
        done.set()
        thread.join()
    return gaps[0]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args(arguments).rounds
    print(machine())
    worst: dict[str, tuple[float, str, float]] = {}
    for name, text in texts():
        for label, work in work_over(text).items():
            cpu_s = time.process_time()
            hold_s = min(longest_hold_s(work) for _ in range(rounds))
            cpu_s = (time.process_time() - cpu_s) / rounds
            worst[label] = max(worst.get(label, (0.0, "", 0.0)), (hold_s, name, cpu_s))
    print("| work | longest hold, ms | by a text of |")
    for label, (hold_s, name, _) in sorted(worst.items(), key=lambda item: -item[1][0]):
        print(f"| {label} | {hold_s * 1000:.1f} | {name} |")


if __name__ == "__main__":
    main(sys.argv[1:])
