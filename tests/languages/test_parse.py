"""Parsing never raises, takes bounded time and says how well it went."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cocosearchd.errors import BadSettings
from cocosearchd.languages import definition_ranges, syntax
from cocosearchd.languages.language_table import languages
from cocosearchd.languages.parse import Parsed, parse
from cocosearchd.languages.symbols import MAX_QUALIFIED, MAX_SIGNATURE, check_overrides
from tests.machine_speed import slowness

SOURCE = Path(__file__).parent / "cases" / "source"
FILES = {
    path.relative_to(SOURCE).as_posix(): path.read_bytes()
    for path in SOURCE.rglob("*")
    if path.is_file()
}
EXTENSIONS = [info.extensions[0] for info in languages()]


def check(parsed: Parsed) -> None:
    """Check the invariants of every parsed file."""
    size = len(parsed.data)
    lines = parsed.data.count(b"\n") + 1
    assert (parsed.report.status == "ok") == (
        parsed.report.error_count == 0 and parsed.report.status != "no_grammar"
    )
    around: list[tuple[int, int]] = [(0, size)]
    for symbol in parsed.symbols:
        assert 0 <= symbol.start_byte <= symbol.end_byte <= size
        assert 1 <= symbol.start_line <= symbol.end_line <= lines
        assert symbol.name
        assert symbol.qualified_name == (
            f"{symbol.parent}.{symbol.name}" if symbol.parent else symbol.name
        )
        assert len(symbol.signature) <= MAX_SIGNATURE
        assert "\n" not in symbol.signature
        while around[-1][1] < symbol.end_byte:
            around.pop()
        assert around[-1][0] <= symbol.start_byte
        around.append((symbol.start_byte, symbol.end_byte))
    for block in parsed.blocks:
        assert 0 <= block.start_byte <= block.end_byte <= size
    assert list(parsed.blocks) == sorted(
        parsed.blocks, key=lambda block: (block.start_byte, -block.end_byte)
    )


@pytest.mark.parametrize("path", FILES)
def test_cases_hold(path: str) -> None:
    check(parse(path, FILES[path]))


@given(st.sampled_from(EXTENSIONS), st.binary(max_size=400))
def test_random_bytes(extension: str, data: bytes) -> None:
    check(parse(f"a{extension}", data))


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a real file with parts cut out, doubled or overwritten."""
    path = draw(st.sampled_from(sorted(FILES)))
    data = FILES[path]
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 200)))
        middle = draw(
            st.one_of(
                st.binary(max_size=20),
                st.just(data[start:end] * 2),
                st.sampled_from([b"", b"\r\n", b"{"]),
            )
        )
        data = data[:start] + middle + data[end:]
    return path, data


@settings(max_examples=150)
@example(("a.pl", b"sub add {\n    p"))  # Perl is parsed with a line break at the end
@given(mutated())
def test_mutated_files(case: tuple[str, bytes]) -> None:
    check(parse(*case))


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_huge_line_takes_bounded_time(extension: str) -> None:
    start = time.process_time()
    parsed = parse(f"a{extension}", b"x = [1, {'a': (2)}]; " * 50_000)
    assert time.process_time() - start < 2 * slowness()
    assert parsed.report.status in ("error", "no_grammar")


@pytest.mark.parametrize(
    ("path", "data"),
    [
        # one error with a child for each: queries would need its square
        ("open.py", b"(\n" * 60_000),
        (
            ".github/workflows/ci.yml",
            b"jobs:\n" + b"".join(b"  j%d:\n    steps: x\n" % n for n in range(6_000)),
        ),
        ("Dockerfile", b"FROM a\n" * 20_000),
        ("nested.cpp", b"namespace abcdefgh {\n" * 20_000 + b"}\n" * 20_000),
    ],
)
def test_hostile_files_take_bounded_time(path: str, data: bytes) -> None:
    start = time.process_time()
    parse(path, data)
    assert time.process_time() - start < 2 * slowness()


def test_qualified_names_are_bounded() -> None:
    inside = b"".join(b"void f%d() {}\n" % n for n in range(100))
    for name in (b"a", b"a" * 300):
        text = (b"namespace " + name + b" {\n") * 400 + inside + b"}\n" * 400 + b"void after() {}\n"
        parsed = parse("a.cpp", text)
        check(parsed)
        assert max(len(symbol.qualified_name) for symbol in parsed.symbols) <= MAX_QUALIFIED
        assert parsed.symbols[-1].qualified_name == "after"


@pytest.mark.parametrize("levels", [150, 4000])
@pytest.mark.parametrize(
    ("path", "level_text"),
    [
        *(
            ("a.yaml", level_text)
            for level_text in ("{indent}a:\n", "{indent}-\n", "{indent}a:\r", "- ", "? ")
        ),
        ("a.yaml", "{half}a:\n{half}-\n"),
        *(
            ("a.md", level_text)
            for level_text in ("> ", "* ", "1. ", "{indent}- \n", "\t{tabs}- \n", "> {indent}- a\n")
        ),
    ],
)
def test_blocks_of_many_levels_end_no_process(path: str, level_text: str, levels: int) -> None:
    # In a process of its own: what is to be seen is whether it is there afterwards.
    levels = min(levels, 600 if "{" in level_text else levels)
    parts = (
        level_text.format(indent=" " * n, tabs="\t" * n, half=" " * (n // 2)) for n in range(levels)
    )
    code = f"import sys; from cocosearchd.languages.parse import parse; parse({path!r}, sys.stdin.buffer.read())"
    text = "".join(parts).encode()
    assert subprocess.run([sys.executable, "-c", code], input=text, check=False).returncode == 0


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.md", "# Title\ntext\n## Part\n"),
        ("Dockerfile", "FROM a AS b\nCMD x\n"),
        ("service.yaml", "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n"),
        ("compose.yaml", "services:\n  web:\n    image: a\n  db:\n    image: b\n"),
        (".github/workflows/ci.yml", "on: push\njobs:\n  test:\n    steps:\n      - run: make\n"),
    ],
)
def test_a_byte_order_mark_hides_no_block(path: str, text: str) -> None:
    plain = parse(path, text.encode())
    marked = parse(path, text.encode("utf-8-sig"))
    places = [
        (block.block_type, block.hierarchy, block.start_byte + 3, block.end_byte + 3)
        for block in plain.blocks
    ]
    assert plain.blocks
    assert marked.language == plain.language
    assert [(block.block_type, block.hierarchy) for block in marked.blocks] == [
        block_place[:2] for block_place in places
    ]
    assert [block.end_byte for block in marked.blocks] == [block_place[3] for block_place in places]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RUN x=$((1<<4)) && y\nCMD x\n", ["RUN", "CMD"]),
        ("RUN x=$((1 << 4))\nCMD x\n", ["RUN", "CMD"]),
        ("RUN cat <<<word\nCMD x\n", ["RUN", "CMD"]),
        ("COPY <<one <<'two' /d/\nRUN a\none\nRUN b\ntwo\nCMD x\n", ["COPY", "CMD"]),
        ('RUN cat <<-"END-1" >x\nRUN a\n\tEND-1\nCMD x\n', ["RUN", "CMD"]),
    ],
)
def test_here_documents_end_where_they_do(text: str, words: list[str]) -> None:
    blocks = parse("Dockerfile", b"FROM a\n" + text.encode()).blocks
    assert [block.block_type for block in blocks] == ["FROM", *words]


def test_comments_are_no_part_of_values() -> None:
    steps = [
        "uses: actions/checkout@abc # v4",
        'name: "Build # it" # x',
        "name: C#",
        "run: |  # text",
    ]
    text = "jobs:\n  test:\n    steps:\n" + "".join(f"      - {step}\n" for step in steps)
    titles = [block.title for block in parse(".github/workflows/ci.yml", text.encode()).blocks]
    assert titles == ["test", "actions/checkout@abc", "Build # it", "C#", "4"]


def test_a_parse_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is lowered rather than waited for; parsers are made per thread, so this thread makes
    # a new one.
    monkeypatch.setattr(syntax, "SLICE_US", 1, raising=False)
    monkeypatch.setattr(syntax, "PARSE_CPU_S", 0, raising=False)
    reports = []

    def run() -> None:
        reports.append(parse("a.py", b"x = (1 +\n" * 5_000).report)
        reports.append(parse("b.py", b"def f(): pass\n").report)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert (reports[0].status, reports[0].error_message) == ("error", "parsing took too long")
    assert reports[1].status in ("ok", "error")  # the parser is usable again


@pytest.mark.parametrize("text", ["r#", "foo#bar", 'sub f { 1 }\nr#"r#"'])
def test_perl_that_ends_within_a_line_ends(text: str) -> None:
    # In a process of its own: nothing else could end the parser.
    code = "import sys\nfrom cocosearchd.languages.parse import parse\n"
    code += "print(len(parse('a.pl', sys.argv[1].encode()).symbols))"
    run = subprocess.run(
        [sys.executable, "-c", code, text], capture_output=True, timeout=50, check=True
    )
    assert run.stdout == (b"1\n" if "sub" in text else b"0\n")


def test_a_parse_that_waits_for_others_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock each step of it takes too long, as where many use the machine; it uses hardly
    any of that itself.
    """
    expected = {path: parse(path, data) for path, data in FILES.items()}
    monkeypatch.setattr(syntax, "SLICE_US", 1, raising=False)
    monkeypatch.setattr(syntax, "PARSE_TIMEOUT_US", 1, raising=False)
    results = dict[str, Parsed]()

    def run() -> None:  # in a thread of its own, whose parsers are new
        results.update((path, parse(path, data)) for path, data in FILES.items())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for path, parsed in expected.items():
        assert (results[path].symbols, results[path].report) == (parsed.symbols, parsed.report), (
            path
        )


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
    errors: list[object] = []

    def run() -> None:
        errors.extend(parse("app/user_service.py", data).symbols for _ in range(5))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [expected] * 20


def test_overrides_extend_and_replace() -> None:
    data = b"import os\n\ndef f():\n    return 1\n"
    more = check_overrides(
        [("python", "(import_statement name: (dotted_name) @name) @definition.import")]
    )
    assert [symbol.kind for symbol in parse("a.py", data, more).symbols] == ["import", "function"]
    only = check_overrides(
        [("python", "; replace\n(import_statement name: (dotted_name) @name) @definition.import")]
    )
    assert [symbol.kind for symbol in parse("a.py", data, only).symbols] == ["import"]
    assert [symbol.kind for symbol in parse("a.rb", b"def f; end\n", only).symbols] == ["function"]


def test_overrides_give_symbols_to_a_language_without() -> None:
    texts = check_overrides([("toml", "(table (bare_key) @name) @definition.table")])
    assert [symbol.name for symbol in parse("a.toml", b"[build]\nx = 1\n", texts).symbols] == [
        "build"
    ]


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
    packed = definition_ranges.pack(parse("app/user_service.py", data).symbols)

    def lines(text: bytes) -> tuple[int, int] | None:
        start = data.index(text)
        return definition_ranges.enclosing(packed, data, start, start + len(text))

    assert lines(b"self._repository.find(user_id)") == (29, 31)
    assert lines(b"key.strip()") == (39, 41)
    assert lines(b"timeout = 5") == (49, 55)
    assert lines(b"\n    async def stream") == (45, 47)  # the blank line before it does not count
    assert lines(b"import functools") is None
    assert definition_ranges.enclosing(b"", b"text", 0, 4) is None


@pytest.mark.parametrize(
    ("path", "source", "signature"),
    [
        (
            "a.py",
            "def f(a,  # one\n      b='#'):  # two\n    # three\n    return a\n",
            "def f(a, b='#')",
        ),
        ("a.py", "class A:  # one\n    # two\n    x = 1\n", "class A"),
        (
            "a.go",
            "package a\nfunc F(a int, /* one */ b int) error { // two\n return nil }\n",
            "func F(a int, b int) error",
        ),
        ("a.rb", "def f(a) # one\n  # two\n  a\nend\n", "def f(a)"),
        (
            "a.ts",
            "function f(a /* one */ = 'http://x') { return a }\n",
            "function f(a = 'http://x')",
        ),
        ("a.rs", "fn f(a: u8, // one\n b: u8) -> u8 // two\n{ a }\n", "fn f(a: u8, b: u8) -> u8"),
        ("a.c", "int f(int a, /* one */ int b) { return a; }\n", "int f(int a, int b)"),
        ("a.lua", "local function f(a) -- one\n return a\nend\n", "local function f(a)"),
    ],
)
def test_signatures_have_no_comments(path: str, source: str, signature: str) -> None:
    assert parse(path, source.encode()).symbols[0].signature == signature


def test_a_text_that_is_always_valid_is_parsed_for_a_query_only() -> None:
    text = b"# One\n\n> * deep\n" + b">" * 5_000 + b" quoted\n"
    assert parse("a.md", text).tree is None
    assert parse("a.md", text).report.status == "ok"
    query = "(atx_heading (inline) @name) @definition.function"
    parsed = parse("a.md", b"# One\n", check_overrides([("markdown", query)]))
    assert [symbol.name for symbol in parsed.symbols] == ["One"]
    assert parse("a.md", text, (("markdown", query),)).report.status == "error"
