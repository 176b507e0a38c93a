"""Filters of questions, and the table of their fields. One row defines a whole field. Pure.

Inline syntax, checks, SQL, masks, overlays and explanations are derived from the rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

from cocosearchd.filters.conditions import (
    FileCondition,
    PhraseCondition,
    Restriction,
    SymbolCondition,
    any_path_regex,
    membership_matcher,
)
from cocosearchd.filters.filter_values import (
    language_ids,
    path_globs,
    single_name,
    sort_unique,
    symbol_kinds,
)
from cocosearchd.filters.globs import path_matcher
from cocosearchd.forms.path_forms import path_text


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on hits, applied before any fusion. Empty tuples do not restrict.

    Each field has its row in `FILTER_FIELDS`.
    """

    languages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()  # globs over the relative path; one must match
    not_paths: tuple[str, ...] = ()
    symbol_types: tuple[str, ...] = ()
    symbol_name: str | None = None  # case-insensitive glob over the qualified and the last name
    # Each must occur in the chunk, in one of its `spellings`, without regard to case.
    phrases: tuple[str, ...] = ()

    @property
    def has_symbols(self) -> bool:
        """True if the filter restricts the symbols of chunks."""
        return bool(self.symbol_types or self.symbol_name)


@dataclass(frozen=True, slots=True)
class FilterField:
    """A field of `Filter` and of search requests.

    `label` is the name that people read. `stored_values` converts written values to their stored
    form, and raises `InvalidInput`. In a question, `key:value` gives a value to the field with that
    inline key. `-key:value`, or a value that begins with `!`, gives the value to the field named
    `exclusion`.
    """

    name: str
    label: str
    stored_values: Callable[[Iterable[str]], tuple[str, ...]]
    inline_keys: tuple[str, ...] = ()
    exclusion: str | None = None
    splits_commas: bool = False  # a value may be a list: `lang:go,rust`
    is_single: bool = False  # at most one value, None without
    is_quoted: bool = False  # written in quotes; requests have no such field
    takes_root: bool = False  # a value may begin with the absolute path of the root
    # None if the field is a condition on chunks, see `chunk_conditions`
    file_condition: FileCondition | None = None
    # For people: the end of "no file …" when no file passes, with `{values}` and `{root}`. With ""
    # the field alone explains nothing.
    no_file_reason: str = ""
    # The source of the number of matching files, before a search: PostgreSQL's estimate, a count in
    # the files table, or none. By this number the search is exact or approximate.
    match_count: Literal["estimated", "counted", "unknown"] = "unknown"

    def values(self, where: Filter) -> tuple[str, ...]:
        """Return the values of this field in a filter, or () if the field does not restrict."""
        value = getattr(where, self.name)
        if self.is_single:
            return (value,) if value else ()
        return tuple(value)

    def to_list(self, value: Any) -> list[str]:
        """Return the values of a request's field."""
        if self.is_single:
            return [value] if value else []
        return list(value or ())

    def split(self, written: Iterable[str]) -> list[str]:
        """Return the single values of lists with commas. A text of commas only stays one value."""
        if not self.splits_commas:
            return list(written)
        return [
            part.strip()
            for value in written
            for part in (list(filter(str.strip, value.split(","))) or [value])
        ]

    def argument(self, values: tuple[str, ...]) -> dict[str, Any]:
        """Return the keyword argument of `Filter` for stored values, or {} without values."""
        return {self.name: values[0] if self.is_single else values} if values else {}


FILTER_FIELDS = (
    FilterField(
        "languages",
        "language",
        language_ids,
        inline_keys=("lang", "language"),
        splits_commas=True,
        file_condition=FileCondition(
            "language",
            "language_id = any({values}::text[])",
            list,
            membership_matcher,
        ),
        no_file_reason="is {values}",
        match_count="estimated",
    ),
    FilterField(
        "paths",
        "path",
        path_globs,
        inline_keys=("path",),
        exclusion="not_paths",
        takes_root=True,
        file_condition=FileCondition(
            "path",
            "filename ~ {values}",
            any_path_regex,
            path_matcher,
        ),
        no_file_reason="is at {values} below {root}",
        match_count="counted",
    ),
    FilterField(
        "not_paths",
        "excluded path",
        path_globs,
        takes_root=True,
        file_condition=FileCondition(
            "path", "filename !~ {values}", any_path_regex, path_matcher, excludes=True
        ),
        match_count="counted",
    ),
    FilterField(
        "symbol_types",
        "symbol type",
        symbol_kinds,
        inline_keys=("sym",),
        splits_commas=True,
        match_count="estimated",
    ),
    FilterField("symbol_name", "symbol name", single_name, inline_keys=("name",), is_single=True),
    FilterField("phrases", "phrase", sort_unique, is_quoted=True),
)

FILE_FIELDS = tuple(field for field in FILTER_FIELDS if field.file_condition is not None)


def make_filter(written_values: Mapping[str, Sequence[str]]) -> Filter:
    """Make a filter from written values by field name. Raises `InvalidInput`."""
    values = {
        field.name: field.split(written_values.get(field.name, ())) for field in FILTER_FIELDS
    }
    for field in FILTER_FIELDS:
        if field.exclusion is not None:
            negated = [value for value in values[field.name] if value.startswith("!")]
            values[field.exclusion] += [value.removeprefix("!") for value in negated]
            values[field.name] = [value for value in values[field.name] if value not in negated]
    arguments: dict[str, Any] = {}
    for field in FILTER_FIELDS:
        arguments |= field.argument(field.stored_values(values[field.name]))
    return Filter(**arguments)


def select_fields(where: Filter, fields: Iterable[FilterField]) -> Filter:
    """Return a filter with only the given fields of `where`."""
    arguments: dict[str, Any] = {}
    for field in fields:
        arguments |= field.argument(field.values(where))
    return Filter(**arguments)


def active_fields(where: Filter) -> tuple[FilterField, ...]:
    """Return the fields that have values in a filter."""
    return tuple(field for field in FILTER_FIELDS if field.values(where))


def file_conditions(where: Filter) -> Iterator[tuple[FileCondition, tuple[str, ...]]]:
    """Yield the conditions of a filter on files, each with its values."""
    for field in FILTER_FIELDS:
        values = field.values(where)
        if values and field.file_condition is not None:
            yield field.file_condition, values


def chunk_conditions(where: Filter) -> tuple[SymbolCondition, PhraseCondition]:
    """Return the conditions of a filter on chunks. A condition without values lets all pass."""
    return SymbolCondition(where.symbol_types, where.symbol_name), PhraseCondition(where.phrases)


def file_restrictions(where: Filter) -> Iterator[Restriction]:
    """Yield the SQL of the conditions on files."""
    return (condition.restriction(values) for condition, values in file_conditions(where))


def chunk_restrictions(where: Filter) -> Iterator[Restriction]:
    """Yield the SQL of the conditions on the symbols of chunks."""
    symbols_condition, _ = chunk_conditions(where)
    yield from symbols_condition.restrictions()


class FileProperties(Protocol):
    """A file with the properties that filters compare, named as in `FileCondition.subject`."""

    @property
    def path(self) -> str:
        """The path, relative to the root."""
        ...

    @property
    def language(self) -> str:
        """The language id, "" for none."""
        ...


class PathAndLanguage(NamedTuple):
    """The `FileProperties` of a file for which the caller has no other object."""

    path: str
    language: str


def file_passes(where: Filter, file: FileProperties) -> bool:
    """Return True if a file passes the conditions of a filter on files."""
    return all(
        bool(condition.matcher(values)(getattr(file, condition.subject))) is not condition.excludes
        for condition, values in file_conditions(where)
    )


def chunk_matcher(where: Filter) -> Callable[[str, Iterable[tuple[str, str]]], bool]:
    """Return a predicate for the text and the symbols, (kind, qualified name), of a chunk."""
    symbols_condition, phrases_condition = chunk_conditions(where)
    matches_symbol = symbols_condition.matcher()
    matches_text = phrases_condition.matcher()

    def matches(text: str, symbols: Iterable[tuple[str, str]]) -> bool:
        if not matches_text(text):
            return False
        return not where.has_symbols or any(matches_symbol(kind, name) for kind, name in symbols)

    return matches


def make_relative(where: Filter, root: bytes) -> Filter:
    """Make the absolute paths of a filter relative to a root, if they lie below that root."""
    start = path_text(root.rstrip(b"/"))

    def relative(glob: str) -> str:
        is_below = glob == start or glob.startswith(f"{start}/")
        return (glob[len(start) :].rstrip("/") or "/**") if is_below else glob

    changes: dict[str, Any] = {
        field.name: sort_unique(map(relative, values))
        for field in FILTER_FIELDS
        if field.takes_root and (values := field.values(where))
    }
    return replace(where, **changes) if changes else where
