"""Converts filter values from the form that people write to the stored form. Pure."""

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from cocosearchd.errors import InvalidInput
from cocosearchd.forms.path_forms import glob_from_client
from cocosearchd.languages import blocks, language_table
from cocosearchd.languages.symbols import KINDS

# Symbol type of a query -> stored kinds. Each kind is also a symbol type. The general types include
# the kinds that other languages use for the same concept.
SYMBOL_TYPES: dict[str, tuple[str, ...]] = {kind: (kind,) for kind in KINDS} | {
    "function": ("function", "macro"),
    "method": ("method", "constructor"),
    "class": (
        *("class", "struct", "enum", "union", "record", "object", "actor", "contract"),
        *("extension", "trait"),
    ),
    "interface": ("interface", "trait", "protocol", "type", "concept"),
}


@cache
def language_names() -> Mapping[str, tuple[str, ...]]:
    """Map every name and alias of a language or dialect, in lower case, to language ids.

    A language includes its dialects: `yaml` also finds workflows and manifests.
    """
    names: dict[str, tuple[str, ...]] = {
        dialect.name: (dialect.name,) for dialect in blocks.DIALECTS
    }
    for language_row in language_table.languages():
        names |= dict.fromkeys(
            (*language_row.aliases, language_row.name), blocks.language_dialects(language_row.name)
        )
    return MappingProxyType(names)


def language_ids(names: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of the named languages, without regard to case. Raises `InvalidInput`."""
    requested = [name.lower() for name in names]
    if not requested:
        return ()
    ids_by_name = language_names()
    return sort_unique(
        language_id
        for name in requested
        for language_id in ids_by_name[check_choice("language", name, ids_by_name)]
    )


def symbol_kinds(names: Iterable[str]) -> tuple[str, ...]:
    """Return the stored kinds of the named symbol types. Raises `InvalidInput`."""
    return sort_unique(
        kind
        for name in names
        for kind in SYMBOL_TYPES[
            check_choice("symbol type", name.lower(), SYMBOL_TYPES, f"name:{name} is for a name")
        ]
    )


def path_globs(paths: Iterable[str]) -> tuple[str, ...]:
    """Convert path filters into globs as in git's ignore files. Raises `InvalidInput`."""
    return sort_unique(map(_path_glob, paths))


def _path_glob(path: str) -> str:
    """Convert a path filter into a glob; `./` anchors it at the root."""
    pattern = glob_from_client(path.strip())
    if pattern.startswith("./"):
        pattern = pattern[1:]
    if not pattern.strip("/"):
        raise InvalidInput(
            f"{path!r} is not a path filter", "write for example path:src/** or path:*.py"
        )
    return pattern


def single_name(names: Iterable[str]) -> tuple[str, ...]:
    """Return the one name of a symbol, or none. Raises `InvalidInput` for several names."""
    distinct = sort_unique(name for name in names if name)
    if len(distinct) > 1:
        raise InvalidInput("more than one symbol name", "use one, with * and ? as wildcards")
    return distinct


def sort_unique(values: Iterable[str]) -> tuple[str, ...]:
    """Sort a filter's values and drop repetitions, so that equal questions get equal plans."""
    return tuple(sorted(set(values)))


def check_choice(subject: str, value: str, valid: Iterable[str], also: str = "") -> str:
    """Return `value` if it is valid.

    Raises `InvalidInput` with the valid values nearest to it, followed by `also`.
    """
    options = sorted(valid)
    if value in options:
        return value
    # After a typing error, the nearest names help more than the list of all names.
    near = difflib.get_close_matches(value, options, 3, 0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(options)}"
    raise InvalidInput(
        f"unknown {subject} {value!r}", f"{hint}{' ' if near else '; '}{also}" if also else hint
    )
