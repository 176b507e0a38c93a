"""Context of results: its lines, and that a changed file is never shown as current."""

import os
import time
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.config.settings import LARGEST_FILE_BYTES
from cocosearchd.forms.path_forms import path_text
from cocosearchd.languages import definition_ranges, syntax
from cocosearchd.languages.parse import parse
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import Hit, Place, RankedPlace, hash_content
from cocosearchd.search.answers import disk_files as disk_module
from cocosearchd.search.answers.clipped_lines import GAP, clip_line, clip_lines
from cocosearchd.search.answers.context import (
    HitExpander,
    choose_lines,
    fit_budget,
    hit_heading,
)
from cocosearchd.search.answers.disk_files import MAX_TEXTS, VerifiedFiles
from cocosearchd.search.plan import ViewOptions
from cocosearchd.store.reads.file_states import FileState

PYTHON = '''import os

LIMIT = 3


class Repository:
    """Reads users."""

    @property
    @cached
    def name(self):
        return "users"

    def first(self):
        one = 1
        two = 2
        three = 3
        return one + two + three


def last():
    return LIMIT
'''


def hit_of(text: str, part: str, path: str = "a.py") -> Hit:
    """A hit whose chunk is the lines that `part` lies in."""
    start = text.index(part)
    start = text.rfind("\n", 0, start) + 1
    end = text.index(part) + len(part)
    first = text.count("\n", 0, start) + 1
    last = first + text.count("\n", start, end)
    start_byte = len(text[:start].encode())
    end_byte = len(text[:end].encode())
    content = text[start:end]
    return Hit(
        "code",
        path,
        start_byte,
        end_byte,
        first,
        last,
        "python",
        1.0,
        "both",
        "",
        "",
        None,
        None,
        None,
        content,
    )


def indexed(text: str, path: str = "a.py") -> FileState:
    """A file as the index has it."""
    return FileState(
        path,
        hash_content(text.encode()),
        1,
        definition_ranges.pack(parse(path, text.encode()).symbols),
    )


def shown(
    root: Path,
    text: str,
    part: str,
    view: ViewOptions,
    *,
    path: str = "a.py",
    lines: int = 50,
    width: int = 200,
) -> Hit:
    (root / path).write_text(text)
    hit = hit_of(text, part, path)
    expanded = HitExpander(lines, width).expand(bytes(root), (hit,), [indexed(text, path)], view)
    assert expanded.changed_paths == ()
    return expanded.hits[0]


def test_a_match_is_widened_to_its_function(tmp_path: Path) -> None:
    hit = shown(tmp_path, PYTHON, "two = 2", ViewOptions())
    assert hit.context_before == "    def first(self):\n        one = 1"
    assert hit.context_after == "        three = 3\n        return one + two + three"
    assert hit.content == "        two = 2"


@pytest.mark.parametrize("scopes", [None, b""])
def test_without_stored_scopes_nothing_is_parsed(
    tmp_path: Path, scopes: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parser is native code: the process that answers gives nothing to one."""
    monkeypatch.setattr(syntax, "parse_tree", None)
    (tmp_path / "a.py").write_text(PYTHON)
    state = FileState("a.py", hash_content(PYTHON.encode()), 1, scopes)
    (hit,) = (
        HitExpander(50, 200)
        .expand(bytes(tmp_path), (hit_of(PYTHON, "two = 2"),), [state], ViewOptions())
        .hits
    )
    assert (hit.context_before, hit.context_after) == ("", "")


@given(st.integers(0, len(PYTHON)), st.integers(0, len(PYTHON)))
def test_stored_scopes_say_what_parsing_says(a: int, b: int) -> None:
    data = PYTHON.encode()
    (start, end) = sorted((a, b))
    symbols = parse("a.py", data).symbols
    text = data[start:end]
    first = start + len(text) - len(text.lstrip())
    last = end - (len(text) - len(text.rstrip()))
    around = [hit for hit in symbols if hit.start_byte <= first and last <= hit.end_byte]
    smallest = min(around, key=lambda hit: hit.end_byte - hit.start_byte, default=None)
    # one of one line has nothing to show around it
    if smallest is None or smallest.start_line < smallest.end_line:
        parsed = smallest and (smallest.start_line, smallest.end_line)
        assert (
            definition_ranges.enclosing(definition_ranges.pack(symbols), data, start, end) == parsed
        )


def test_the_head_of_a_definition_is_shown_with_what_follows(tmp_path: Path) -> None:
    """A short head shares its chunk with the imports above it."""
    head = PYTHON[: PYTHON.index('    """Reads')].rstrip("\n")
    hit = shown(tmp_path, PYTHON, head, ViewOptions())
    assert hit.content == head
    assert hit.context_before == ""
    assert hit.context_after == PYTHON[len(head) + 1 : PYTHON.index("\n\n\ndef last")]
    few = shown(tmp_path, PYTHON, head, ViewOptions(), lines=8)
    assert few.context_after == '    """Reads users."""\n'
    alone = shown(tmp_path, PYTHON, head, ViewOptions(smart_context=False))
    assert alone.context_after == ""


@pytest.mark.parametrize(
    ("part", "lines"),
    [
        ("LIMIT = 3", None),
        ("import os", None),
        ("class Repository", (6, 18)),
        ("def first", (14, 18)),
    ],
)
def test_the_largest_definition_that_begins_in_a_range(
    part: str, lines: tuple[int, int] | None
) -> None:
    data = PYTHON.encode()
    packed = definition_ranges.pack(parse("a.py", data).symbols)
    start = data.index(part.encode())
    assert definition_ranges.largest_starting(packed, start, start + len(part)) == lines
    assert definition_ranges.largest_starting(packed, 0, len(data)) is None, (
        "all of them end inside"
    )
    assert definition_ranges.largest_starting(packed, 0, data.index(b"one = 1")) == (6, 18)


def test_a_match_outside_of_definitions_stays_as_it_is(tmp_path: Path) -> None:
    hit = shown(tmp_path, PYTHON, "LIMIT = 3", ViewOptions())
    assert (hit.context_before, hit.context_after) == ("", "")


def test_widening_can_be_turned_off(tmp_path: Path) -> None:
    hit = shown(tmp_path, PYTHON, "two = 2", ViewOptions(smart_context=False))
    assert (hit.context_before, hit.context_after) == ("", "")


@pytest.mark.parametrize(
    ("view", "above", "after"),
    [
        (ViewOptions(lines_before=1), ["        one = 1"], []),
        (ViewOptions(lines_after=2), [], ["        three = 3", "        return one + two + three"]),
        (ViewOptions(lines_before=1, lines_after=1), ["        one = 1"], ["        three = 3"]),
        (ViewOptions(lines_before=0, lines_after=0), [], []),
    ],
)
def test_lines_are_given_as_asked(
    tmp_path: Path, view: ViewOptions, above: list[str], after: list[str]
) -> None:
    hit = shown(tmp_path, PYTHON, "two = 2", view)
    assert hit.context_before.splitlines() == above
    assert hit.context_after.splitlines() == after


def test_lines_stop_at_the_ends_of_the_file(tmp_path: Path) -> None:
    hit = shown(tmp_path, PYTHON, "LIMIT = 3", ViewOptions(lines_before=99, lines_after=99))
    assert hit.context_before == "import os\n"
    assert hit.context_after.splitlines()[-1] == "    return LIMIT"


def test_a_long_definition_keeps_its_signature_and_what_is_near(tmp_path: Path) -> None:
    body = "".join(f"    line_{n} = {n}\n" for n in range(200))
    hit = shown(
        tmp_path, f"@decorated\ndef long(a):\n{body}", "line_100 =", ViewOptions(), lines=20
    )
    above = hit.context_before.splitlines()
    after = hit.context_after.splitlines()
    assert above[:3] == ["@decorated", "def long(a):", GAP]
    assert above[-1] == "    line_99 = 99"
    assert after[0] == "    line_101 = 101"
    assert len(above) + 1 + len(after) == 20


def test_a_match_longer_than_the_cap_stays_whole(tmp_path: Path) -> None:
    text = "def f():\n" + "".join(f"    x = {n}\n" for n in range(30)) + "    return x\n"
    part = text[text.index("    x = 2") : text.index("    x = 25")].rstrip("\n")
    hit = shown(tmp_path, text, part, ViewOptions(), lines=10)
    assert hit.content == part
    assert (hit.context_before, hit.context_after) == ("", "")


@settings(max_examples=500)
@given(st.data())
def test_the_cap_holds_and_nothing_is_shown_twice(data: st.DataObject) -> None:
    first = data.draw(st.integers(1, 100))
    start = data.draw(st.integers(first, 200))
    end = data.draw(st.integers(start, 300))
    last = data.draw(st.integers(end, 400))
    cap = data.draw(st.integers(1, 80))
    head = data.draw(st.integers(0, 4))
    parts = choose_lines(start, end, first, last, cap, head)
    ranges = [range(a, b + 1) for a, b in (parts.head, parts.above, (start, end), parts.below)]
    lines = [line for line_range in ranges for line in line_range]
    assert lines == sorted(set(lines))
    assert not lines or (lines[0] >= first and lines[-1] <= last)
    gap = bool(len(ranges[0])) and parts.head[1] + 1 < parts.above[0]
    assert len(lines) + gap <= max(cap, end - start + 1)
    if last - first + 1 <= cap:
        assert lines == list(range(first, last + 1))


def test_lines_are_cut_by_characters(tmp_path: Path) -> None:
    assert clip_line("é" * 10, 10) == "é" * 10
    assert clip_line("é" * 11, 10) == "é" * 7 + "..."
    assert clip_lines("a" * 12 + "\nb", 10) == "aaaaaaa...\nb"
    hit = shown(tmp_path, f"def f():\n    a = '{'ü' * 300}'\n    b = 2\n", "b = 2", ViewOptions())
    assert [len(line) for line in hit.context_before.splitlines()] == [8, 200]


def test_line_ends_of_windows_are_not_shown(tmp_path: Path) -> None:
    text = "def f():\r\n    a = 1\r\n    b = 2\r\n"
    (tmp_path / "a.py").write_bytes(text.encode())
    hit = hit_of(text, "b = 2")
    expanded = HitExpander(50, 200).expand(bytes(tmp_path), (hit,), [indexed(text)], ViewOptions())
    assert expanded.hits[0].context_before == "def f():\n    a = 1"


def test_a_file_that_changed_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(PYTHON + "# more\n")
    hit = hit_of(PYTHON, "two = 2")
    expanded = HitExpander(50, 200).expand(
        bytes(tmp_path), (hit,), [indexed(PYTHON)], ViewOptions()
    )
    assert expanded.changed_paths == ("a.py",)
    assert expanded.hits[0].stale
    assert expanded.hits[0].content == hit.content


def test_hits_that_were_kept_are_expanded_once_while_their_files_are_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "SETTLED_NS", 0)
    file = tmp_path / "a.py"
    file.write_text(PYTHON)
    old(file)
    hits = (hit_of(PYTHON, "two = 2"),)
    state = [indexed(PYTHON)]
    widening = HitExpander(50, 200)
    first = widening.expand(bytes(tmp_path), hits, state, ViewOptions())
    assert widening.expand(bytes(tmp_path), hits, state, ViewOptions()) is first
    assert (
        widening.expand(bytes(tmp_path), hits, state, ViewOptions(0, 0)).hits[0].context_before
        == ""
    )
    doubled = (*hits, *hits)
    assert widening.expand(bytes(tmp_path), doubled, state, ViewOptions()).hits == (
        first.hits[0],
        first.hits[0],
    )
    assert (
        widening.expand(bytes(tmp_path), doubled, state, ViewOptions(), count=1).hits == first.hits
    )
    fitting = widening.expand(bytes(tmp_path), doubled, state, ViewOptions(budget_tokens=20))
    assert fitting.hits == fit_budget(first.hits * 2, None, 20) != first.hits * 2
    assert (
        widening.expand(bytes(tmp_path), doubled, state, ViewOptions(budget_tokens=20)) is fitting
    ), "tokens are counted once"
    file.write_text(PYTHON + "# more\n")
    assert widening.expand(bytes(tmp_path), hits, state, ViewOptions()).changed_paths == ("a.py",)


def test_a_budget_drops_context_first_and_cuts_the_first_hit_only() -> None:
    def hit(content: str, above: str) -> Hit:
        return Hit("i", "a", 0, 1, 1, 1, "", 1.0, "both", "", "", None, None, None, content, above)

    hits = (hit("a" * 10, "b" * 10), hit("c" * 10, "d" * 10), hit("e" * 10, ""))
    assert fit_budget(hits, None) == hits
    assert fit_budget(hits, 50) == hits
    fitting = fit_budget(hits, 32)
    assert [(len(hit.content), len(hit.context_before)) for hit in fitting] == [(10, 10), (10, 0)]
    assert [hit.content for hit in fit_budget(hits, 5)] == ["aa..."]


def test_every_field_of_a_hit_is_kept_when_its_context_is_dropped() -> None:
    """The copy names each field, so that one which is added later may be forgotten."""
    other_place = Place(
        3, 4, 30, 40, "function", "other", "def other()", 0.25, 3, "def other():", (9,)
    )
    hit = Hit(
        index="code", path="a.py", start_byte=10, end_byte=20, start_line=1, end_line=2,
        language="python", score=1.5, match_type="both", block_type="function",
        hierarchy="Loader/run", symbol_type="method", symbol_name="run",
        symbol_signature="def run()", content="def run(): pass", context_before="above",
        context_after="below", signals=(("bm25", 2.0),), stale=True, overlay=True, relevance=0.5,
        line=2, other_places=(other_place,), similar_paths=("b.py",), similar_lines=(7,), symbol_parent="Loader",
        counterparts=("a.pyi",), frame_lines=(7,), compared_places=(RankedPlace(10, 20, 1.0, 0.5),),
    )  # fmt: skip
    defaults = [field for field in fields(Hit) if field.default is not MISSING]
    assert all(getattr(hit, field.name) != field.default for field in defaults)
    (fitting,) = fit_budget((hit,), len(hit.content))
    assert fitting == replace(hit, context_before="", context_after="")
    assert (fitting.signals, fitting.compared_places) == (hit.signals, hit.compared_places)


# --- the disk ---------------------------------------------------------------------------------------------------------


def old(path: Path) -> None:
    """Long enough ago for a fingerprint to prove something, as far as mtime goes."""
    os.utime(path, (time.time() - 100, time.time() - 100))


def test_an_unchanged_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # ctime cannot be set, so the time after which a fingerprint counts is.
    monkeypatch.setattr(disk_module, "SETTLED_NS", 0)
    file = tmp_path / "a.py"
    file.write_text(PYTHON)
    old(file)
    disk = VerifiedFiles()
    expected = hash_content(PYTHON.encode())
    first = disk.verified(bytes(tmp_path), "a.py", expected)
    assert first is not None
    assert disk.verified(bytes(tmp_path), "a.py", expected) is first
    file.write_text("other")
    assert disk.verified(bytes(tmp_path), "a.py", expected) is None
    assert disk.verified(bytes(tmp_path), "a.py", hash_content(b"other")) is not None


def test_what_is_kept_of_a_content_holds_for_the_limits_and_definitions_it_was_made_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "SETTLED_NS", 0)
    (tmp_path / "a.py").write_text(PYTHON)
    old(tmp_path / "a.py")
    disk = VerifiedFiles()
    state = indexed(PYTHON)
    wide = HitExpander(50, 200, disk)
    short = HitExpander(2, 200, disk)
    narrow = HitExpander(50, 12, disk)

    def around(context: HitExpander, file: FileState) -> tuple[str, str]:
        (hit,) = context.expand(
            bytes(tmp_path), (hit_of(PYTHON, "two = 2"),), [file], ViewOptions()
        ).hits
        return hit.context_before, hit.context_after

    above = "    def first(self):\n        one = 1"
    after = "        three = 3\n        return one + two + three"
    assert around(wide, state) == (above, after)
    assert around(short, state) == ("", "        three = 3")
    assert around(narrow, state) == ("    def f...\n        o...", "        t...\n        r...")
    # other queries find other definitions in it
    assert around(wide, state._replace(scopes=b"")) == ("", "")
    assert around(wide, state) == (above, after)


def test_an_edit_within_the_step_of_the_clock_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    disk = VerifiedFiles()
    for text in ("one", "two", "six"):
        file.write_text(text)
        os.utime(file, ns=(10**18, 10**18))  # a tool that restores times
        read = disk.verified(bytes(tmp_path), "a.py", hash_content(text.encode()))
        assert read is not None
        assert read.data == text.encode()


def test_memory_is_bounded(tmp_path: Path) -> None:
    disk = VerifiedFiles()
    for number in range(MAX_TEXTS + 20):
        (tmp_path / f"{number}.py").write_text(str(number))
        assert (
            disk.verified(bytes(tmp_path), f"{number}.py", hash_content(str(number).encode()))
            is not None
        )
    assert len(disk._texts) == MAX_TEXTS


@pytest.mark.parametrize(
    "kind", ["link", "directory link", "parent", "directory", "pipe", "missing", "null"]
)
def test_nothing_outside_of_the_root_and_nothing_strange_is_read(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "root"
    outside = tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a.py").write_text("secret")
    path = "a.py"
    if kind == "link":
        (root / "a.py").symlink_to(outside / "a.py")
    elif kind == "directory link":
        (root / "sub").symlink_to(outside)
        path = "sub/a.py"
    elif kind == "parent":
        path = "../outside/a.py"
    elif kind == "directory":
        (root / "a.py").mkdir()
    elif kind == "pipe":
        os.mkfifo(root / "a.py")
    elif kind == "null":
        path = "a\0.py"
    assert VerifiedFiles().verified(bytes(root), path, hash_content(b"secret")) is None


@pytest.mark.parametrize("link", ["link.py", "folder/real.py"])
def test_links_that_stay_inside_are_not_followed_either(tmp_path: Path, link: str) -> None:
    """No index holds a path through a link: what is behind one now is another file than was
    indexed.
    """
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "real.py").write_text("x")
    (tmp_path / "link.py").symlink_to("src/real.py")
    (tmp_path / "folder").symlink_to("src")
    assert VerifiedFiles().verified(bytes(tmp_path), "src/real.py", hash_content(b"x")) is not None
    assert VerifiedFiles().verified(bytes(tmp_path), link, hash_content(b"x")) is None


def test_a_root_that_has_become_a_link_shows_nothing(tmp_path: Path) -> None:
    """Not even the very files that were indexed, which are elsewhere now."""
    root = tmp_path / "root"
    moved = tmp_path / "moved"
    root.mkdir()
    (root / "a.py").write_text("x")
    os.utime(root / "a.py", (1, 1))
    disk = VerifiedFiles()
    assert disk.verified(bytes(root), "a.py", hash_content(b"x")) is not None
    root.rename(moved)
    root.symlink_to(moved)
    assert disk.verified(bytes(root), "a.py", hash_content(b"x")) is None
    assert not disk.unchanged(bytes(root), "a.py", hash_content(b"x"))


def test_a_sibling_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root2").mkdir()
    (tmp_path / "root2" / "a.py").write_text("x")
    assert (
        VerifiedFiles().verified(bytes(tmp_path / "root"), "../root2/a.py", hash_content(b"x"))
        is None
    )


def test_names_that_are_no_text_are_found(tmp_path: Path) -> None:
    raw = b"caf\xe9\\x.py"
    (tmp_path / os.fsdecode(raw)).write_text("x")
    assert VerifiedFiles().verified(bytes(tmp_path), path_text(raw), hash_content(b"x")) is not None


def test_a_file_that_has_become_huge_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.py").open("wb") as file:
        file.truncate(LARGEST_FILE_BYTES + 1)  # zeros that take no room on the disk
    expected = hash_content(bytes(LARGEST_FILE_BYTES + 1))
    assert VerifiedFiles().verified(bytes(tmp_path), "a.py", expected) is None


@pytest.mark.parametrize(
    ("data", "count"),
    [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n", 1), (b"\n\n", 2), (b"a\r\nb\r\n", 2)],
)
def test_lines_are_counted_as_people_do(tmp_path: Path, data: bytes, count: int) -> None:
    (tmp_path / "a").write_bytes(data)
    text = VerifiedFiles().verified(bytes(tmp_path), "a", hash_content(data))
    assert text is not None
    assert text.line_count == count
    assert text.lines(1, 99) == data.decode().splitlines()
    assert text.lines(count + 1, count + 5) == []


def test_a_budget_of_tokens_is_kept_and_filled(tmp_path: Path) -> None:
    def hit(number: int) -> Hit:
        lines = "\n".join(
            f"    value_{number} = compute(argument_{line}, other=True)" for line in range(20)
        )
        return Hit(
            "i",
            f"src/a{number}.py",
            0,
            1,
            1,
            20,
            "",
            1.0,
            "both",
            "",
            "",
            None,
            f"f{number}",
            None,
            lines,
            lines,
        )

    hits = tuple(hit(number) for number in range(6))
    for budget in (3, 40, 200, 700, 1500, 10_000):
        fitting = fit_budget(hits, None, budget)
        used = sum(
            estimate_tokens(text)
            for hit in fitting
            for text in (hit_heading(hit), hit.content, hit.context_before, hit.context_after)
        )
        assert [hit.path for hit in fitting] == [hit.path for hit in hits[: len(fitting)]]
        assert used <= max(budget, estimate_tokens(hit_heading(hits[0]) + "v..."))
        assert used > 0.6 * budget or len(fitting) == len(hits) or budget < 100
    assert fit_budget(hits, None, 10**6) == hits
    assert fit_budget(hits, None, 40)[0].content.endswith("...")


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("x", 1, 1),
        (
            "def get_user_by_id(self, user_id: int) -> User:\n    return self.rows[user_id]\n",
            20,
            32,
        ),
        ("a" * 600, 40, 90),
        ("日本語のコメントです。設定を読む。", 10, 24),
    ],
)
def test_tokens_are_estimated(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most
