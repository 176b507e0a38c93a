"""Names of SCIP symbols, equal wherever one symbol occurs. Pure."""

import re

_LOCAL = "local "
_CONSTRUCTOR = re.compile(r"#(?:`<constructor>`|`<init>`|__init__|__new__)\((?:\+\d{1,4})?\)\.$")
_SOURCE_FOLDER = re.compile(r"^(scip-python \S+ \S+ `?)src\.")
_VERSION = re.compile(r"^(scip-python \S+ \S+ )\S+ ")


def normal_name(path: str, symbol: str) -> str:
    """Return the global name of a symbol: a constructor has its class's, a local its file's.

    scip-python names a module below `src/` with that folder where it is defined and without it
    where it is imported, and takes the version of the package from elsewhere.
    """
    if is_local(symbol):
        return f"{symbol} {path}"
    return _CONSTRUCTOR.sub("#", _SOURCE_FOLDER.sub(r"\1", _VERSION.sub(r"\1", symbol)))


def is_local(symbol: str) -> bool:
    """Return True for a symbol that has a name within its document only."""
    return symbol.startswith(_LOCAL)


def is_constructor(symbol: str) -> bool:
    """Return True for a constructor: its uses are those of its class."""
    return _CONSTRUCTOR.search(symbol) is not None


def is_variable(symbol: str) -> bool:
    """Return True for a parameter, an attribute or another symbol that is no type or function."""
    return is_local(symbol) or symbol.endswith(")") or is_term(symbol)


def is_term(symbol: str) -> bool:
    """Return True for an attribute, a constant or a global variable."""
    return symbol.endswith(".") and not symbol.endswith(").")
