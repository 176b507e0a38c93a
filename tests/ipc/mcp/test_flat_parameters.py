"""Groups of parameters: flat for the client, one value for the tool."""

import inspect
from dataclasses import dataclass

import pytest

from cocosearch_ipc.mcp.tools.flat_parameters import ParameterGroup, flatten_groups

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(ParameterGroup):
    depth: int = 2
    name: str | None = None


async def show(target: str, options: Options, page: int = 1) -> tuple[str, Options, int]:
    """Show a target."""
    return target, options, page


async def test_a_group_is_given_as_one_value() -> None:
    flat = flatten_groups(show)
    assert await flat(target="a", depth=3, name="b", page=4) == (
        "a",
        Options(depth=3, name="b"),
        4,
    )


def test_the_signature_has_the_fields_of_a_group() -> None:
    flat = flatten_groups(show)
    signature = inspect.signature(flat)
    assert list(signature.parameters) == ["target", "depth", "name", "page"]
    assert signature.parameters["depth"].default == 2
    assert inspect.get_annotations(flat)["name"] == str | None
    assert (flat.__name__, flat.__doc__) == ("show", "Show a target.")


def test_a_function_without_groups_stays_as_it_is() -> None:
    async def plain(target: str) -> str:
        return target

    assert flatten_groups(plain) is plain
