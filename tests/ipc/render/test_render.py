"""Rendering without a process: colours, matched words, explanations, tables, frames of `top`."""

import io
import os
import re
from typing import Any

import pytest

from cocosearch_ipc.cli.questions import editor
from cocosearch_ipc.render import (
    answers,
    comment_marks,
    explain_view,
    highlight,
    output,
    progress,
    tables,
    top_frames,
)
from cocosearchd.store.lineage import LINEAGE
from tests.comment_marks import languages_by_dialect, marks_by_language

PLAIN = output.Style(colour=False, links=False)
COLOUR = output.Style(colour=True, links=False)
NAMES = {
    highlight.COMMENT: "c",
    highlight.STRING: "s",
    highlight.NUMBER: "n",
    highlight.KEYWORD: "k",
}


def hit(code: str) -> dict[str, object]:
    result = {
        "index": "a",
        "path": "a.py",
        "start_line": 9,
        "content": code,
        "language": "python",
        "score": 1.0,
    }
    return result | {"symbol_name": None, "symbol_type": None, "match_type": "both"}


def reply(query: str, *hits: dict[str, object], **more: object) -> dict[str, object]:
    answer = {"query": query, "index": "a", "results": list(hits), "fresh": True, "cache": "miss"}
    return answer | {"timings_ms": {"total": 2.0}} | more


@pytest.mark.parametrize(
    ("language", "code", "painted"),
    [
        ("python", "return x  # why", "k:return c:# why"),
        ("python", "x = \"a # b\" + f'c'", "s:\"a # b\" s:'c'"),
        ("python", '"""a\nb""" + 0x1F', 's:"""a s:b""" n:0x1F'),
        ("python", "'''a'''.forgiven", "s:'''a'''"),
        ("go", "func f() { // done", "k:func c:// done"),
        ("go", "/* a\n b */ return 1", "c:/* a c: b */ k:return n:1"),
        ("rust", "fn f<'a>(x: &'a str) -> 'b'", "k:fn s:'b'"),
        ("javascript", "const a = `x` // 'y'", "k:const s:`x` c:// 'y'"),
        ("sql", "select 'a' -- b", "k:select s:'a' c:-- b"),
        ("bash", "echo $# # x\nfi", "c:# x k:fi"),
        ("yaml", "for: 'if' # c", "s:'if' c:# c"),
        ("unheard-of", 'if "x" 1', 'k:if s:"x" n:1'),
        ("markdown", "for 'a' in 1 # x", ""),
    ],
)
def test_code_has_colours(language: str, code: str, painted: str) -> None:
    lines = highlight.lines(code, language)
    assert ["".join(text for _, text in line) for line in lines] == code.split("\n"), (
        "nothing is lost"
    )
    assert (
        " ".join(f"{NAMES[colour]}:{text}" for line in lines for colour, text in line if colour)
        == painted
    )


def test_the_comment_marks_are_those_of_the_table_of_languages() -> None:
    assert marks_by_language() == comment_marks.MARKS, "run `make map`"
    assert languages_by_dialect() == comment_marks.DIALECTS, "run `make map`"


@pytest.mark.parametrize("language", [*comment_marks.MARKS, *comment_marks.DIALECTS])
def test_comments_of_every_language_have_colours(language: str) -> None:
    base = comment_marks.DIALECTS.get(language, language)
    line_marks, leading_marks, pairs = comment_marks.MARKS[base]
    comments = [f"{mark} text" for mark in (*line_marks, *leading_marks)]
    comments += [f"{opener} text {closer}" for opener, closer in pairs]
    plain = base in highlight._NONE.split()
    for comment in comments:
        (_, colours) = highlight.lines(f"x\n{comment}", language)
        assert [text for colour, text in colours if colour] == ([] if plain else [comment])


def test_the_highlighter_names_languages_of_the_table_only() -> None:
    words = " ".join(name for name in highlight._WORDS)
    lists = (words, highlight._NONE, highlight._LONG_STRINGS, highlight._ONE_CHARACTER)
    assert {name for names in lists for name in names.split()} <= comment_marks.MARKS.keys()


@pytest.mark.parametrize(
    ("query", "marked", "not_found"),
    [
        (
            "where is it signed",
            "sign Signing SIGNED is_signed preSigned",
            "design assigned where resignation",
        ),
        ("retries", "retry RETRIES retried shouldRetry", "retrieve retrospect"),
        ("socket", "socket sockets Socket SOCKET_PATH rpc_socket", "websocket socketpair"),
        ("shouldRetry", "shouldRetry ShouldRetry shouldretrying", "should retry"),
        ("do_it lang:go -path:src/x", "do_it redo_it", "lang src go"),
        ("café", "café cafés", "cafe"),
    ],
)
def test_words_that_were_asked_for_are_marked(query: str, marked: str, not_found: str) -> None:
    words = highlight.term_pattern(query)
    assert words is not None
    assert [word for word in marked.split() if not words.search(word)] == []
    assert [word for word in not_found.split() if words.search(word)] == []


def test_a_question_of_fillers_marks_nothing() -> None:
    assert highlight.term_pattern("where is it and how") is None


def test_a_cut_line_keeps_its_colours_apart_and_says_that_it_is_cut() -> None:
    code = "x = 'long " + "text " * 60 + "'\nreturn done\n"
    narrow = output.Style(colour=True, links=False, columns=40)
    lines = list(answers.text(reply("text", hit(code)), narrow, {}))
    bare = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert [len(line) for line in bare[1:3]] == [40, len("    10  return done")]
    assert bare[1].endswith("…")
    plain = list(
        answers.text(
            reply("text", hit(code)), output.Style(colour=False, links=False, columns=40), {}
        )
    )
    assert bare == plain
    for line in lines:
        assert line.count("\x1b[0m") * 2 == line.count("\x1b["), "every colour ends on its line"


def test_an_explanation_has_stages_tables_and_a_tree() -> None:
    rows = [
        {"path": "p", "score": 1.5, "features": {"f": 1.0, "g": 2.0}},
        {"path": "q", "features": {"f": 0.25}},
    ]
    trace = {"plan": {"text": "x", "deep": {"a": [1.23456, None]}}, "ranking": {"results": rows}}
    answer = reply("x", explain=trace, timings_ms={"embed": 0.5, "score": 1.5, "total": 2.0})
    assert list(explain_view.explanation(answer, PLAIN)) == [
        "",
        "explanation",
        "  embed      0.50 ms  ██████",
        "  score      1.50 ms  ██████████████████",
        "  total      2.00 ms",
        "  plan:",
        "    text: x",
        "    deep:",
        "      a: 1.235, -",
        "  ranking:",
        "    results:",
        "      #  path  score",
        "      1  p       1.5",
        "      2  q     -",
        "",
        "      features  #1  #2",
        "      f          1  0.25",
        "      g          2  -",
    ]
    assert list(explain_view.explanation(reply("x"), PLAIN)) == []
    assert "\x1b[1mexplanation" in "".join(explain_view.explanation(answer, COLOUR))


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("", ["vi", "+3", "/a b"]),
        ("emacsclient -t", ["emacsclient", "-t", "+3", "/a b"]),
        ("nano", ["nano", "+3", "/a b"]),
        ("it's", ["it's", "+3", "/a b"]),
        ("'/opt/my code/code' -w", ["/opt/my code/code", "-w", "--goto", "/a b:3"]),
        ("subl", ["subl", "/a b:3"]),
        ("hx", ["hx", "/a b:3"]),
        ("/opt/pycharm/bin/pycharm.sh", ["/opt/pycharm/bin/pycharm.sh", "--line", "3", "/a b"]),
        ("kate", ["kate", "-l", "3", "/a b"]),
    ],
)
def test_every_editor_goes_to_the_line(program: str, command: list[str]) -> None:
    assert editor.goto_command(program, "/a b", 3) == command


def test_a_state_is_painted_where_it_stands() -> None:
    index = {
        "name": "live",
        "state": "live",
        "files": 1,
        "skipped": {},
        "chunks": 2,
        "pending": 0,
        "root": "/live",
    }
    (_, row) = tables.indexes([index], COLOUR)
    assert row.startswith("live  \x1b[32mlive\x1b[0m")
    assert row.endswith("/live")


def test_skipped_files_are_counted_beside_the_others() -> None:
    skipped = {"binary": 2, "secret": 1}
    index = {
        "name": "a",
        "state": "live",
        "files": 4,
        "skipped": skipped,
        "chunks": 2,
        "pending": 0,
        "root": "/a",
    }
    head, row, unknown = tables.indexes(
        [index, index | {"files": -1, "skipped": {}, "chunks": -1}], PLAIN
    )
    assert head.split() == ["name", "state", "files", "skipped", "chunks", "pending", "root"]
    assert row.split() == ["a", "live", "4", "3", "2", "0", "/a"]
    assert unknown.split() == ["a", "live", "?", "?", "?", "0", "/a"]


def test_context_is_shown_where_it_was_asked_for() -> None:
    result = hit("b = 2\nc = 3\n") | {
        "context_before": "def f():\n…\na = 1\n",
        "context_after": "\nd = 4",
    }
    lines = list(answers.text(reply("absent", result), PLAIN, {}, full=True))
    assert lines[1:-2] == [
        "        def f():",
        "        …",
        "     7  a = 1",
        "     8",
        "     9  b = 2",
        "    10  c = 3",
        "    11",
        "    12  d = 4",
    ]
    short = list(answers.text(reply("absent", result), PLAIN, {}))
    assert short[1:-2] == ["        def f():", "    …", "     9  b = 2", "    10  c = 3"], (
        "the definition, then the hit"
    )


def status(
    uptime_s: float, answered: int, generation: int, clock: int, pid: int = 1
) -> dict[str, Any]:
    index = {
        "name": "a",
        "state": "live",
        "files": 1200,
        "chunks": 3,
        "pending": 4,
        "generation": generation,
    }
    return {
        "version": "1.0",
        "pid": pid,
        "uptime_s": uptime_s,
        "rss_bytes": {"daemon": 2_000_000, "total": 2_000_000},
        "store": {"server": "18.0", "kind": "embedded", "state": "up"},
        "worker": {"state": "running"},
        "cache": {"entries": 5, "bytes": 2000, "exact_hits": 3, "misses": 1},
        "queries": {
            "count": answered,
            "p50_ms": 1.0,
            "p95_ms": 4.0,
            "recent_ms": [0.0, 1.0, 2.0, 4.0],
        },
        "indexes": [index | {"as_of": {"epoch": "e", "seq": clock}}],
    }


def test_top_shows_rates_between_two_statuses() -> None:
    state = top_frames.FrameState(sizes={"a": 12_300})
    assert "  -        -" in list(top_frames.frame(status(10.0, 7, 5, 100), state, PLAIN))[-1], (
        "no rate from one status"
    )
    state.next(status(10.0, 7, 5, 100))
    now = status(12.0, 17, 6, 150)
    list(top_frames.frame(now, state, PLAIN))
    state.next(now)
    assert list(state.queries_s) == [5.0]
    assert list(top_frames.frame(status(14.0, 17, 7, 200), state, PLAIN)) == [
        "cocosearchd 1.0  pid 1  up 14 s",
        "memory   2.0 MB  (daemon 2.0 MB)",
        "store    PostgreSQL 18.0 embedded, up, 12.3 kB of indexes",
        "queue    4 changes, indexer running",
        "cache    75% of 4 hit, 5 answers in 2.0 kB",
        "queries  17, 5.0/s, p50 1.0 ms, p95 4.0 ms  ▁▃▅█",
        "",
        "index  state  files  chunks  size     pending  clock  files/s  commits/s",
        "a      live   1,200       3  12.3 kB        4    200     25.0        0.5",
    ]
    frame = list(top_frames.frame(status(14.0, 17, LINEAGE, 200), state, PLAIN))
    assert frame[-1].endswith(" 0.0"), "the leap after a loss of commits is no rate"
    frame = list(top_frames.frame(status(1.0, 0, 0, 0, pid=2), state, PLAIN))
    assert frame[-1].endswith("-        -"), "another daemon's counts are no rate"


def test_a_daemon_that_tells_less_is_shown_as_well() -> None:
    old = {name: value for name, value in status(1.0, 0, 0, 0).items() if name != "queries"} | {
        "cache": {}
    }
    output = "\n".join(top_frames.frame(old, top_frames.FrameState(), PLAIN))
    assert "cache    -" in output
    assert "queries  none yet" in output


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    value = {"index": "a", "state": "indexing", "done": 25, "total": 100, "chunks": 7, "failed": 0}
    screen = Screen()
    pipe = io.StringIO()
    for stream in (screen, pipe):
        bar = progress.Progress(stream)
        bar.show(value | {"total": None})
        bar.show(value)
        bar.close()
    text = "a: indexing, 25 of 100 files, 7 chunks"
    assert screen.getvalue().split("\r\x1b[K") == [
        "",
        "a: indexing, 25 files, 7 chunks",
        "━" * 5 + "╌" * 15 + f" {text}",
        "",
    ]
    assert pipe.getvalue() == "a: indexing, 25 files, 7 chunks\n", (
        "the next line comes after a while"
    )


def test_files_from_windows_look_like_others() -> None:
    lines = list(answers.text(reply("a", hit("\ufeffdef a():\r\n    pass\r\n")), PLAIN, {}))
    assert lines[1:3] == ["     9  def a():", "    10      pass"]


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("retry_limit", "a.py:11:retry_limit = 3"),
        ("where is retryLimit or retry_limit used", "a.py:11:retry_limit = 3"),
        ("where is the limit", "a.py:10:first = 1"),
        ("limit", "a.py:10:first = 1"),
        ("firsts", "a.py:10:first = 1"),
        ("lang:python second_limit", "a.py:12:second_limit = 2"),
    ],
)
def test_editors_go_to_the_name_that_was_asked_for(query: str, line: str) -> None:
    result = hit("\nfirst = 1\nretry_limit = 3\nsecond_limit = 2\n")
    assert list(answers.grep(reply(query, result), {}, "")) == [line]
    number = line.split(":")[1]
    assert editor.goto_command("vi", "a.py", answers.line_to_open(result, query))[1] == f"+{number}"


@pytest.mark.parametrize(
    ("context_before", "after", "where"),
    [
        ("", "", "a.py:9-12"),
        ("a\nb", "c\n", "a.py:7-13 (hit: 9-12)"),
        ("def f():\n…\nb", "", "a.py:8-12 (hit: 9-12)"),
    ],
)
def test_a_language_model_is_told_which_lines_it_sees(
    context_before: str, after: str, where: str
) -> None:
    result = hit("x\n" * 4) | {
        "end_line": 12,
        "context_before": context_before,
        "context_after": after,
    }
    assert list(answers.compact(reply("x", result)))[1] == where
    assert list(answers.compact(reply("x", result) | {"index": None}))[1] == f"a: {where}"


def test_a_late_answer_names_what_it_lacks() -> None:
    late = reply(
        "x", fresh=False, stale_reason="4 changes are not applied yet", pending=["a", "b", "c", "d"]
    )
    assert list(answers.text(late, PLAIN, {}))[-1].endswith(
        "NOT FRESH: 4 changes are not applied yet (a, b, c, …)"
    )


def test_a_store_that_does_not_answer_says_why() -> None:
    index = {
        "name": "a",
        "state": "live",
        "files": -1,
        "chunks": -1,
        "pending": 0,
        "root": "/a",
        "failed": [],
    }
    store = {
        "kind": "embedded",
        "state": "down",
        "reason": "PostgreSQL has not answered for 2 s: look at its disk",
    }
    model = {"provider": "ollama", "state": "down", "reason": "nobody listens", "hint": "start it"}
    daemon = {"version": "1", "pid": 2, "uptime_s": 3.0, "rss_bytes": {}, "worker": {}, "mcp": {}}
    lines = list(
        tables.status(daemon | {"store": store, "embedder": model, "indexes": [index]}, PLAIN)
    )
    assert (
        "store     kind embedded, state down, reason PostgreSQL has not answered for 2 s: look at its disk"
        in lines
    )
    assert "embedder  provider ollama, state down, reason nobody listens, hint start it" in lines
    assert lines[-1].split() == ["a", "live", "?", "?", "?", "0", "/a"]


def test_names_of_files_do_not_drive_the_terminal() -> None:
    name = "a\x1b]0;title\x07\n.py"
    failed = [{"path": name, "error": f"{name} is broken", "tries": 1, "retry_in_s": None}] * 200
    index = {
        "name": "a",
        "state": "live",
        "files": 1,
        "chunks": 1,
        "pending": 0,
        "root": f"/{name}",
    }
    index |= {"reason": f"the first is {name}", "failed": failed, "failed_count": 5000}
    daemon = {
        "version": "1",
        "pid": 2,
        "uptime_s": 3.0,
        "rss_bytes": {},
        "worker": {"error": name},
        "mcp": {},
    }
    daemon |= {"store": {}, "embedder": {}, "warnings": [name], "indexes": [index]}
    late = reply("x", fresh=False, stale_reason=f"the first is {name}", pending=[name])
    lines = [*tables.status(daemon, PLAIN), *answers.text(late, PLAIN, {}), *answers.compact(late)]
    assert not [line for line in lines if not line.isprintable()]
    assert "  … and 4,995 more; `--json` lists 200" in lines


def test_a_word_in_its_other_forms_keeps_the_first_line() -> None:
    result = hit("class SessionInterface:\n    '''The default session interface.'''\n")
    assert list(answers.grep(reply("session", result), {}, "")) == [
        "a.py:9:class SessionInterface:"
    ]


def test_a_result_is_located_by_the_line_to_open_which_its_snippet_shows() -> None:
    code = "\n".join(f"x{row} = {row}" for row in range(30))
    answer = reply("absent", hit(code) | {"line": 29})
    head, *lines = list(answers.text(answer, PLAIN, {}))
    assert head.startswith(" 1. a.py:29")
    rows = [line.split()[0] for line in lines[:12]]
    assert rows == ["9", "…", *map(str, range(28, 38))]
    assert lines[12].strip() == "… 1 more lines"


def test_a_long_text_of_an_explanation_is_shown_whole() -> None:
    reason = f"its directory {'deep/' * 30} is left out by the built-in exclusions"
    lines = list(
        explain_view.outline({"why_not": {"reason": reason, "near": [reason, "b"]}}, 0, PLAIN)
    )
    assert lines == ["why_not:", f"  reason: {reason}", "  near:", f"    1: {reason}", "    2: b"]


@pytest.mark.parametrize(
    ("count", "last_line"), [(1, "a.py  partial"), (1_201, "… and 1,200 more")]
)
def test_counts_end_with_the_number_of_failures_that_are_not_listed(
    count: int, last_line: str
) -> None:
    reply = {
        "index": "a",
        "root": "/a",
        "files": 1,
        "chunks": 1,
        "symbols": 0,
        "size_bytes": 1,
        "last_change": None,
        "embedder": {},
        "skipped": {},
        "fresh": True,
        "languages": {},
        "parse_health": {},
        "failure_count": count,
        "failures": [{"path": "a.py", "status": "partial"}],
    }
    assert list(tables.stats(reply, PLAIN))[-1] == last_line


SYMBOLS = reply(
    "sym:class",
    hit("class Client(Base)")
    | {
        "end_line": 12,
        "symbol_type": "class",
        "symbol_name": "Client",
        "symbol_signature": "class Client(Base)",
        "score": 0.0,
    },
    listing=True,
    cursor="Y3Vyc29y",
    notes=("some are missing",),
)


def test_a_list_of_symbols_has_two_lines_a_symbol() -> None:
    assert list(answers.text(SYMBOLS, PLAIN, {})) == [
        " 1. a.py:9  class Client",
        "    class Client(Base)",
        "note: some are missing",
        "there are more: --cursor Y3Vyc29y",
        "1 of a in 2.0 ms, fresh",
    ]


def test_a_compact_list_of_symbols_has_one_line_a_symbol() -> None:
    lines = list(answers.compact(SYMBOLS))
    assert lines[1:] == [
        "a.py:9-12 class Client class Client(Base)",
        "there are more: cursor Y3Vyc29y",
        "note: some are missing",
    ]


def test_what_a_result_stands_for() -> None:
    entry = {"start_line": 3, "end_line": 4, "symbol_name": "send", "similar_lines": [30, 40]}
    assert answers.format_also([entry, entry | {"similar_lines": []}]) == (
        "3-4 send (alike: 30, 40), 3-4 send"
    )
    files = {"similar": 4, "similar_paths": ["b.py", "c.py", "d.py", "e.py"]}
    assert answers.format_similar(files) == "4 alike: b.py, c.py, d.py, …"
    assert answers.format_similar({"similar_lines": [7, 9], **files}) == (
        "alike in this file: 7, 9; 4 alike: b.py, c.py, d.py, …"
    )
    assert answers.format_similar({}) == ""
    lines = {"frame_lines": [1342, 1220], "counterparts": ["a.h"]}
    assert answers.format_similar(lines) == "belongs with a.h; in the stack trace: 1342, 1220"


def test_a_bundle_shows_code_of_other_places_and_names_the_rest() -> None:
    coded_hit = hit("def f():") | {"end_line": 9, "context_before": "", "context_after": ""}
    entry = {
        "start_line": 30, "end_line": 31, "line": 30, "text": "x = 1", "relevance": 0.2,
        "symbol_name": None, "symbol_signature": "def g():", "content": "x = 1\ny = 2",
    }  # fmt: skip
    listed = entry | {"start_line": 50, "end_line": 51, "symbol_name": "h", "content": ""}
    name_only = coded_hit | {
        "path": "b.py", "content": "", "symbol_name": "k", "symbol_signature": "def k(x):",
        "counterparts": ["b.pyi"],
    }  # fmt: skip
    answer = reply("f", coded_hit | {"also": [entry, listed], "symbol_signature": None}, name_only)
    compact = "\n".join(answers.compact(answer))
    assert "a.py:30-31 def g():\n```python\nx = 1\ny = 2\n```\nalso 50-51 h\n" in compact
    assert "b.py:9-9 def k(x):\nbelongs with b.pyi\n" in compact
    assert list(answers.text(reply("f", name_only), PLAIN, {}))[:3] == [
        " 1. b.py:9   k  1.000 both",
        "    belongs with b.pyi",
        "",
    ]
    assert list(answers.grep(reply("f", name_only), {}, "/")) == ["b.py:9:"]


def test_bytes_that_are_not_utf8_look_like_those_of_results() -> None:
    root = os.fsdecode(b"/srv/caf\xe9\x1b")
    assert output.printable(root, keep="") == "/srv/caf\\xe9\\x1b"
