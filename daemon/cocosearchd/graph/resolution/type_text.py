"""Parses written types into type names. Pure, linear in the text."""

import re
from functools import lru_cache
from typing import NamedTuple

from cocosearchd.graph.resolution.expression import MAX_TEXT, find_closing

# Alternatives of one type that are returned.
MAX_ALTERNATIVES = 8
# Nested wrappers that are removed.
_MAX_WRAPPERS = 8

# Generic types that are replaced by their first argument, because readers mean its members.
_WRAPPER_NAMES = (
    "Optional Promise PromiseLike Awaitable Annotated ClassVar Final Required NotRequired ReadOnly "
    "Readonly Partial NonNullable Awaited NoInfer Omit Pick Rc Arc Box RefCell Mutex RwLock Pin Cow "
    "shared_ptr unique_ptr weak_ptr Future Ref Union Option Result Nullable Lazy"
)
_WRAPPERS = frozenset(_WRAPPER_NAMES.split())
_LAST_WRAPPERS = frozenset({"Coroutine"})  # replaced by their last argument
_CLASS_WRAPPERS = frozenset({"type", "Type"})  # the class itself, not an instance
_NOTHING = frozenset({"None", "null", "undefined", "void", "never", "Any", "any", "unknown", ""})
_PREFIX = re.compile(
    r"(?:const|readonly|final|mut|dyn|impl|struct|class|enum|typename|volatile|static|abstract"
    r"|unique|infer|in|out|ref|new)\s+|[*&]+\s*(?:'\w+\s+)?|'\w+\s+|:\s*|\|\s*"
)
_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::|\\)[^\W\d][\w$]*)*")
_LIFETIME = re.compile(r"(?<=[<&])'\w+\s*,?\s*")
_QUALIFIER = re.compile(r"\.|::|\\")


class TypeName(NamedTuple):
    """A named type: `a.B[C]` has the name "a.B" and the argument "C".

    `is_class` means that the value is the type itself. `is_value` means that the name belongs to a
    value with this type (`typeof x`).
    """

    name: str
    arguments: tuple[str, ...] = ()
    is_class: bool = False
    is_value: bool = False


@lru_cache(4096)
def parse_type(text: str) -> tuple[TypeName, ...]:
    """Return the alternatives of a written type, without wrappers such as `Optional`."""
    alternatives: list[TypeName] = []
    waiting = [(text, _MAX_WRAPPERS, False)] if len(text) <= MAX_TEXT else []
    while waiting and len(alternatives) < MAX_ALTERNATIVES:
        part, depth, is_class = waiting.pop(0)
        parts = split_type(_strip(part), "|&")
        if len(parts) > 1:
            waiting[:0] = [(item, depth - 1, is_class) for item in parts] if depth else []
            continue
        name = _parse_single(parts[0])
        if name is None:
            continue
        last_part = _QUALIFIER.split(name.name)[-1]
        inner = _unwrap(last_part, name.arguments)
        if inner and depth:
            is_class = is_class or last_part in _CLASS_WRAPPERS
            waiting[:0] = [(item, depth - 1, is_class) for item in inner]
        elif last_part not in _NOTHING:
            alternatives.append(name._replace(is_class=is_class))
    return tuple(alternatives)


def _unwrap(name: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    if name == "Union":
        return arguments
    if name in _WRAPPERS or name in _CLASS_WRAPPERS:
        return arguments[:1]
    return arguments[-1:] if name in _LAST_WRAPPERS else ()


def _strip(text: str) -> str:
    text = _LIFETIME.sub("", text.strip()).strip("\"'").strip()
    while match := _PREFIX.match(text):
        text = text[match.end() :]
    while text.startswith("(") and find_closing(text, 0) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _array_element(text: str) -> str | None:
    """Return the type of the elements of `T[]` or `[]T`; None for another type."""
    opening = text.rfind("[")
    if text.endswith("]") and not text[opening + 1 : -1].strip():
        return text[:opening].rstrip()
    closing = text.find("]")
    if text.startswith("[") and closing > 0 and not text[1:closing].strip():
        return text[closing + 1 :]
    return None


def _parse_single(text: str) -> TypeName | None:
    element = _array_element(text)
    if element is not None:
        return TypeName("Array", (element,))
    is_value = text.startswith("typeof ")
    text = text.removeprefix("typeof ").rstrip("?!*& ")
    name = _NAME.match(text)
    if name is None:
        return None
    rest = text[name.end() :].strip().removesuffix("<>")
    if not rest:
        return TypeName(name[0], is_value=is_value)
    if rest[0] not in "[<" or find_closing(rest, 0) != len(rest) - 1:
        return None
    return TypeName(name[0], tuple(split_type(rest[1:-1], ",")))


def split_type(text: str, separators: str) -> list[str]:
    """Split a type at separators outside of brackets. Never empty."""
    parts: list[str] = []
    depth = start = 0
    for position, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}" or (char == ">" and text[position - 1 : position] not in ("=", "-")):
            depth -= 1
        elif char in separators and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return parts
