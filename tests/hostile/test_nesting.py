"""Nesting of every kind, in every grammar: bounded CPU and memory, and the file stays searchable.

The short form tries a seeded choice of shapes for each grammar; the long one tries all of them.
"""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import psutil
import pytest
from anyio.lowlevel import checkpoint

from cocosearchd.config.settings import IndexingSettings
from cocosearchd.indexing.pipeline.parse_result import parse_file
from cocosearchd.indexing.pool import boxed_parser
from cocosearchd.indexing.pool.boxed_parser import BoxedParser, ParseTask, parser_pool
from cocosearchd.indexing.pool.parse_task import ParseFile, ParseRequest, ParseResult
from cocosearchd.indexing.pool.quarantine import Quarantine, is_quarantined
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages import language_table
from cocosearchd.languages.syntax import MAX_OPEN_ANGLES, PARSE_CPU_S, opens_too_many_angles
from cocosearchd.sandbox.code_digest import installed_code_digest
from cocosearchd.sandbox.worker_pool import PoolSize
from tests.hostile.nesting import Nested, nested

pytestmark = pytest.mark.anyio

SEED = 1
SHORT_BYTES, SHORT_SHAPES = 4_000, 2
LONG_BYTES = 60_000
# Beside the parser itself, for symbols and cutting, and for starting a grammar.
SLACK_S = 1.0
MARK = "quokka"  # the last word of each text
FILES = [
    (f"a{extension}", info.name)
    for info in language_table.languages()
    if info.grammar
    for extension in (info.extensions[:1] + ((".tsx",) if info.name == "typescript" else ()))
]


@asynccontextmanager
async def boxed() -> AsyncIterator[BoxedParser]:
    pool = parser_pool(
        "definitions", installed_code_digest(), PoolSize(max_processes=1, idle_s=60.0)
    )
    try:
        yield BoxedParser(
            pool,
            Quarantine(None),
            asyncio.Semaphore(1),
            ParseRequest(chunker_limits(IndexingSettings()), (), ()),
        )
    finally:
        await pool.aclose()


async def parsed(parser: BoxedParser, path: str, language: str, data: bytes) -> ParseResult:
    return await parser.parse_save(ParseTask(ParseFile(path, language, data), data))


def cpu_s(parser: BoxedParser) -> dict[int, float]:
    """CPU time of the living processes."""
    times = dict[int, float]()
    for pid in parser._pool.pids:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            used = psutil.Process(pid).cpu_times()
            times[pid] = used.user + used.system
    return times


async def check(parser: BoxedParser, path: str, language: str, text: Nested) -> bool:
    """One text, within its bounds and searchable; return whether it ended its process."""
    data, previous_s = text.data + f"\n{MARK}\n".encode(), cpu_s(parser)
    result = await parsed(parser, path, language, data)
    for pid, spent_s in cpu_s(parser).items():
        assert spent_s - previous_s.get(pid, 0.0) < PARSE_CPU_S + SLACK_S, (path, text.shape)
    chunks = result.parsed_file.chunks(path, language, data)
    assert any(MARK in chunk.text for chunk in chunks), (path, text.shape)
    return is_quarantined(result.parsed_file.report)


async def check_all(
    files: list[tuple[str, str]], size: int, shapes: int | None
) -> list[tuple[str, str]]:
    ended = list[tuple[str, str]]()
    texts = list(nested(size, SEED))
    async with boxed() as parser:
        for path, language in files:
            chance = Random(zlib.crc32(path.encode()) + SEED)
            for text in texts if shapes is None else chance.sample(texts, shapes):
                if await check(parser, path, language, text):
                    ended.append((path, text.shape))
        good = await parsed(parser, "good.py", "python", b"def good():\n    pass\n")
        assert [symbol.name for symbol in good.parsed_file.symbols] == ["good"]
    return ended


@pytest.mark.timeout(300)
async def test_some_shapes_in_every_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxed_parser, "REFILL_S", 0.0)
    assert await check_all(FILES, SHORT_BYTES, SHORT_SHAPES) == [], "so little text ends no parser"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("path", "language"), FILES)
async def test_every_shape(path: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that ends its process is searchable as well; `check` looks."""
    monkeypatch.setattr(boxed_parser, "REFILL_S", 0.0)
    await check_all([(path, language)], LONG_BYTES, None)


@pytest.mark.parametrize(
    ("path", "language", "shape"),
    [
        ("a.java", "java", "repeat 'x => '"),
        pytest.param("a.cs", "csharp", "repeat 'x => '", marks=pytest.mark.slow),
        pytest.param("a.ts", "typescript", "repeat 'x => '", marks=pytest.mark.slow),
        ("a.py", "python", "repeat '/*'"),
    ],
)
async def test_a_file_that_ends_a_parser_is_quarantined_and_costs_no_other_file(
    path: str, language: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of these end it today, unless its own bound on time comes first."""
    monkeypatch.setattr(boxed_parser, "REFILL_S", 0.0)
    text = next(text for text in nested(LONG_BYTES, SEED) if text.shape == shape)
    files = [
        ParseFile(f"good_{name}.py", "python", f"def good_{name}():\n    pass\n".encode())
        for name in "ab"
    ]
    files.insert(1, ParseFile(path, language, text.data))
    async with boxed() as parser:
        tasks = [ParseTask(file, file.data) for file in files]
        results = await parser.parse(tasks, checkpoint)
        good = [[symbol.name for symbol in result.parsed_file.symbols] for result in results[::2]]
        assert good == [["good_a"], ["good_b"]]
        assert results[1].parsed_file.ranges, "it is searched as plain text at least"
        if is_quarantined(results[1].parsed_file.report):
            assert text.data in parser.quarantine.reasons([text.data]), "by its content"


@pytest.mark.parametrize("extension", ["java", "cs", "ts", "tsx"])
def test_angle_brackets_without_end_are_not_parsed(extension: str) -> None:
    """101 KB in 80 columns; as `.java` they took 14.8 GB."""
    language = {"cs": "csharp", "ts": "typescript", "tsx": "typescript"}.get(extension, extension)
    for unit in ("a<", "List<", "Map<A,", "a < "):
        data = "\n".join(unit * (80 // len(unit)) for _ in range(1260)).encode()
        parsed_file, lasting = parse_file(
            f"a.{extension}", language, data, chunker_limits(IndexingSettings()), ()
        )
        assert "angle brackets" in parsed_file.report.error_message
        assert not lasting
        assert len(parsed_file.ranges) > 50


def test_code_with_many_angle_brackets_is_parsed() -> None:
    """Comparisons and types that end: an upper bound that people do not meet."""
    loops = b"".join(
        b"for (int i%d = 0; i%d < n; i%d++) { if (a < b || c < d) f(); }\n" % (n, n, n)
        for n in range(9999)
    )
    types = b"Map<String, List<Map<String, Set<Integer>>>> field;\n" * 9999
    rows = b"boolean[] all = {" + b"a < b, c > d,\n" * 5000 + b"};\n"
    for data in (loops, types, rows):
        assert not opens_too_many_angles("java", data)
    assert not opens_too_many_angles("java", b"a <\n" * MAX_OPEN_ANGLES)
    assert opens_too_many_angles("java", b"a <\n" * (MAX_OPEN_ANGLES + 1))
    assert not opens_too_many_angles("python", b"a <\n" * (MAX_OPEN_ANGLES + 1)), (
        "there it is a comparison"
    )
