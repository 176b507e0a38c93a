"""Long runs of comments are blanked where a grammar needs quadratic time for them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.languages.parse import parse
from cocosearchd.languages.patterns.comment_runs import LAST_LINES, LONG_RUN, blank_comment_runs

CODE = b"def first():\n    return 1\n%sdef last():\n    return 2\n"
COMMENT = b"    # nothing is decided here\n"


def blanked_lines(data: bytes) -> list[int]:
    """Return the numbers of the lines that became blanks, from 1."""
    pairs = zip(data.split(b"\n"), blank_comment_runs("python", data).split(b"\n"), strict=True)
    return [number for number, (line, other_line) in enumerate(pairs, 1) if line != other_line]


def test_the_middle_of_a_long_run_is_blanked() -> None:
    count = LONG_RUN + 1
    assert blanked_lines(CODE % (COMMENT * count)) == list(range(3, 3 + count - LAST_LINES))
    assert blanked_lines(CODE % (COMMENT * LONG_RUN)) == []
    data = CODE % (COMMENT * count)
    assert blank_comment_runs("ruby", data) == data


@given(
    st.lists(st.sampled_from([b"# c", b"", b"  #\tc", b"x = 1", b'# """', b"# c\\"]), max_size=9)
)
def test_positions_and_code_stay(lines: list[bytes]) -> None:
    data = b"\n".join(line for line in lines for _ in range(60))
    blanked = blank_comment_runs("python", data)
    assert len(blanked) == len(data)
    for line, blanked_line in zip(data.split(b"\n"), blanked.split(b"\n"), strict=True):
        is_comment = line.lstrip().startswith(b"#")
        assert line == blanked_line or (is_comment and blanked_line.isspace())


@pytest.mark.parametrize("opening", [b'text = """\n', b"text = 'a\\\n"])
def test_a_string_with_such_lines_ends_where_it_ended(opening: bytes) -> None:
    closing = b'# """\n' if b'"""' in opening else b"# '\n"
    lines = b"# a heading\n" if b'"""' in opening else b"# a heading\\\n"
    data = opening + lines * 300 + closing + b"def last():\n    return 2\n"
    parsed = parse("a.py", data)
    assert [(symbol.name, symbol.start_line) for symbol in parsed.symbols][-1] == ("last", 303)
    assert parsed.report.status == "ok"


def test_long_runs_take_time_in_proportion() -> None:
    """Four times the comments take about four times the CPU time."""

    def seconds(count: int) -> float:
        best = 10.0
        for _ in range(3):
            began = time.thread_time()
            parsed = parse("a.py", CODE % (COMMENT * count))
            best = min(best, time.thread_time() - began)
            assert [symbol.name for symbol in parsed.symbols] == ["first", "last"]
        return best

    assert seconds(8000) < 8 * seconds(2000) + 0.05
