"""Values of expressions as far as they are known: modules, definitions, and objects of types."""

from typing import Literal, NamedTuple

from cocosearchd.graph.code_files import DefinitionKey

ValueKind = Literal["module", "definition", "instance", "foreign", "unknown"]


class WrittenType(NamedTuple):
    """A type as it is written, and the position of the symbol in whose body its names are looked up."""

    text: str
    path: str
    position: int


class Value(NamedTuple):
    """The value of an expression.

    A module has `paths`; a "definition" is a class, function or constant itself; an "instance" is
    an object of one of the classes `definitions`. "foreign" comes from outside of the index.
    """

    kind: ValueKind
    definitions: tuple[DefinitionKey, ...] = ()
    reason: str = "same_file"  # code of `reasons`: how the definitions were found
    paths: tuple[str, ...] = ()
    # of generic containers: the types in brackets
    arguments: tuple[WrittenType, ...] = ()
    # the classes of the object whose member this is: the meaning of `Self` and `this`
    owners: tuple[DefinitionKey, ...] = ()
    # some step was a guess
    is_inferred: bool = False
    # of a member: what a variable holds, which has no definition of its own
    is_content: bool = False

    @property
    def is_usable(self) -> bool:
        """Return True if the value can have members that the index defines."""
        return self.kind not in ("foreign", "unknown")

    def because(self, reason: str) -> "Value":
        """Return the same value with another reason."""
        return self if reason == self.reason else self._replace(reason=reason)


UNKNOWN = Value("unknown", reason="unresolved")
FOREIGN = Value("foreign", reason="foreign")


def merge(values: list[Value]) -> Value:
    """Return the value that may be any of some values."""
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
