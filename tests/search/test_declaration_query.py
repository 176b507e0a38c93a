"""Questions that are declarations of code, and sentences that only begin like one."""

import pytest

from cocosearchd.config.settings import SearchSettings
from cocosearchd.languages.patterns import definition_rules
from cocosearchd.languages.patterns.definitions import KEYWORDS
from cocosearchd.search import declaration_query
from cocosearchd.search.declaration_query import declared_name
from cocosearchd.search.plan import make_plan, parse_query


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("type Daemon struct", "Daemon"),
        ("type Daemon struct {", "Daemon"),
        ("struct Daemon", "Daemon"),
        ("class Loader(Base):", "Loader"),
        ("class Loader < Base", "Loader"),
        ("class Loader extends Base {", "Loader"),
        ("class Loader : public Base {", "Loader"),
        ("export default class Loader", "Loader"),
        ("module ActiveSupport::Callbacks", "ActiveSupport::Callbacks"),
        ("def save!", "save!"),
        ("def start(self)", "start"),
        ("def start():", "start"),
        ("pub fn new()", "new"),
        ("func main", "main"),
        ("var errNoSwarm", "errNoSwarm"),
        ("struct page {", "page"),
    ],
)
def test_a_declaration_is_its_name(text: str, name: str) -> None:
    assert declared_name(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Daemon",
        "class loader",
        "type conversion",
        "type error?",
        "function call",
        "object storage",
        "let me see",
        "what class is it",
        "struct page",
        "type of container",
        "interface between Daemon and client",
        "def start(self, timeout)",
        "func (daemon *Daemon) Start(",
        "impl Display for Daemon",
    ],
)
def test_queries_that_are_no_declaration_stay_unchanged(text: str) -> None:
    assert declared_name(text) is None


def test_classic_keeps_the_words() -> None:
    query = parse_query("type Daemon struct lang:go")
    plan = make_plan(query, SearchSettings())
    assert (plan.text, plan.identifiers) == ("Daemon", ("Daemon",))
    assert make_plan(query, SearchSettings(profile="classic")).text == "type Daemon struct"


def test_the_keywords_are_those_of_definitions_in_code() -> None:
    keywords = {
        *declaration_query.BODY_KEYWORDS.split(),
        *declaration_query.OTHER_KEYWORDS.split(),
    }
    assert keywords <= set(KEYWORDS)
    assert keywords.issuperset(declaration_query.UNAMBIGUOUS_KEYWORDS.split())
    modifiers = {"pub", *definition_rules.MODIFIERS.split()}
    assert modifiers.issuperset(declaration_query.MODIFIERS.split())
