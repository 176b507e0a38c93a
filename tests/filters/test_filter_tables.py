"""The tables of filters: the daemon's, that of the front ends, and the fields they speak of."""

import argparse
from dataclasses import fields
from typing import get_args

import pytest

from cocosearch_ipc.cli.grep_command import MAX_PAGE
from cocosearch_ipc.cli.questions.grep_options import OPTION_GROUPS
from cocosearch_ipc.cli.questions.search_options import (
    PROFILES,
    RERANKERS,
    SEARCH_OPTIONS,
    SYMBOL_KINDS,
    parameters,
)
from cocosearch_ipc.mcp.tools.parameters import (
    MAX_TOOL_FILES,
    MAX_TOOL_RESULTS,
    MAX_TOOL_TOKENS,
)
from cocosearch_ipc.protocol import SearchRequest
from cocosearch_ipc.rpc import shapes
from cocosearch_ipc.workspace_protocol import GREP_MAX_LIMIT, GrepRequest
from cocosearchd.config.settings import MAX_RESULTS, Profile, RerankerName
from cocosearchd.errors import InvalidInput
from cocosearchd.filters.filter_fields import FILE_FIELDS, FILTER_FIELDS, Filter, make_filter
from cocosearchd.filters.filter_values import SYMBOL_TYPES
from cocosearchd.filters.inline_filters import FIELDS_BY_KEY
from cocosearchd.search.request_limits import MAX_BUDGET, MAX_LISTED_FILES

REQUEST_FIELDS = {field.name for field in fields(SearchRequest)}


def test_every_filter_has_a_row() -> None:
    assert [field.name for field in fields(Filter)] == [row.name for row in FILTER_FIELDS]
    assert {row.exclusion for row in FILTER_FIELDS} - {None} <= {row.name for row in FILTER_FIELDS}


def test_a_filter_has_a_request_field_and_an_option() -> None:
    requested = {row.name for row in FILTER_FIELDS if not row.is_quoted}
    assert requested <= REQUEST_FIELDS
    parameters = {name for option in SEARCH_OPTIONS for name in option.parameters}
    assert requested <= parameters <= REQUEST_FIELDS


def test_grep_takes_the_filters_on_files() -> None:
    names = {row.name for row in FILE_FIELDS}
    options = {name for group in OPTION_GROUPS.values() for row in group for name in row.parameters}
    assert names <= {field.name for field in fields(GrepRequest)}
    assert names <= options


def test_filters_by_path_may_hold_any_bytes() -> None:
    """Paths are no UTF-8 on some systems: requests decode the fields that hold them."""
    assert {row.name for row in FILTER_FIELDS if row.takes_root} <= shapes._FILE_NAMES


def test_the_command_line_asks_grep_for_full_pages() -> None:
    assert MAX_PAGE == GREP_MAX_LIMIT


def test_tools_ask_for_no_more_than_the_daemon_gives() -> None:
    assert MAX_TOOL_RESULTS <= MAX_RESULTS
    assert MAX_TOOL_FILES <= MAX_LISTED_FILES
    assert MAX_TOOL_TOKENS <= MAX_BUDGET


def test_front_ends_repeat_the_words_of_the_daemon() -> None:
    assert tuple(sorted(SYMBOL_TYPES)) == SYMBOL_KINDS
    assert get_args(RerankerName) == RERANKERS
    assert get_args(Profile) == PROFILES


def test_front_ends_offer_the_inline_keys_that_the_daemon_reads() -> None:
    exclusions = {
        f"-{key}": row.exclusion
        for row in FILTER_FIELDS
        for key in row.inline_keys
        if row.exclusion is not None
    }
    offered = {
        key: parameter
        for option in SEARCH_OPTIONS
        for key in option.inline_keys
        for parameter in option.parameters
    }
    assert offered == FIELDS_BY_KEY | exclusions


def test_a_list_has_an_option_that_may_be_repeated() -> None:
    options = {name: option for option in SEARCH_OPTIONS for name in option.parameters}
    for row in FILTER_FIELDS:
        if not row.is_quoted:
            assert options[row.name].is_list is not row.is_single, row.name


def test_languages_and_kinds_may_be_lists_with_commas() -> None:
    lists = make_filter({"languages": ["go, rust", "py"], "symbol_types": ["method,interface"]})
    assert lists == make_filter(
        {"languages": ["go", "rust", "py"], "symbol_types": ["method", "interface"]}
    )
    assert make_filter({"paths": ["a,b.py"]}).paths == ("a,b.py",)
    for commas in (",", "", "go,nolanguage"):
        with pytest.raises(InvalidInput, match="unknown language"):
            make_filter({"languages": [commas]})


@pytest.mark.parametrize(
    ("flags", "params"),
    [
        ([], {}),
        (["--hybrid"], {"use_hybrid": True}),
        (["--no-hybrid"], {"use_hybrid": False}),
        (["--hybrid", "--no-hybrid"], {"use_hybrid": False}),
        (["--lang", "go,rust", "--lang", "py"], {"languages": ["go,rust", "py"]}),
    ],
)
def test_flags_become_parameters(flags: list[str], params: dict[str, object]) -> None:
    parser = argparse.ArgumentParser()
    for option in SEARCH_OPTIONS:
        option.add_to(parser)
    assert parameters(parser.parse_args(flags), SEARCH_OPTIONS) == params
