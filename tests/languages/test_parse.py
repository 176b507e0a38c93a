"""Parsing never raises, takes bounded time and says how well it went."""

import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.errors import BadSettings
from cocosearchd.languages import syntax
from cocosearchd.languages.context import enclosing
from cocosearchd.languages.parse import Parsed, parse
from cocosearchd.languages.symbols import MAX_SIGNATURE, check_overrides
from cocosearchd.languages.tables import languages

SOURCE = Path(__file__).parent / "cases" / "source"
FILES = {path.relative_to(SOURCE).as_posix(): path.read_bytes() for path in SOURCE.rglob("*") if path.is_file()}
EXTENSIONS = [info.extensions[0] for info in languages()]


def check(parsed: Parsed) -> None:
    """What holds for the parse of anything."""
    size, lines = len(parsed.data), parsed.data.count(b"\n") + 1
    assert (parsed.report.status == "ok") == (parsed.report.error_count == 0 and parsed.report.status != "no_grammar")
    around: list[tuple[int, int]] = [(0, size)]
    for symbol in parsed.symbols:
        assert 0 <= symbol.start_byte <= symbol.end_byte <= size
        assert 1 <= symbol.start_line <= symbol.end_line <= lines
        assert symbol.name
        assert symbol.qualified_name == (f"{symbol.parent}.{symbol.name}" if symbol.parent else symbol.name)
        assert len(symbol.signature) <= MAX_SIGNATURE
        assert "\n" not in symbol.signature
        while around[-1][1] < symbol.end_byte:
            around.pop()
        assert around[-1][0] <= symbol.start_byte
        around.append((symbol.start_byte, symbol.end_byte))
    for block in parsed.blocks:
        assert 0 <= block.start_byte <= block.end_byte <= size
    assert list(parsed.blocks) == sorted(parsed.blocks, key=lambda block: (block.start_byte, -block.end_byte))


@pytest.mark.parametrize("path", FILES)
def test_cases_hold(path: str) -> None:
    check(parse(path, FILES[path]))


@given(st.sampled_from(EXTENSIONS), st.binary(max_size=400))
def test_random_bytes(extension: str, data: bytes) -> None:
    check(parse(f"a{extension}", data))


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A real file with parts cut out, doubled or overwritten."""
    path = draw(st.sampled_from(sorted(FILES)))
    data = FILES[path]
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 200)))
        middle = draw(
            st.one_of(st.binary(max_size=20), st.just(data[start:end] * 2), st.sampled_from([b"", b"\r\n", b"{"]))
        )
        data = data[:start] + middle + data[end:]
    return path, data


@settings(max_examples=150)
@given(mutated())
def test_mutated_files(case: tuple[str, bytes]) -> None:
    check(parse(*case))


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_huge_line_takes_bounded_time(extension: str) -> None:
    start = time.process_time()
    parsed = parse(f"a{extension}", b"x = [1, {'a': (2)}]; " * 50_000)
    assert time.process_time() - start < 2
    assert parsed.report.status in ("error", "no_grammar")


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("open.py", b"(\n" * 60_000),  # one error with a child for each: queries would need its square
        (".github/workflows/ci.yml", b"jobs:\n" + b"".join(b"  j%d:\n    steps: x\n" % n for n in range(6_000))),
        ("Dockerfile", b"FROM a\n" * 20_000),
    ],
)
def test_hostile_files_take_bounded_time(path: str, data: bytes) -> None:
    start = time.process_time()
    parse(path, data)
    assert time.process_time() - start < 2


def test_a_parse_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is lowered rather than waited for; parsers are made per thread, so this thread makes a new one.
    monkeypatch.setattr(syntax, "PARSE_TIMEOUT_US", 1)
    reports = []

    def run() -> None:
        reports.append(parse("a.py", b"x = (1 +\n" * 5_000).report)
        reports.append(parse("b.py", b"def f(): pass\n").report)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert (reports[0].status, reports[0].error_message) == ("error", "parsing took too long")
    assert reports[1].status in ("ok", "error")  # the parser is usable again


def test_health() -> None:
    assert parse("a.py", b"x = 1\n").report.status == "ok"
    assert parse("a.py", b"").report.status == "ok"
    assert parse("a.txt", b"x").report.status == "no_grammar"
    assert parse("unknown.bin", b"x").report.status == "no_grammar"
    partial = parse("a.js", b"function ok() { return 1 }\n" * 10 + b"let = = 2;\n").report
    assert (partial.status, partial.error_count > 0) == ("partial", True)
    assert partial.error_message.startswith("line 11: ")
    broken = parse("a.go", b")))) ((((( {{{{ ]]]]").report
    assert broken.status == "error"
    missing = parse("a.js", b"const a = [1, 2, 3\nfunction f() { return a }\n").report
    assert missing.error_count > 0


def test_a_broken_file_keeps_its_symbols() -> None:
    data = b"def good():\n    return 1\n\nclass Bad(:\n    pass\n\ndef also():\n    return 2\n"
    assert "good" in {symbol.name for symbol in parse("a.py", data).symbols}


def test_predicates_do_not_fail_on_what_is_not_utf8() -> None:
    data = b"defmodule A do\n  d\xc7f x do\n  end\n  def \xff\xfe\n  def good do\n  end\nend\n"
    assert "A.good" in {symbol.qualified_name for symbol in parse("a.ex", data).symbols}


def test_parsers_of_threads_do_not_meet() -> None:
    data = FILES["app/user_service.py"]
    expected = parse("app/user_service.py", data).symbols
    found: list[object] = []

    def run() -> None:
        found.extend(parse("app/user_service.py", data).symbols for _ in range(5))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 20


def test_overrides_extend_and_replace() -> None:
    data = b"import os\n\ndef f():\n    return 1\n"
    more = check_overrides([("python", "(import_statement name: (dotted_name) @name) @definition.import")])
    assert [symbol.kind for symbol in parse("a.py", data, more).symbols] == ["import", "function"]
    only = check_overrides([("python", "; replace\n(import_statement name: (dotted_name) @name) @definition.import")])
    assert [symbol.kind for symbol in parse("a.py", data, only).symbols] == ["import"]
    assert [symbol.kind for symbol in parse("a.rb", b"def f; end\n", only).symbols] == ["function"]


def test_overrides_give_symbols_to_a_language_without() -> None:
    texts = check_overrides([("toml", "(table (bare_key) @name) @definition.table")])
    assert [symbol.name for symbol in parse("a.toml", b"[build]\nx = 1\n", texts).symbols] == ["build"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("python", "(no_such_node) @definition.x", "no_such_node"),
        ("python", "(identifier", "python.scm"),
        ("python", "(identifier) @name", "@definition"),
        ("pyton", "(identifier) @definition.x", "pyton"),
        ("text", "(identifier) @definition.x", "text"),
    ],
)
def test_a_bad_override_is_one_clear_error(name: str, text: str, message: str) -> None:
    with pytest.raises(BadSettings) as caught:
        check_overrides([(name, text)])
    assert message in str(caught.value)


def test_enclosing() -> None:
    data = FILES["app/user_service.py"]

    def lines(text: bytes) -> tuple[int, int] | None:
        start = data.index(text)
        return enclosing("app/user_service.py", data, start, start + len(text))

    assert lines(b"self._repository.find(user_id)") == (29, 31)
    assert lines(b"key.strip()") == (39, 41)
    assert lines(b"timeout = 5") == (49, 55)
    assert lines(b"\n    async def stream") == (45, 47)  # the blank line before it does not count
    assert lines(b"import functools") is None
    assert enclosing("a.txt", b"text", 0, 4) is None
