"""Terms of texts and queries"""

import unicodedata
from collections import Counter

import pytest

from cocosearchd.languages.identifiers import split_parts
from cocosearchd.search.lexical.analysis.terms import TermCache, term_hash


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("HTTPServer2", ("httpserver2", "http", "server", "2")),
        ("snake_case", ("snake_case", "snake", "case")),
        ("getUserById", ("getuserbyid", "get", "user", "by", "id")),
        ("x", ("x",)),
        ("generations", ("generat",)),
        ("_private", ("privat",)),
        ("__", ()),
        ("_load_settings", ("load_settings", "load", "set")),
        ("straße", ("straße",)),
        ("日本語", ("日本", "本語")),
        ("税", ("税",)),
        ("пароль", ("пароль",)),
    ],
)
def test_terms_of_a_word(word: str, expected: tuple[str, ...]) -> None:
    assert TermCache().split_word(word) == expected


def test_a_run_of_chinese_is_a_word_of_its_own() -> None:
    assert TermCache().split_text("使用getUserById方法") == [
        *("使用", "getuserbyid", "get", "user", "by", "id", "方法")
    ]


def test_counts_words_parts_and_runs_of_digits() -> None:
    counts = Counter(TermCache().split_text("route routes RouteGroup 42 7 café"))
    assert counts["rout"] == 3
    assert counts["routegroup"] == 1
    assert counts["42"] == 1
    assert "7" not in counts  # a lone digit says nothing
    assert counts["cafe"] == 1  # accents are dropped


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("// 根据订单编号查询订单详情", "查询订单"),
        ("ユーザーのパスワードを確認する", "パスワード"),
        ("ユーザーのパスワードを確認する", "ﾊﾟｽﾜｰﾄﾞ"),  # half as wide
        ("사용자 비밀번호를 확인합니다", "비밀번호"),
        ("データベース", unicodedata.normalize("NFD", "データベース")),
    ],
)
def test_text_written_without_blanks_is_found_by_a_part(text: str, part: str) -> None:
    terms = TermCache()
    query = {term for term, _ in terms.make_query_terms(part).terms}
    assert len(query) > 2
    assert query <= {term_hash(term) for term in terms.split_text(text)}


def test_parts_of_an_abbreviation() -> None:
    assert split_parts("parseHTTPResponse") == ("parse", "http", "response")


def test_stop_words_are_dropped_from_queries_unless_nothing_is_left() -> None:
    terms = TermCache()
    assert [term for term, _ in terms.make_query_terms("how is a route found").terms] == [
        term_hash("rout"),
        term_hash("found"),
    ]
    assert len(terms.make_query_terms("what is it").terms) == 3
    assert terms.make_query_terms("").terms == ()


def test_the_language_of_all_code_is_a_stop_word_of_a_sentence() -> None:
    terms = TermCache()
    names = ("python", "py")
    assert [term for term, _ in terms.make_query_terms("python mkdir", common=names).terms] == [
        term_hash("mkdir")
    ]
    assert [term for term, _ in terms.make_query_terms("python", common=names).terms] == [
        term_hash("python")
    ]
    assert [term for term, _ in terms.make_query_terms("how is python", common=names).terms] == [
        term_hash("how"),
        term_hash("is"),
        term_hash("python"),
    ]


def test_a_word_asked_twice_counts_twice() -> None:
    assert (
        dict(TermCache().make_query_terms("session session key").terms)[term_hash("session")] == 2.0
    )


def test_a_word_of_the_project_counts_less_in_a_sentence() -> None:
    query = TermCache().make_query_terms("how flask handles sessions", "flask")
    assert dict(query.terms)[term_hash("flask")] == pytest.approx(0.3)
    assert dict(query.terms)[term_hash("session")] == 1.0
    assert dict(zip(query.words, query.shares, strict=True)) == {
        "flask": 0.5,
        "handles": 1.0,
        "sessions": 1.0,
    }
    # a symbol is meant
    assert dict(TermCache().make_query_terms("Flask", "flask").terms) == {term_hash("flask"): 1.0}


@pytest.mark.parametrize(
    ("query", "is_name", "identifiers"),
    [
        ("Router", True, ("Router",)),
        ("std::fs::File", True, ("std::fs::File", "File")),
        ("  user.save() ", True, ("user.save", "save")),
        ("how does getUserById work", False, ("getUserById",)),
        ("use snake_case in HTTPServer with JSON", False, ("snake_case", "HTTPServer")),
        ("plain words only", False, ()),
    ],
)
def test_identifiers_of_a_query(query: str, is_name: bool, identifiers: tuple[str, ...]) -> None:
    parsed = TermCache().make_query_terms(query)
    assert parsed.is_name is is_name
    assert parsed.identifiers == identifiers


def test_words_are_distinct_parts_without_single_letters() -> None:
    assert TermCache().make_query_terms("parse parse a RouteGroup x").words == (
        "parse",
        "route",
        "group",
    )
