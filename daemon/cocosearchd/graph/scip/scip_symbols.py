"""Normalises names of SCIP symbols, so that all occurrences of a symbol have one name. Pure."""

import re

_LOCAL = "local "
_CONSTRUCTOR = re.compile(r"#(?:`<constructor>`|`<init>`|__init__|__new__)\((?:\+\d{1,4})?\)\.$")
_SOURCE_FOLDER = re.compile(r"^(scip-python \S+ \S+ `?)src\.")
_VERSION = re.compile(r"^(scip-python \S+ \S+ )\S+ ")


def normal_name(path: str, symbol: str) -> str:
    """Return the normalised global name of a symbol.

    A constructor gets the name of its class. A local symbol gets the path of its file. scip-python
    names a module below `src/` with that folder at its definition but without it at imports, and
    with different package versions: both are removed.
    """
    if is_local(symbol):
        return f"{symbol} {path}"
    return _CONSTRUCTOR.sub("#", _SOURCE_FOLDER.sub(r"\1", _VERSION.sub(r"\1", symbol)))


def is_local(symbol: str) -> bool:
    """Return True for a symbol whose name is valid only within its document."""
    return symbol.startswith(_LOCAL)


def is_constructor(symbol: str) -> bool:
    """Return True for a constructor: its uses count as uses of its class."""
    return _CONSTRUCTOR.search(symbol) is not None


def is_variable(symbol: str) -> bool:
    """Return True for a parameter, an attribute or another symbol that is no type or function."""
    return is_local(symbol) or symbol.endswith(")") or is_term(symbol)


def is_term(symbol: str) -> bool:
    """Return True for an attribute, a constant or a global variable."""
    return symbol.endswith(".") and not symbol.endswith(").")
