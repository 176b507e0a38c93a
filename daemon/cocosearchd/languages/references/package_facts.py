"""Reads facts from JSON manifests: names of packages, and aliases of source paths. Pure.

`package.json` exports itself under the name of its package. `tsconfig.json` and the field `imports`
of `package.json` map names to paths: `"@/*": ["./src/*"]` is an import of "./src/*" with the name
"*" under the local name "@/*". `extends` is an import without names.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from cocosearchd.languages.code_facts import NO_FACTS, CodeFacts, Import

# Limits: bytes of a manifest (larger ones are generated), names of a manifest, targets of a name.
MAX_PACKAGE_BYTES = 256 * 1024
MAX_NAMES = 500
_MAX_TARGETS = 4
_MAX_TEXT = 200

_TYPESCRIPT_SETTINGS = re.compile(r"(?:^|/)(?:ts|js)config(?:\.[\w-]+)*\.json$")
_PACKAGE = re.compile(r"(?:^|/)package\.json$")
# Comments and final commas are removed; strings stay unchanged.
_COMMENT = re.compile(rb'("(?:[^"\\\n]|\\.)*"?)|//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)')
_FINAL_COMMA = re.compile(rb",(?=\s*[}\]])")


def extract_package_facts(path: str, data: bytes) -> CodeFacts:
    """Return the facts of a manifest; no facts for other files and for invalid JSON."""
    read = _reader_of(path)
    if read is None or len(data) > MAX_PACKAGE_BYTES:
        return NO_FACTS
    try:
        text = _FINAL_COMMA.sub(b"", _COMMENT.sub(rb"\1", data))
        values = json.loads(text)
    except (ValueError, RecursionError):
        return NO_FACTS
    return read(values) if isinstance(values, dict) else NO_FACTS


def _reader_of(path: str) -> Callable[[dict[str, Any]], CodeFacts] | None:
    if _PACKAGE.search(path):
        return _read_package
    return _read_typescript_settings if _TYPESCRIPT_SETTINGS.search(path) else None


def _read_package(values: dict[str, Any]) -> CodeFacts:
    name = values.get("name")
    items = list(_aliases(values.get("imports"), ""))
    if isinstance(name, str) and 0 < len(name) <= _MAX_TEXT:
        items.append(Import("", "", name, 1, exported=True))
        return CodeFacts(package=name, imports=tuple(items))
    return CodeFacts(imports=tuple(items)) if items else NO_FACTS


def _read_typescript_settings(values: dict[str, Any]) -> CodeFacts:
    options = values.get("compilerOptions")
    options = options if isinstance(options, dict) else {}
    base = options.get("baseUrl")
    base = f"{base.rstrip('/')}/" if isinstance(base, str) and len(base) <= _MAX_TEXT else ""
    items = list(_aliases(options.get("paths"), base))
    if base:
        items.append(Import(f"{base}*", "*", "*", 1))
    items += (Import(parent, "", "", 1) for parent in _texts(values.get("extends")))
    return CodeFacts(imports=tuple(items)) if items else NO_FACTS


def _aliases(paths: object, base: str) -> Iterator[Import]:
    if not isinstance(paths, dict):
        return
    for name, targets in list(paths.items())[:MAX_NAMES]:
        if 0 < len(name) <= _MAX_TEXT:
            for target in _texts(targets):
                yield Import(f"{base}{target.removeprefix('./')}", "*", name, 1)


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    texts = [item for item in values if isinstance(item, str) and 0 < len(item) <= _MAX_TEXT]
    return texts[:_MAX_TARGETS]
