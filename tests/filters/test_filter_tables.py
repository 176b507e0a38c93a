"""The tables of filters: the daemon's, that of the front ends, and the fields they speak of."""

from dataclasses import fields

from cocosearch_ipc.cli.questions.search_options import SEARCH_OPTIONS
from cocosearch_ipc.protocol import SearchRequest
from cocosearchd.filters.filter_fields import FILTER_FIELDS, Filter
from cocosearchd.filters.inline_filters import FIELDS_BY_KEY

REQUEST_FIELDS = {field.name for field in fields(SearchRequest)}


def test_every_filter_has_a_row() -> None:
    assert [field.name for field in fields(Filter)] == [row.name for row in FILTER_FIELDS]
    assert {row.exclusion for row in FILTER_FIELDS} - {None} <= {row.name for row in FILTER_FIELDS}


def test_a_filter_has_a_request_field_and_an_option() -> None:
    requested = {row.name for row in FILTER_FIELDS if not row.is_quoted}
    assert requested <= REQUEST_FIELDS
    parameters = {name for option in SEARCH_OPTIONS for name in option.parameters}
    assert requested <= parameters <= REQUEST_FIELDS


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
