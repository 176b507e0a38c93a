"""Answers of `impact` and `changes` fit into a budget of tokens, with tests and confidences."""

import json

import pytest

from cocosearch_ipc import structure_protocol as s
from cocosearch_ipc.render import output
from cocosearch_ipc.render.graph import structure_text
from cocosearch_ipc.rpc import shapes
from cocosearchd.api.verbs import change_impact
from cocosearchd.graph.code_files import DefinitionKey
from cocosearchd.graph.questions.impact import AffectedDefinition, Impact, UseLocation
from cocosearchd.languages.patterns.token_estimate import estimate_tokens
from cocosearchd.model import Symbol

PLAIN = output.Style(colour=False, links=False)


def make_affected(number: int, *, is_test: bool) -> AffectedDefinition:
    folder = "tests/unit" if is_test else "src/package"
    return AffectedDefinition(
        key=DefinitionKey(f"{folder}/test_module_{number}.py", 0),
        symbol=Symbol(
            kind="method",
            name="handle_request",
            qualified_name=f"Service{number}.handle_request",
            signature="def handle_request(self)",
            parent=f"Service{number}",
            start_byte=100,
            end_byte=200,
            start_line=10,
            end_line=20,
        ),
        language="python",
        distance=1 + number // 50,
        confidence="possible",
        reason="name_only",
        via_name=f"Client{number}.retry",
        use_location=UseLocation(number + 1, 8),
        is_test=is_test,
    )


@pytest.mark.parametrize("budget", [400, 1500, 8000])
def test_an_answer_about_impact_fits_into_its_budget(budget: int) -> None:
    affected = tuple(make_affected(number, is_test=number % 2 == 1) for number in range(300))
    request = s.ImpactRequest("retry", budget_tokens=budget, limit=1000)
    fields = change_impact._affected_fields(
        request, Impact(affected, complete=True), offset=0, generation=7
    )
    reply = s.ImpactReply(
        index="shop", fresh=True, stale_reason=None, as_of=None, complete=True, **fields
    )
    values = json.loads(shapes.to_json(reply))
    text = "\n".join(structure_text.impact(values, PLAIN))
    assert budget // 2 < estimate_tokens(text) <= budget
    assert reply.test_files
    assert reply.affected
    assert reply.total_test_files == 150


def test_without_a_budget_all_is_listed_up_to_the_limit() -> None:
    affected = tuple(make_affected(number, is_test=True) for number in range(30))
    request = s.ImpactRequest("retry", limit=20)
    fields = change_impact._affected_fields(
        request, Impact(affected, complete=True), offset=0, generation=7
    )
    assert (len(fields["affected"]), len(fields["test_files"]), fields["cursor"]) == (
        20,
        30,
        "[20, 7]",
    )
