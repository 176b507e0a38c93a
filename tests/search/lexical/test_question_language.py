"""The language of a question: by function words and scripts, and none where it may be English."""

import pytest

from cocosearchd.search.lexical.analysis.question_language import MAX_CHARACTERS, question_languages


@pytest.mark.parametrize(
    ("question", "languages"),
    [
        ("wie funktionieren Webhooks", "de"),
        ("Wo wird der Cookie signiert?", "de"),
        ("o\u00f9 sont document\u00e9s les webhooks", "fr"),
        ("\u00bfd\u00f3nde se documentan los webhooks?", "es"),
        ("onde documentar webhooks com FastAPI", "pt"),
        ("como usar webhooks", "es pt"),
        ("dove viene chiamato il callback, e perch\u00e9", "it"),
        ("hoe wordt een verzoek verstuurd", "nl"),
        ("gdzie jest obs\u0142uga b\u0142\u0119d\u00f3w", "pl"),
        ("oturum nerede a\u00e7\u0131l\u0131r", "tr"),
        ("\u30a6\u30a7\u30d6\u30d5\u30c3\u30af \u4f7f\u7528 FastAPI", "ja"),
        ("\u5982\u4f55\u4f7f\u7528 webhooks", "zh"),
        ("\uc6f9\ud6c5 \ubb38\uc11c\ud654", "ko"),
        ("\u0433\u0434\u0435 \u0432\u0435\u0431\u0445\u0443\u043a\u0438", "bg ru sr uk"),
        ("\u0434\u0435 \u0454 \u0432\u0435\u0431\u0445\u0443\u043a", "uk"),
        ("\u0432\u0456\u0434\u043f\u043e\u0432\u0456\u0434\u044c", "uk"),
    ],
)
def test_questions_in_other_languages(question: str, languages: str) -> None:
    assert question_languages(question) == set(languages.split())


@pytest.mark.parametrize(
    "question",
    [
        "",
        "where are webhooks",
        "webhooks",
        "load_settings",
        "how is the string '\u00fcber' encoded",
        "what does \u65e5\u672c mean",
        "die on the first error",
        "read the com object of example.com",
        "def como(): pass where is it used",
    ],
)
def test_what_may_be_english_has_no_other_language(question: str) -> None:
    assert question_languages(question) == frozenset()


def test_only_the_beginning_of_a_report_counts() -> None:
    assert question_languages("x " * MAX_CHARACTERS + "wie wird das gemacht") == frozenset()
