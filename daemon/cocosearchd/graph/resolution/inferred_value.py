"""Inferred values of expressions: modules, definitions, and objects of types."""

from typing import Literal, NamedTuple

from cocosearchd.graph.code_files import DefinitionKey

ValueKind = Literal["module", "definition", "instance", "foreign", "unknown"]


class WrittenType(NamedTuple):
    """A type as written in code, and the symbol in whose body its names are looked up."""

    text: str
    path: str
    position: int


class Value(NamedTuple):
    """The value of an expression, by kind.

    A "module" has `paths`. A "definition" is a class, function or constant itself. An "instance" is
    an object of one of the classes in `definitions`. "foreign" is a value from outside of the
    index.
    """

    kind: ValueKind
    definitions: tuple[DefinitionKey, ...] = ()
    reason: str = "same_file"  # code in `reasons`: how the definitions were found
    paths: tuple[str, ...] = ()
    # the type arguments of a generic container
    arguments: tuple[WrittenType, ...] = ()
    # for a member: the classes of its object, which `Self` and `this` mean
    owners: tuple[DefinitionKey, ...] = ()
    # True if a step of the inference was a guess
    is_inferred: bool = False
    # for a member: True if the value is the content of a variable, which has no definition of its
    # own
    is_content: bool = False

    @property
    def is_usable(self) -> bool:
        """True if the value can have members that the index defines."""
        return self.kind not in ("foreign", "unknown")

    def because(self, reason: str) -> "Value":
        """Return the same value with another reason."""
        return self if reason == self.reason else self._replace(reason=reason)


UNKNOWN = Value("unknown", reason="unresolved")
FOREIGN = Value("foreign", reason="foreign")


def merge(values: list[Value]) -> Value:
    """Combine alternative values into one value."""
    usable = [value for value in values if value.is_usable]
    if not usable:
        return FOREIGN if values and all(v.kind == "foreign" for v in values) else UNKNOWN
    return _merge_usable(usable)


def _merge_usable(usable: list[Value]) -> Value:
    first = usable[0]
    alike = [value for value in usable if value.kind == first.kind]
    return first._replace(
        definitions=tuple(dict.fromkeys(key for value in alike for key in value.definitions)),
        paths=tuple(dict.fromkeys(path for value in alike for path in value.paths)),
        is_inferred=any(value.is_inferred for value in alike),
    )
