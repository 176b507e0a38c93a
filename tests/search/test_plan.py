"""Plans of requests, from their text and parameters."""

from dataclasses import fields, replace
from typing import Any

import pytest

from cocosearch_ipc.protocol import SearchRequest
from cocosearchd.config.settings import SearchSettings
from cocosearchd.errors import InvalidInput
from cocosearchd.filters.filter_fields import Filter
from cocosearchd.search.listing.list_cursor import ListCursor, ListPosition
from cocosearchd.search.plan import (
    QUERY_OPTIONS,
    Plan,
    RankingOptions,
    ViewOptions,
    digest,
    has_identifier_pattern,
    make_plan,
    paraphrase_key,
    parse_query,
)
from cocosearchd.search.reports.report import read_report

SETTINGS = SearchSettings()


def plan_of(text: str, **parameters: object) -> Plan:
    return make_plan(parse_query(text, **parameters), SETTINGS)


@pytest.mark.parametrize(
    ("text", "is_identifier"),
    [
        ("getUserById", True),
        ("find getUserById please", True),
        ("UserRepository", True),
        ("user_repository", True),
        ("Http", False),
        ("HTTP", False),
        ("find database connection", False),
        ("_ private", False),
        ("a-b", False),
    ],
)
def test_identifier_patterns(text: str, is_identifier: bool) -> None:
    assert has_identifier_pattern(text) is is_identifier


@pytest.mark.parametrize(
    ("profile", "use_hybrid", "text", "uses_keywords"),
    [
        ("classic", None, "find database connection", False),
        ("classic", None, "find getUserById", True),
        ("classic", True, "find database connection", True),
        ("classic", False, "find getUserById", False),
        ("code", None, "find database connection", True),
        ("code", True, "find", True),
        ("code", False, "find getUserById", False),
    ],
)
def test_when_words_are_searched(
    profile: str, use_hybrid: bool | None, text: str, uses_keywords: bool
) -> None:
    assert plan_of(text, profile=profile, use_hybrid=use_hybrid).uses_keywords is uses_keywords


@pytest.mark.parametrize(("limit", "depth"), [(1, 2), (10, 20), (50, 100), (80, 100)])
def test_classic_takes_twice_the_limit_up_to_a_hundred(limit: int, depth: int) -> None:
    assert plan_of("x", profile="classic", limit=limit).depth == depth


def test_a_reranker_gets_eight_candidates_for_each_result() -> None:
    assert plan_of("x", profile="classic", limit=10, reranker="functional").depth == 80


@pytest.mark.parametrize(
    ("requested", "means"),
    [
        ("terraform", "hcl"),
        ("shell", "bash"),
        ("sh", "bash"),
        ("Python", "python"),
        ("c#", "csharp"),
    ],
)
def test_languages_have_aliases(requested: str, means: str) -> None:
    assert means in plan_of("x", languages=(requested,)).where.languages


def test_filters_come_from_text_and_parameters_alike() -> None:
    inline = plan_of("x lang:go path:src/** -path:./vendor sym:class name:User*")
    requested = plan_of(
        "x",
        languages=("go",),
        paths=("src/**",),
        not_paths=("./vendor",),
        symbol_types=("class",),
        symbol_name="User*",
    )
    assert inline == requested
    where = inline.where
    assert where == Filter(("go",), ("src/**",), ("/vendor",), where.symbol_types, "User*")
    assert "class" in where.symbol_types


def test_the_order_of_alternatives_means_nothing() -> None:
    assert plan_of("x lang:go lang:rust") == plan_of("x", languages=("rust", "go", "go"))


@pytest.mark.parametrize(
    ("parameters", "hint"),
    [
        ({"languages": ("pyton",)}, "python"),
        ({"symbol_types": ("func",)}, "function"),
        ({"symbol_types": ("klass",)}, "class"),
        ({"profile": "clasic"}, "classic"),
        ({"reranker": "spacey"}, "spacy"),
        ({"limit": 0}, "1 to 200"),
        ({"limit": 201}, "1 to 200"),
        ({"min_relevance": 1.5}, "0 to 1"),
        ({"min_relevance": -0.1}, "0 to 1"),
        ({"paths": ("./",)}, "path:"),
        ({"symbol_types": ("containerStart",)}, "constructor? name:containerStart is for a name"),
        ({"symbol_types": ("xyzzyQ",)}, "; name:xyzzyQ is for a name"),
    ],
)
def test_a_wrong_value_names_the_nearest_valid_one(
    parameters: dict[str, object], hint: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        plan_of("x", **parameters)
    assert hint in caught.value.hint


def test_a_documented_symbol_type_stands_for_its_like() -> None:
    assert "struct" in plan_of("x sym:class").where.symbol_types
    assert "trait" in plan_of("x sym:interface").where.symbol_types
    assert plan_of("x sym:struct").where.symbol_types == ("struct",)


def test_two_symbol_names_are_refused() -> None:
    with pytest.raises(InvalidInput, match="more than one"):
        plan_of("x name:a name:b")


def test_no_words_and_a_symbol_filter_list_symbols() -> None:
    plan = plan_of("sym:class lang:go")
    assert plan.listing
    assert not plan.uses_keywords


@pytest.mark.parametrize("text", ["", "   ", "lang:go", "path:src"])
def test_no_words_and_no_symbol_filter_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="empty"):
        plan_of(text)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"limit": 3}, True),
        ({"profile": "classic"}, False),
        ({"reranker": "functional"}, False),
        ({"all_chunks": True}, False),
        ({"min_relevance": 0.1}, False),
        ({"min_evidence": 0.1}, False),
        ({"phrases": ["a phrase"]}, False),
    ],
)
def test_history_orders_long_questions_whose_places_nothing_else_chooses(
    options: dict[str, Any], expected: bool
) -> None:
    report = "The cookie is lost\n" + "After a redirect it is not sent.\n" * 20
    assert make_plan(parse_query(report, **options), SearchSettings()).uses_history is expected
    assert not make_plan(parse_query("lost cookie", **options), SearchSettings()).uses_history


def test_the_digest_differs_with_every_field() -> None:
    plan = plan_of("x")
    cursor = ListCursor("a", ListPosition(False, False, "a.py", 0, "b"), 1)
    other_plan = Plan(
        "y",
        Filter(("go",)),
        "classic",
        11,
        12,
        False,
        ("a",),
        "auto",
        0.5,
        True,
        True,
        True,
        "d",
        0.5,
        False,
        cursor=cursor,
        report=read_report("a report"),
        uses_history=True,
    )
    for field in fields(Plan):
        changed = replace(plan, **{field.name: getattr(other_plan, field.name)})
        assert digest(changed) != digest(plan), field.name
    for field in fields(Filter):
        value: object = "u" if field.name == "symbol_name" else ("u",)
        where = replace(plan.where, **{field.name: value})  # type: ignore[arg-type]
        assert digest(replace(plan, where=where)) != digest(plan), field.name


def test_kindred_questions_share_all_but_the_forms_and_order_of_words() -> None:
    assert paraphrase_key(plan_of("read a file")) == paraphrase_key(plan_of("reading the file"))
    assert paraphrase_key(plan_of("read a file")) != paraphrase_key(plan_of("read a file lang:go"))
    assert paraphrase_key(plan_of("call getUserById")) != paraphrase_key(
        plan_of("call getUserByName")
    )
    assert paraphrase_key(plan_of("how is a file read")) == paraphrase_key(
        plan_of("where are files read")
    )
    assert paraphrase_key(plan_of("read a file")) != paraphrase_key(plan_of("read a socket"))
    assert paraphrase_key(plan_of("what is this")) != paraphrase_key(plan_of("who was that"))


def test_display_options_are_checked() -> None:
    with pytest.raises(InvalidInput):
        parse_query("x", lines_before=-1)
    with pytest.raises(InvalidInput):
        parse_query("x", budget_chars=0)


def test_a_question_has_bounds() -> None:
    longest = ("word " * 40_000).strip()
    assert plan_of(longest + "b").report is not None
    with pytest.raises(InvalidInput, match="the question has 200,001 characters") as refused:
        plan_of(longest + "bc")
    assert "200,000" in refused.value.hint
    globs = tuple(f"src/{number}/**" for number in range(200))
    assert len(plan_of("a", paths=globs[:100], not_paths=globs[100:]).where.not_paths) == 100
    for text, beside in (
        ("path:x a", {"paths": globs}),
        ('"a b"', {"not_paths": globs}),
        ("sym:class", {"paths": globs}),
    ):
        with pytest.raises(InvalidInput, match="there are 201 filters") as refused:
            plan_of(text, **beside)
        assert "200" in refused.value.hint
    assert plan_of("a", symbol_name="b" * 4096).where.symbol_name
    with pytest.raises(InvalidInput, match="a filter has 4,097 characters"):
        plan_of("a", symbol_name="b" * 4097)


@pytest.mark.parametrize(
    "text",
    [
        'it fails\n  File "src/parse.py", line 3, in read\nKeyError: "name"',
        'text = "(2*x)/(x-1)"\nexpr = kernS(text)',
        'a "quoted word" in a report\nof "two\nand more" lines',
    ],
)
def test_quotation_marks_in_a_short_report_filter_nothing(text: str) -> None:
    plan = plan_of(text)
    assert plan.report == read_report(text)
    assert plan.where == Filter()


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ('"one\ntwo"', ("one\ntwo",)),
        ('"one\ntwo" three', ("one\ntwo",)),
        ('lang:go "a phrase"\nthe rest', ("a phrase",)),
    ],
)
def test_phrases_and_filters_of_several_lines(text: str, phrases: tuple[str, ...]) -> None:
    plan = plan_of(text)
    assert plan.report is None
    assert plan.where.phrases == phrases


def test_requests_have_every_option_with_the_same_default() -> None:
    request = SearchRequest("x")
    query = parse_query("x", **{name: getattr(request, name) for name in QUERY_OPTIONS})
    assert query == parse_query("x")
    groups = [option.name for group in (RankingOptions, ViewOptions) for option in fields(group)]
    assert len(set(QUERY_OPTIONS)) == len(QUERY_OPTIONS)
    assert set(groups) < set(QUERY_OPTIONS)


def test_an_option_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(TypeError, match="limits"):
        parse_query("x", limits=3)
