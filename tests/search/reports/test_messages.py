"""Messages that reports quote."""

from cocosearchd.search.reports.messages import MAX_MESSAGES, find_messages
from cocosearchd.search.reports.question_parts import split_question


def messages(text: str) -> tuple[str, ...]:
    return find_messages(split_question(text))


def test_errors_and_quotations_are_messages() -> None:
    text = (
        'It says "no such table is here" when saving\n```\nTraceback (most recent call last):\n'
        "pkg.errors.StoreError: cannot open the store\nE   assert broken save is not None\n```\n"
    )
    assert messages(text) == ("no such table is here", "cannot open the store")


def test_messages_of_other_languages() -> None:
    text = (
        "it fails\n```\nthread 'main' panicked at: index out of bounds\n"
        "fatal: not a git repository\nerror: expected `;` before the brace\n```\n"
    )
    assert messages(text) == (
        "index out of bounds",
        "not a git repository",
        "expected `;` before the brace",
    )


def test_names_and_versions_are_no_messages() -> None:
    assert messages('It fails\n`Basket.add` and "basket"\n### Versions\nE: one two three\n') == ()


def test_there_are_few_messages_of_both_ends() -> None:
    lines = "\n".join(f"ValueError: message number {number}" for number in range(100))
    ends = messages(f"it fails\n```\n{lines}\n```\n")
    assert len(ends) == MAX_MESSAGES
    assert ends[0] == "message number 0"
    assert ends[-1] == "message number 99"
