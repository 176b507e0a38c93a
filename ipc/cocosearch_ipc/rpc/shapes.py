"""Decodes requests from JSON, encodes replies, and derives the JSON Schema of both.

All shapes come from the dataclasses of `protocol`. Everything from outside passes through `decode`.
It checks types, names, NUL characters and Unicode, and its error names the wrong parameter. So the
engine's methods need no such checks.
"""

import functools
import json
import math
import types
import typing
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal

from cocosearch_ipc.error_codes import INVALID_PARAMS
from cocosearch_ipc.failure import Failure
from cocosearch_ipc.rpc.client_names import find_nearest, quote_name

T = typing.TypeVar("T")

# These parameters are file names, which may contain bytes that are not UTF-8: Python's lone
# surrogates U+DC80..U+DCFF (PEP 383).
_FILE_NAMES = {"path", "paths", "not_paths", "under", "pattern", "why_not", "cwd", "root", "target"}
# Only these parameters may be as long as a body.
_LONG_TEXTS = {"query", "text"}
# Characters of any other text. Errors quote it, and compare it with valid names. A path has at most
# 4,096 bytes, of up to four characters where they are escaped; a cursor holds one in base64.
MAX_TEXT = 32_768
MAX_ITEMS = 10_000  # of a list: decoding 230,000 takes half a second
MAX_WHOLE = 2**53 - 1  # the largest integer that all JSON parsers read exactly
_JSON_NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
_SCHEMA_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def decode(kind: type[T], params: object) -> T:
    """Convert `params`, an object or a list by position, to a `kind`.

    Raises `Failure` (INVALID_PARAMS).
    """
    hashable: Any = kind  # the caches need a hashable type
    names = [field.name for field in _fields(hashable)]
    values = _name_parameters(params, names)
    for name in values:
        if name not in names:
            raise _unknown_parameter_error(name, names)
    for name in _required_fields(hashable):
        if name not in values:
            raise _invalid_error(f"parameter {name!r} is missing", "")
    annotations = _annotations(hashable)
    return kind(**{name: _value(annotations[name], value, name) for name, value in values.items()})


def _name_parameters(params: object, names: list[str]) -> Mapping[str, object]:
    """Return parameters by name; those of a list have the order of `names`."""
    if isinstance(params, list):
        if len(params) > len(names):
            message = f"{len(params)} parameters are too many"
            raise _invalid_error(message, f"valid parameters: {_join_names(names)}")
        return dict(zip(names, params, strict=False))
    if not isinstance(params, Mapping):
        raise _invalid_error("params is neither an object nor a list", 'write {"name": value}')
    return params


def _unknown_parameter_error(name: str, names: list[str]) -> Failure:
    near = find_nearest(name, names)
    hint = f"did you mean {near!r}?" if near else f"valid parameters: {_join_names(names)}"
    return _invalid_error(f"unknown parameter {quote_name(name)}", hint)


def to_json(value: object) -> bytes:
    """Encode dataclasses, mappings, sequences and scalars as ASCII JSON.

    Raises ValueError for infinite numbers and NaN.
    """
    return json.dumps(value, default=plain, separators=(",", ":"), allow_nan=False).encode("ascii")


def plain(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as a dictionary, one level deep, for `json.dumps`."""
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} has no JSON form")
    kind: Any = type(value)
    return {field.name: getattr(value, field.name) for field in _fields(kind)}


def schema(annotation: Any) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an annotation; nested dataclasses are inlined."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if annotation in _SCHEMA_NAMES:
        return {"type": _SCHEMA_NAMES[annotation]}
    if annotation is types.NoneType:
        return {"type": "null"}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [schema(argument) for argument in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": schema(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(arguments[1])}
    if is_dataclass(annotation):
        return _object_schema(typing.cast(type, annotation))
    return {}


def _object_schema(kind: type) -> dict[str, Any]:
    annotations = _annotations(kind)
    properties = {}
    for field in _fields(kind):
        properties[field.name] = schema(annotations[field.name])
        if field.default is not MISSING:
            properties[field.name]["default"] = field.default
    described: dict[str, Any] = {"type": "object", "title": kind.__name__, "properties": properties}
    required = list(_required_fields(kind))
    return described | ({"required": required} if required else {})


@functools.cache
def _fields(kind: Hashable) -> tuple[Field[Any], ...]:
    return fields(typing.cast(Any, kind))


@functools.cache
def _required_fields(kind: Hashable) -> tuple[str, ...]:
    """Return the names of the fields without a default."""
    return tuple(
        field.name
        for field in _fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    )


@functools.cache
def _annotations(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _value(annotation: Any, value: object, name: str) -> Any:
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        inner = [argument for argument in arguments if argument is not types.NoneType]
        return None if value is None else _value(inner[0], value, name)
    if origin is Literal:
        return _choice(arguments, value, name)
    if origin is tuple:
        return tuple(_value(arguments[0], item, name) for item in _list(value, name))
    if is_dataclass(annotation):
        return decode(typing.cast(type, annotation), value)
    if dict in (origin, annotation):
        return _object(value, name)
    return _scalar(annotation, value, name)


def _choice(choices: tuple[Any, ...], value: object, name: str) -> object:
    if value not in choices:
        value_text = quote_name(value) if isinstance(value, str) else _short(value)
        raise _invalid_error(
            f"{name} is {value_text}", f"use one of {', '.join(map(repr, choices))}"
        )
    return value


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise _invalid_error(f"{name} is not a list", 'write ["a", "b"]')
    if len(value) > MAX_ITEMS:
        raise _invalid_error(f"{name} has {len(value):,} items", f"send at most {MAX_ITEMS:,}")
    return value


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid_error(f"{name} is not an object", "")
    return value


def _scalar(annotation: Any, value: object, name: str) -> Any:
    if (isinstance(value, int) and abs(value) > MAX_WHOLE) or value in (math.inf, -math.inf):
        raise _invalid_error(f"{name} is out of range", f"the largest number is {MAX_WHOLE}")
    if annotation is float and type(value) is int:
        return float(value)
    if annotation not in _JSON_NAMES or type(value) is not annotation:
        expected = _JSON_NAMES.get(annotation, "something else")
        raise _invalid_error(f"{name} must be {expected}, not {_short(value)}", "")
    if isinstance(value, str):
        _check_text(value, name)
    return value


def _check_text(value: str, name: str) -> None:
    if len(value) > MAX_TEXT and name not in _LONG_TEXTS:
        raise _invalid_error(f"{name} has {len(value):,} characters", f"send at most {MAX_TEXT:,}")
    if "\0" in value:
        raise _invalid_error(f"{name} contains a NUL character", "remove it")
    if not value.isascii():
        try:
            value.encode("utf-8", "surrogateescape" if name in _FILE_NAMES else "strict")
        except UnicodeEncodeError:
            raise _invalid_error(
                f"{name} is not valid Unicode (a lone surrogate)", "send UTF-8"
            ) from None


def _short(value: object) -> str:
    try:
        text = json.dumps(value, default=str)
    except RecursionError:  # it goes deeper than the parser
        return "a value that is nested too deeply"
    return text if len(text) <= 40 else text[:37] + "..."


def _join_names(names: typing.Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _invalid_error(message: str, hint: str) -> Failure:
    return Failure(message, hint, code=INVALID_PARAMS)
