"""Definition rules of languages: keywords that define names, and regular expressions. Pure.

Most languages share `COMMON_RULES`. `language_table` names the rules of other languages.

Values of a definition: 3 a type, 2 a function, 1 a minor name (variable, constant, package).
Measured: ranking without these values loses 0.005 to 0.008 NDCG@10.

Definitions are stored in segments: if they change, raise `search.lexical.segments.segment_files.FORMAT`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

TYPE = 3.0
FUNCTION = 2.0
MINOR = 1.0

_COMMON_TYPES = (
    "class module defmodule defprotocol defimpl interface struct enum union trait object protocol "
    "record typedef newtype macro_rules! macro extension typealias actor"
)
_COMMON_FUNCTIONS = "def defp func function fun fn sub proc defmacro defmacrop"
_COMMON_MINORS = (
    "val var const let static data type instance impl package namespace mod #define define"
)
_COMMON_KEYWORDS: Mapping[str, float] = MappingProxyType(
    dict.fromkeys(_COMMON_TYPES.split(), TYPE)
    | dict.fromkeys(_COMMON_FUNCTIONS.split(), FUNCTION)
    | dict.fromkeys(_COMMON_MINORS.split(), MINOR)
)
# Common keywords that are ordinary identifiers in languages like C.
_FOREIGN_TO_C = (
    "static const data type let val var fn def fun func function sub proc module impl mod instance "
    "object trait protocol extension package define defp actor newtype macro typealias"
)
MODIFIERS = (
    "public private protected internal static async export default final abstract sealed open "
    "override virtual inline unsafe partial readonly data inner companion suspend operator infix "
    "tailrec lateinit expect actual value annotation fileprivate mutating required convenience "
    "indirect declare const constexpr synchronized native strictfp implicit case lazy new unowned "
    "weak nonisolated local noinline comptime threadlocal extern"
)


@dataclass(frozen=True, slots=True)
class FunctionPattern:
    """An expression for functions without a keyword, with the groups `indent` and `name`."""

    expression: re.Pattern[str]
    hints: tuple[str, ...] = ()  # every text with a match contains one of these
    part: re.Pattern[str] | None = None  # a part of every match; fast to search for
    max_characters: int | None = None  # limit of a text's length, because the expression is slow

    def may_match(self, text: str) -> bool:
        """Return False if a fast check shows that the text has no match, or if it is too long."""
        if self.max_characters is not None and len(text) > self.max_characters:
            return False
        if self.hints and not any(hint in text for hint in self.hints):
            return False
        return self.part is None or self.part.search(text) is not None


@dataclass(frozen=True, slots=True)
class ValueByRest:
    """The value of a keyword's definition if the rest of the line matches an expression."""

    keyword: str
    rest: re.Pattern[str]
    value: float


@dataclass(frozen=True, slots=True)
class DefinitionRules:
    """Rules that find the definitions of a language line by line."""

    keywords: Mapping[str, float]  # keyword -> value
    body_keywords: frozenset[str] = frozenset()  # keywords that define a name only before a body
    values_by_rest: tuple[ValueByRest, ...] = ()
    functions: tuple[FunctionPattern, ...] = ()


def _common_keywords_and(types: str = "", functions: str = "") -> Mapping[str, float]:
    """Return the common keywords with additional keywords of one language."""
    return MappingProxyType(
        dict(_COMMON_KEYWORDS)
        | dict.fromkeys(types.split(), TYPE)
        | dict.fromkeys(functions.split(), FUNCTION)
    )


_C_KEYWORDS: Mapping[str, float] = MappingProxyType(
    {word: value for word, value in _COMMON_KEYWORDS.items() if word not in _FOREIGN_TO_C.split()}
)
# Pointer marks are matched separately only after the last word. Between words, the expression for
# words matches them. Two ways to match one text would cost a million steps for a declaration of 20
# pointers.
_BRACED_FUNCTION = FunctionPattern(
    re.compile(
        r"^(?P<indent>[ \t]*)(?:(?:[\w<>\[\],.:*&?@]+[ \t]+)+[*&]*)?"
        r"(?P<name>[A-Za-z_~$][\w$]*(?:::~?[A-Za-z_]\w*)?)[ \t]*"
        r"\([^;{}()]*(?:\([^()]*\)[^;{}()]*)*\)[^;{}()\n=]{0,80}\n?[ \t]*\{",
        re.MULTILINE,
    ),
    part=re.compile(r"\)[^;{}()\n=]{0,80}\n?[ \t]*\{"),
    max_characters=600_000,
)
_ASSIGNED_FUNCTION = FunctionPattern(
    re.compile(
        r"^(?P<indent>[ \t]*)(?:local[ \t]+)?(?P<name>[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+)"
        r"[ \t]*=[ \t]*(?:async[ \t]+)?(?:function\b|\([^)\n]*\)[ \t]*=>)",
        re.MULTILINE,
    ),
    hints=("function", "=>"),
)
_HASKELL_SIGNATURE = FunctionPattern(
    re.compile(r"^(?P<indent>)(?P<name>[a-z_][\w']*)[ \t]*::", re.MULTILINE)
)
_SHELL_FUNCTION = FunctionPattern(
    re.compile(r"^(?P<indent>[ \t]*)(?P<name>[A-Za-z_][\w:-]*)[ \t]*\(\)", re.MULTILINE),
    hints=("()",),
)
_ZIG_TYPE = re.compile(r"^\s*=\s*(?:(?:packed|extern)\s+)?(?:struct|union|enum|opaque|@This)\b")
_JS_FUNCTION = re.compile(r"^[^=\n]*=\s*(?:async\b|function\b|\(|<)")

COMMON_RULES = DefinitionRules(_COMMON_KEYWORDS)
C_RULES = DefinitionRules(
    _C_KEYWORDS,
    body_keywords=frozenset({"struct", "enum", "union", "class"}),
    functions=(_BRACED_FUNCTION,),
)
JAVA_RULES = DefinitionRules(_C_KEYWORDS, functions=(_BRACED_FUNCTION,))
PHP_RULES = DefinitionRules(_COMMON_KEYWORDS, functions=(_BRACED_FUNCTION,))
JAVASCRIPT_RULES = DefinitionRules(
    _COMMON_KEYWORDS,
    values_by_rest=(ValueByRest("const", _JS_FUNCTION, FUNCTION),),
    functions=(_BRACED_FUNCTION, _ASSIGNED_FUNCTION),
)
LUA_RULES = DefinitionRules(_COMMON_KEYWORDS, functions=(_ASSIGNED_FUNCTION,))
HASKELL_RULES = DefinitionRules(_COMMON_KEYWORDS, functions=(_HASKELL_SIGNATURE,))
SHELL_RULES = DefinitionRules(_COMMON_KEYWORDS, functions=(_SHELL_FUNCTION,))
ZIG_RULES = DefinitionRules(
    _COMMON_KEYWORDS, values_by_rest=(ValueByRest("const", _ZIG_TYPE, TYPE),)
)
FORTRAN_RULES = DefinitionRules(_common_keywords_and(functions="subroutine"))
PASCAL_RULES = DefinitionRules(_common_keywords_and(functions="procedure"))
SOLIDITY_RULES = DefinitionRules(_common_keywords_and(types="contract"))
VHDL_RULES = DefinitionRules(_common_keywords_and(types="entity architecture"))


def keyword_values(rules: Iterable[DefinitionRules]) -> dict[str, float]:
    """Collect the keywords of all rules, with the highest value of each."""
    values = dict[str, float]()
    for language_rules in rules:
        for keyword, value in language_rules.keywords.items():
            values[keyword] = max(value, values.get(keyword, 0.0))
    return values
