"""Blanks macros in declarations that the grammars of C++ cannot read. Pure."""

import re

_GRAMMARS = frozenset({"cpp", "objc"})
# `class EXPORT Name {`, `struct API(x) Name final : Base`. All repetitions are bounded, so that the
# search is linear.
_MACRO = re.compile(
    rb"\b(?:class|struct|union)[ \t]{1,8}"
    rb"([A-Z][A-Z0-9_]{2,60}(?:\([^()\n]{0,60}\))?)"
    rb"(?=[ \t]{1,8}[A-Za-z_]\w{0,100}[ \t]{0,8}(?:final[ \t]{0,8})?(?:[:{\n;]))"
)


# Annotations after a declaration, for thread-safety analysis: `int count GUARDED_BY(mutex);`
_ANNOTATION = re.compile(
    rb"(?<=[\w)\]])[ \t\n]{1,60}((?:[A-Z]{2,20}_){0,2}(?:PT_)?(?:GUARDED_BY|GUARDED_VAR|LOCKS_EXCLUDED"
    rb"|LOCKS_REQUIRED|LOCK_RETURNED|REQUIRES|REQUIRES_SHARED|EXCLUDES|ACQUIRED_AFTER"
    rb"|ACQUIRED_BEFORE|ACQUIRE|RELEASE|NO_THREAD_SAFETY_ANALYSIS|LOCK_FUNCTION|UNLOCK_FUNCTION)"
    rb"(?:\([^()\n]{0,80}\))?)(?=\s{0,40}[;={])"
)


def blank_declaration_macros(grammar: str, data: bytes) -> bytes:
    """Replace such macros by blanks. Positions do not change, and the tree has fewer errors."""
    if grammar not in _GRAMMARS:
        return data
    return _ANNOTATION.sub(_blank, _MACRO.sub(_blank, data))


def _blank(match: re.Match[bytes]) -> bytes:
    start, end = match.span(1)
    text = match[0]
    return text[: start - match.start()] + b" " * (end - start) + text[end - match.start() :]
