"""Flattens the parameters of a tool: each group of parameters is replaced by its fields."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any


class ParameterGroup:
    """Base class of groups: dataclasses with fields that several tools take as parameters."""

    __slots__ = ()


def flatten_groups(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return a function that takes the fields of groups as parameters, for the schema of a tool."""
    signature = inspect.signature(function)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, type)
        and issubclass(parameter.annotation, ParameterGroup)
    }
    if not groups:
        return function

    async def call(**arguments: Any) -> Any:
        for name, group in groups.items():
            values = {field.name: arguments.pop(field.name) for field in fields(group)}
            arguments[name] = group(**values)
        return await function(**arguments)

    flat = [
        single
        for name, parameter in signature.parameters.items()
        for single in (_fields_of(groups[name]) if name in groups else [parameter])
    ]
    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    call.__module__ = function.__module__
    call.__annotations__ = {single.name: single.annotation for single in flat} | {
        "return": signature.return_annotation
    }
    by_name = [single.replace(kind=inspect.Parameter.KEYWORD_ONLY) for single in flat]
    vars(call)["__signature__"] = signature.replace(parameters=by_name)
    return call


def _fields_of(group: Any) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=field.type,
        )
        for field in fields(group)
    ]
