"""Records of structured logs: their messages and traces count, the fields around them do not."""

import json

import pytest

from cocosearchd.search.reports.json_logs import read_record
from cocosearchd.search.reports.report import read_report

FIELDS = {
    "timestamp": "2026-11-20T10:11:12Z",
    "level": "error",
    "user_agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Safari/537.36",
    "url": "/basket/payment.json",
}


def record_text(**fields: object) -> str:
    return json.dumps(FIELDS | fields)


@pytest.mark.parametrize("prefix", ["", "web_1  | ", "2026-11-20T10:11:12Z stderr F "])
@pytest.mark.parametrize(
    "fields",
    [
        {"message": "cannot open the store"},
        {"msg": "cannot open the store", "labels": ["a b c", 1, None]},
        {"error": {"type": "StoreError", "message": "cannot open the store"}},
        {"error.message": "cannot open the store"},
        {"@Message": "cannot open the store"},
        {"errors": [{"code": 7, "detail": "cannot open the store"}]},
    ],
)
def test_the_message_of_a_record_is_read(prefix: str, fields: dict[str, object]) -> None:
    record = read_record(prefix + record_text(**fields))
    assert record is not None
    assert (record.messages, record.traces) == (("cannot open the store",), ())


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}",
        "it fails",
        "if (a) { return b; }",
        '{"msg": "cannot open the store"',
        '{"user_agent": "one two three four", "msg": "failed"}',
        '{"caller": "store/open.go:12", "msg": "failed"}',
        '{"msg": ' + "9" * 10_000 + "}",
        '{"msg": ' + "[" * 100_000 + "}",
        " " * 300 + '{"msg": "cannot open the store"}',
    ],
)
def test_other_lines_are_no_records(line: str) -> None:
    assert read_record(line) is None


def test_characters_that_no_question_may_have_are_replaced_in_messages() -> None:
    """JSON can write a NUL and half a character, which neither PostgreSQL nor an embedder takes."""
    record = read_record('{"msg": "cannot open\\u0000the \\ud83d store \\ud83d\\ude00"}')
    assert record is not None
    assert record.messages == ("cannot open the ? store \U0001f600",)


def test_a_trace_in_a_record_has_frames() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "shop/pay.py", line 9, in pay\nKeyError: 1\n'
    )
    text = record_text(message="job 7 has failed", error={"stack_trace": trace}, caller="a/b.go:3")
    report = read_report(text)
    assert [(frame.path, frame.line) for frame in report.mentions.frames] == [
        ("shop/pay.py", 9),
        ("a/b.go", 3),
    ]
    assert report.is_trace


@pytest.mark.parametrize("form", ["{}", "It fails:\n```\n{}\n```\n", "```json\n{}\n{}\n```"])
def test_the_fields_around_a_message_do_not_count(form: str) -> None:
    report = read_report(form.replace("{}", record_text(message="cannot open the store")))
    assert "cannot open the store" in report.messages
    assert report.mentions.paths["prose"] == report.mentions.paths["output"] == []
    names = {name for group in report.mentions.names.values() for name in group}
    assert {"cannot", "open", "the", "store"} <= names
    assert not names & {"basket", "payment", "AppleWebKit"}
