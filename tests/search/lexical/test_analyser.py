"""Analysis in a process equals analysis here; a text that ends the process costs its file only"""

import asyncio
import marshal
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cocosearchd.sandbox.frames import InvalidFrame
from cocosearchd.sandbox.limits import ResourceLimits
from cocosearchd.sandbox.worker_process import WorkerUnavailable
from cocosearchd.search.lexical.analysis import analyser as analyser_module
from cocosearchd.search.lexical.analysis.analyser import (
    BY_PATH_ALONE,
    REQUEST_CHARACTERS,
    SIZE,
    WITHOUT_DEFINITIONS,
    AnalysedFiles,
    ProcessAnalyser,
    ReducedFile,
    ReducedFiles,
    split_into_batches,
)
from cocosearchd.search.lexical.analysis.analysis_messages import (
    AnalysisRequest,
    analysis_from_bytes,
    analysis_to_bytes,
)
from cocosearchd.search.lexical.analysis.analysis_worker import reduce_to_plain_words
from cocosearchd.search.lexical.analysis.documents import (
    BATCH_FILES,
    Analysis,
    Documents,
    FileText,
    analyse,
    assemble_documents,
)
from cocosearchd.search.lexical.analysis.terms import TermCache, term_hash
from cocosearchd.search.lexical.index_snapshot import make_snapshot
from cocosearchd.search.lexical.segments.segment import Segment, SegmentView, build_segment
from tests.search.lexical.direct import DirectAnalyser
from tests.search.lexical.toy import DIMENSION, file_text

STUMBLING = (sys.executable, "-P", str(Path(__file__).with_name("stumbling_worker.py")))
GOOD = [
    file_text(f"good_{number}.py", f"def good_{number}():\n    # said of it\n    pass\n")
    for number in range(5)
]


@asynccontextmanager
async def stumbling(deadline_s: float = 60, cpu_s: int = 5) -> AsyncIterator[ProcessAnalyser]:
    analyser = ProcessAnalyser(
        STUMBLING, ResourceLimits(request_cpu_s=cpu_s), deadline_s=deadline_s
    )
    try:
        yield analyser
    finally:
        await analyser.pool.aclose()


def assert_same(analysed: AnalysedFiles, expected: AnalysedFiles) -> None:
    first = build_segment(analysed.documents, DIMENSION)
    second = build_segment(expected.documents, DIMENSION)
    for name in Segment.__slots__:
        values = getattr(first, name)
        value = getattr(second, name)
        if isinstance(values, np.ndarray):
            np.testing.assert_array_equal(values, value, name)
        elif isinstance(values, bytes | str | tuple | int):
            assert values == value, name


def files_with(analysed: AnalysedFiles, word: str) -> list[str]:
    state = make_snapshot((SegmentView(build_segment(analysed.documents, DIMENSION)),), 1)
    segment = state.views[0].segment
    paths = [path for documents in analysed.documents for path in documents.paths]
    assert segment.path_list() == paths
    hits = set[str]()
    for documents in analysed.documents:
        postings = documents.file_postings
        hits |= {
            documents.paths[file]
            for file in postings.file[postings.term == np.uint64(term_hash(word))]
        }
    return sorted(hits)


@pytest.mark.parametrize(
    ("max_chunks", "is_on_loop"), [(analyser_module.MAX_CHUNKS_ON_LOOP, True), (0, False)]
)
async def test_few_chunks_are_assembled_without_another_thread(
    monkeypatch: pytest.MonkeyPatch, max_chunks: int, is_on_loop: bool
) -> None:
    threads = list[threading.Thread]()

    def note_thread(files: Sequence[FileText], analysis: Analysis) -> Documents:
        threads.append(threading.current_thread())
        return assemble_documents(files, analysis)

    monkeypatch.setattr(analyser_module, "MAX_CHUNKS_ON_LOOP", max_chunks)
    monkeypatch.setattr(analyser_module, "assemble_documents", note_thread)
    async with stumbling() as analyser:
        await analyser.analyse(GOOD[:1])
    assert [thread is threading.main_thread() for thread in threads] == [is_on_loop]


async def test_a_process_says_what_this_one_says() -> None:
    files = [
        *GOOD,
        file_text("é.c", "int **p; /* 漢字 */\n---\nint main(void) {\n}"),
        file_text("empty.py", ""),
    ]
    files = [
        replace(file, vectors=np.eye(DIMENSION, dtype=np.float32)[: len(file.chunks)])
        for file in files
    ]
    analyser = ProcessAnalyser()
    try:
        assert_same(await analyser.analyse(files), await DirectAnalyser().analyse(files))
        assert await analyser.analyse([]) == AnalysedFiles()
    finally:
        await analyser.pool.aclose()
    assert analyser.pool.pids == []


@pytest.mark.parametrize("fault", ["FAULT", "STALL", "SPIN", "EAT", "LIE"])
async def test_a_file_that_ends_the_analysis_loses_only_its_definitions(fault: str) -> None:
    bad = file_text("bad.py", f"def bad_name():\n    # {fault}\n    pass\n")
    async with stumbling(deadline_s=2 if fault == "STALL" else 60, cpu_s=1) as analyser:
        analysed = await analyser.analyse([*GOOD[:2], bad, *GOOD[2:]])
    assert [file.path for file in analysed.reduced] == ["bad.py"]
    assert WITHOUT_DEFINITIONS in analysed.reduced[0].reason
    assert files_with(analysed, "bad") == ["bad.py"]
    assert files_with(analysed, "good") == sorted(file.path for file in GOOD)
    defined = {name for documents in analysed.documents for name in documents.names.exact.tolist()}
    assert term_hash("good_3") in defined
    assert term_hash("bad_name") not in defined


async def test_a_file_whose_words_end_the_analysis_is_found_by_its_path() -> None:
    bad = file_text("notorious.py", "FAULT_ALWAYS")
    async with stumbling() as analyser:
        analysed = await analyser.analyse([bad, *GOOD])
    assert BY_PATH_ALONE in analysed.reduced[0].reason
    assert files_with(analysed, "notori") == ["notorious.py"]
    assert len(files_with(analysed, "good")) == len(GOOD)


async def test_processes_that_end_whatever_they_get_are_unavailable() -> None:
    async with stumbling() as analyser:
        with pytest.raises(WorkerUnavailable, match="even without the text"):
            await analyser.analyse([*GOOD, file_text("ever.py", "harmless")])
        assert (await analyser.analyse(GOOD)).reduced == ()


async def test_files_of_others_are_analysed_while_one_stalls() -> None:
    async with stumbling(deadline_s=12) as analyser:
        await analyser.analyse(GOOD)
        stalled = asyncio.create_task(analyser.analyse([file_text("bad.py", "STALL")]))
        await asyncio.sleep(0.2)
        for _ in range(3):
            await analyser.analyse(GOOD)
        assert not stalled.done()
        assert [file.path for file in (await stalled).reduced] == ["bad.py"]


async def test_more_texts_that_stall_than_there_are_processes_leave_one_to_others() -> None:
    async with stumbling() as analyser:
        await analyser.analyse(GOOD)
        bad = [file_text(f"bad_{number}.py", "STALL") for number in range(SIZE.max_processes + 1)]
        stalled = [asyncio.create_task(analyser.analyse([file])) for file in bad]
        await asyncio.sleep(0)  # they have all the processes
        async with asyncio.timeout(30):  # half of what each of them may take
            for _ in range(20):
                assert (await analyser.analyse(GOOD)).reduced == ()
        assert not any(task.done() for task in stalled)
        for task in stalled:
            task.cancel()
        await asyncio.wait(stalled)


async def test_texts_that_stall_at_the_same_time_have_their_turns() -> None:
    bad = [file_text(f"bad_{number}.py", "STALL") for number in range(SIZE.max_processes + 1)]
    async with stumbling(deadline_s=2) as analyser:
        analysed = await asyncio.gather(*(analyser.analyse([file]) for file in bad))
        assert [file.path for result in analysed for file in result.reduced] == [
            file.path for file in bad
        ]
        assert all(
            "no answer within 2 s" in file.reason for result in analysed for file in result.reduced
        )
        assert (await analyser.analyse(GOOD)).reduced == ()


async def test_a_process_that_somebody_kills_costs_no_file_anything() -> None:
    async with stumbling() as analyser:
        await analyser.analyse(GOOD)
        # on a busy machine a spare one is starting, and its request would wait for that start
        for process in [process for process in analyser.pool._lifetimes if process.ready]:
            os.kill(process.process.pid, signal.SIGKILL)
        analysed = await analyser.analyse(GOOD)
        assert analysed.reduced == ()
        assert len(files_with(analysed, "good")) == len(GOOD)


def test_requests_are_small() -> None:
    files = [file_text(f"{number}.py", "x" * 10_000) for number in range(100)]
    large = file_text("large.py", "y" * 2 * REQUEST_CHARACTERS)
    result = list(split_into_batches([*files, large, *GOOD]))
    assert [file for batch in result for file in batch] == [*files, large, *GOOD]
    assert [large] in result
    assert all(len(batch) <= BATCH_FILES for batch in result)
    assert all(
        sum(len(file.chunks[0].text) for file in batch) <= REQUEST_CHARACTERS
        for batch in result
        if batch != [large]
    )


def test_messages_come_back() -> None:
    request = AnalysisRequest(tuple(GOOD), plain=True)
    back = AnalysisRequest.from_bytes(request.to_bytes())
    assert back.plain
    assert [(file.path, file.language) for file in back.files] == [
        (file.path, file.language) for file in GOOD
    ]
    body = analysis_to_bytes(analyse(back.files, TermCache().chunk_cache()))
    assert analysis_to_bytes(analysis_from_bytes(body, GOOD)) == body


@pytest.mark.parametrize("files", [GOOD[:2], [*GOOD, *GOOD], []])
def test_the_analysis_of_other_files_is_garbled(files: Sequence[FileText]) -> None:
    body = analysis_to_bytes(analyse(GOOD, TermCache().chunk_cache()))
    with pytest.raises(InvalidFrame):
        analysis_from_bytes(body, files)


def test_a_result_that_points_beyond_its_files_is_refused() -> None:
    raw = marshal.loads(analysis_to_bytes(analyse(GOOD, TermCache().chunk_cache())))
    for number in (2, 6, 14):
        changed = [*raw]
        owners = np.frombuffer(raw[number], np.int32).copy()
        owners[-1] = 1 << 30
        changed[number] = owners.tobytes()
        with pytest.raises(InvalidFrame, match="beyond"):
            analysis_from_bytes(marshal.dumps(changed), GOOD)
    for body in (
        b"",
        b"\x00",
        marshal.dumps(raw[:-1]),
        marshal.dumps([b"123", *raw[1:]]),
        marshal.dumps(7),
    ):
        with pytest.raises(InvalidFrame):
            analysis_from_bytes(body, GOOD)


def test_a_plain_text_has_words_alone() -> None:
    file = file_text("a.py", "class Shop:\n    # über " + "x" * 300 + "\n    pass")
    assert reduce_to_plain_words(file).chunks[0].text == "class; Shop:; #; ?ber; pass"
    result = analyse([reduce_to_plain_words(file)], TermCache().chunk_cache())
    assert len(result.names.exact) == 0
    assert not result.file_postings.commented.any()


def test_notes_name_some_files_until_they_change() -> None:
    files = ReducedFiles()
    files.update(
        [], [ReducedFile(f"{number}.py", "searched by its path alone") for number in range(7)]
    )
    assert (
        files.warnings()[0]
        == "0.py is searched by its path alone; it is tried again when it changes"
    )
    assert files.warnings()[-1] == "2 more files are searched by less than their text has"
    files.update([f"{number}.py" for number in range(6)], ())
    assert len(files.warnings()) == 1
