"""Parts of long questions: text of the author, output of programs, and texts of templates."""

import time

import pytest

from cocosearchd.search.reports.mentions import find_mentions
from cocosearchd.search.reports.question_parts import split_question

REPORT = """\
Session drops cookies after a redirect

<!-- Please search existing issues
before you open one. -->
### Describe the bug
When `Session.send` follows a redirect, the cookies of the jar are lost.

```python
session = requests.Session()
session.get("http://example.org")
```

**Actual results**
```pytb
Traceback (most recent call last):
  File "/home/me/app.py", line 3, in <module>
    session.get(url)
  File "/usr/lib/python3/site-packages/requests/sessions.py", line 546, in get
    return self.request("GET", url)
KeyError: 'cookies'
```

### Environment
- OS: Linux
requests 2.31.0
"""


def kinds(text: str) -> list[tuple[str, str]]:
    return [(part.kind, part.text) for part in split_question(text)]


def test_a_report_is_split_by_who_wrote_what() -> None:
    parts = kinds(REPORT)
    assert parts[0] == ("title", "Session drops cookies after a redirect")
    assert ("heading", "Describe the bug") in parts
    assert ("inline_code", "Session.send") in parts
    by_kind = dict(parts)
    assert by_kind["code"].startswith("session = requests.Session()")
    assert "KeyError" in by_kind["output"]
    assert [text for kind, text in parts if kind == "environment"] == [
        "- OS: Linux",
        "requests 2.31.0",
    ]
    assert not any("search existing issues" in text for _, text in parts)


def test_lines_keep_their_numbers() -> None:
    lines = REPORT.splitlines()
    for part in split_question(REPORT):
        assert part.text.splitlines()[0] in lines[part.line - 1].replace("`", "")


@pytest.mark.parametrize(
    "line",
    [
        "    (my_app 0.1.0) lib/my_app/worker.ex:12: MyApp.Worker.run/1",
        "flask 2.0.1 src/flask/app.py:12: in run",
        "node 18.1.0 src/app.js:12:3 failed",
    ],
)
def test_a_frame_with_a_version_is_output(line: str) -> None:
    assert kinds(f"It stops\n{line}\n")[1] == ("output", line)
    assert kinds(f"It stops\n```\n{line}\n```\n")[1] == ("output", line)
    mentions = find_mentions(split_question(f"It stops\n{line}\n"))
    assert [frame.line for frame in mentions.frames] == [12]


@pytest.mark.parametrize("word", ["line", "Zeile", "ligne", "行"])
def test_a_frame_of_csharp_is_output_in_any_language(word: str) -> None:
    line = f"   at App.Store.Save(String path) in /_/src/Store.cs:{word} 12"
    assert kinds(f"It stops\n{line}\n")[1] == ("output", line)


def test_repeated_parts_count_once() -> None:
    parts = kinds("broken save\nIt fails.\nIt fails.\n")
    assert parts == [("title", "broken save"), ("prose", "It fails.")]


def test_an_open_block_ends_with_the_text() -> None:
    assert kinds("broken\n```\nx = f()\n") == [("title", "broken"), ("code", "x = f()")]


@pytest.mark.parametrize(
    ("text", "path", "line", "function"),
    [
        ('  File "src/app/store.py", line 12, in save', "src/app/store.py", 12, "save"),
        ("tests/test_store.py:31: AssertionError", "tests/test_store.py", 31, ""),
        ("    at save (/srv/app/store.js:12:7)", "/srv/app/store.js", 12, "save"),
        ("    at save (file:///srv/app/store.js:12:7)", "///srv/app/store.js", 12, "save"),
        ("\tat org.app.Store.save(Store.java:44)", "Store.java", 44, "save"),
        ("\tat org.app.Store.save(Unknown Source)", "", 0, "save"),
        ("[ERROR] /srv/app/Store.java:[44,17] cannot find symbol", "/srv/app/Store.java", 44, ""),
        ("\t/go/src/app/store.go:12 +0x1d", "/go/src/app/store.go", 12, ""),
        ("org/app.(*Store).Save(0x1)\n\t/go/app/store.go:12", "/go/app/store.go", 12, "Save"),
        ("  at src/store.rs:9:5", "src/store.rs", 9, ""),
        ("   2: app::Store<T>::save\n     at ./src/store.rs:9:5", "./src/store.rs", 9, "save"),
        ("src/store.cc:12:3: error: no member named 'x'", "src/store.cc", 12, ""),
        ("store.cc(12,3): error C2065: 'x'", "store.cc", 12, ""),
        ("#1  0x0f in app::Store::save (this=0x1) at ../store.cc:12", "../store.cc", 12, "save"),
        ("#1  0x0f in app::(anonymous namespace)::F::put (a=1) at b.cc:12", "b.cc", 12, "put"),
        ("   at App.Store.Save() in C:\\app\\Store.cs:line 12", "/app/Store.cs", 12, "Save"),
        ("   at App.Store..ctor(String path)", "", 0, "Store"),
        ("store.rb:12:in `save'", "store.rb", 12, "save"),
        ("#0 /srv/app/store.php(12): Store->save()", "/srv/app/store.php", 12, ""),
        ("  thrown in /srv/app/store.php on line 12", "/srv/app/store.php", 12, ""),
    ],
)
def test_frames_of_many_languages(text: str, path: str, line: int, function: str) -> None:
    frames = find_mentions(split_question(f"it fails\n```\n{text}\n```")).frames
    assert [(frame.path, frame.line, frame.function) for frame in frames] == [
        (path, line, function)
    ]


def test_the_innermost_frame_comes_first() -> None:
    frames = find_mentions(split_question(REPORT)).frames
    assert [frame.line for frame in frames] == [546, 3]
    java = "it fails\n```\n\tat a.B.c(B.java:1)\n\tat a.D.e(D.java:2)\n```"
    assert [frame.line for frame in find_mentions(split_question(java)).frames] == [1, 2]


def test_the_innermost_frame_comes_first_without_a_block_too() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n'
        '  File "b.py", line 2, in g\n    raise KeyError\nKeyError\n'
    )
    for text in (trace, f"It fails\n\n{trace}\nand nobody knows why\n"):
        frames = find_mentions(split_question(text)).frames
        assert [frame.path for frame in frames] == ["b.py", "a.py"]


def test_lines_of_a_checker_stay_in_their_order_beside_a_trace() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n'
        '  File "b.py", line 2, in g\n    raise KeyError\nKeyError\n'
    )
    mypy = "c.py:3: error: Missing return statement  [return]\nd.py:4: note: Use a type\n"
    flake8 = "c.py:3:80: E501 line too long\nd.py:4:1: F401 'os' imported but unused\n"
    pytest_lines = "a.py:1: in test\n    g()\nb.py:2: KeyError\n"
    for checked in (mypy, flake8):
        for text, expected in (
            (checked, ["c.py", "d.py"]),
            (f"{checked}{trace}", ["c.py", "d.py", "b.py", "a.py"]),
            (f"{trace}\n{checked}", ["b.py", "a.py", "c.py", "d.py"]),
            (f"{pytest_lines}\n{checked}", ["b.py", "a.py", "c.py", "d.py"]),
        ):
            frames = find_mentions(split_question(f"It fails\n\n{text}")).frames
            assert [frame.path for frame in frames] == expected


def test_a_call_is_no_frame() -> None:
    text = "it fails\n```\nstore.save(item)\nat once\n1: first\n```\nat the end (see below)\n"
    assert find_mentions(split_question(text)).frames == []


def test_a_local_address_is_a_path() -> None:
    mentions = find_mentions(split_question("it fails\nat file:///srv/app/lib/store.js:12:7\n"))
    assert mentions.paths["output"] == ["srv/app/lib/store.js"]


def test_paths_and_dotted_names_are_mentions_of_their_parts() -> None:
    mentions = find_mentions(
        split_question(
            "pkg.core.Engine fails\nsee src/core/engine.py::test_it and https://example.org/"
            "a/b/blob/main/lib/x.py#L3, not https://example.org/docs/y.py\n"
        )
    )
    assert mentions.dotted["title"] == [("pkg", "core", "Engine")]
    assert mentions.paths["prose"] == ["lib/x.py", "src/core/engine.py"]


@pytest.mark.parametrize(
    "text",
    [
        *(" " * 200_000, "a" * 200_000, "a." * 100_000, "#" * 200_000, "<p " * 66_000),
        *("`" * 200_000, "a/" * 100_000, "x:1\n" * 50_000, "a.py:1:" * 28_000, "- " * 100_000),
        *("a(" * 100_000, "1." * 100_000, "<!--" * 50_000, '  File "a' * 20_000),
        *("**a" * 60_000, "\n```" * 50_000, "  at a:" * 28_000, "[ x" * 60_000),
        *(
            "#1 fix " * 28_000,
            "\nfix #1 and #2 a" * 12_000,
            "\n" + "a.b/" * 50_000,
            "your " * 40_000,
        ),
        *("   at a" * 28_000, "   at a(" * 25_000, "a/" * 100_000 + ".b(", "\n 1: a::" * 25_000),
        *("\na/b.c(" * 28_000, "a.b(1,1" * 28_000, "<a" * 100_000, "\n#1 a (" * 28_000),
        *(
            "  at a:b 1" * 20_000,
            "close a/a" * 22_000,
            "\n- https://a/issues/" * 10_000,
            "\nsee GH-1 GH-" * 15_000,
        ),
    ],
)
def test_hostile_texts_take_time_in_proportion(text: str) -> None:
    """Half of a text takes about half of the time: CPU time, with room for one slow start."""

    def seconds(size: int) -> float:
        best = 10.0
        for _ in range(3):
            began = time.thread_time()
            find_mentions(split_question(f"title\n{text[:size]}"))
            best = min(best, time.thread_time() - began)
        return best

    assert seconds(len(text)) < 8 * seconds(len(text) // 4) + 0.05


def test_headings_of_templates_of_changes_are_no_words_of_the_author() -> None:
    parts = kinds(
        "Save twice\n### Before submitting the PR, please make sure\n- [x] run the tests\n"
        "### Tests and linting\n### Keys of the store\n"
    )
    assert parts == [
        ("title", "Save twice"),
        ("heading", "Before submitting the PR, please make sure"),
        ("environment", "- [x] run the tests"),
        ("heading", "Tests and linting"),
        ("prose", "Keys of the store"),
    ]


CHANGE = """\
## Widget 5 rewrite

Closes #12643, fixes owner/widget#7 and https://github.com/owner/widget/issues/8.

The setter of `draggable` sets true for "false".

Please note that our code is being rewritten. Changes should target the default branch (`main`).
If your PR concerns Widget 4, please use `widget-4`.

- [x] Prefix your title with `feat:`.
"""


def test_the_form_of_a_change_is_not_what_it_is_about() -> None:
    parts = kinds(CHANGE)
    by_kind = [(kind, text) for kind, text in parts if kind != "environment"]
    assert by_kind == [
        ("prose", "Widget 5 rewrite"),
        ("inline_code", "draggable"),
        ("title", 'The setter of draggable sets true for "false".'),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "#12",
        "fixes #1",
        "- Closes: #12 and #13.",
        "See also GH-4, GH-5",
        "Resolves owner/name#3",
        "Relates to https://gitlab.com/owner/name/issues/14",
        "close #1, fix #2",
    ],
)
def test_a_line_of_references_is_no_prose(line: str) -> None:
    assert kinds(f"A title\n{line}\nIt breaks.") == [
        ("title", "A title"),
        ("environment", line),
        ("prose", "It breaks."),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Fixes the crash of #12",
        "https://github.com/owner/name/blob/main/src/a.py#L4",
        "fix:",
        "Not sure when we regressed from #7785",
        "see the docs",
        "...",
    ],
)
def test_a_line_with_more_than_references_is_read(line: str) -> None:
    assert ("environment", line) not in kinds(f"A title\n{line}\nIt breaks.")


def test_a_heading_is_the_title_where_nothing_else_is() -> None:
    assert kinds("## It breaks\n```\nx = 1\n```")[0] == ("title", "It breaks")
    assert kinds("# It breaks\nAlways.")[0] == ("title", "It breaks")
