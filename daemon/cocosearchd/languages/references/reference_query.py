"""Queries for code facts: references/<language>.scm, extended by the user.

Captures of **uses**; a use is a name, or a chain such as `a.b.c` whose last part is the name:
- `@name`, `@call`, `@type`, `@inherit`: a use of this kind. If several patterns match the same
  name, the later of these four kinds wins, and the longest chain. `@receiver` in the same match is
  the text before the name, where both are not one node.
- `@types`: names inside of it are types; `@quoted_type`: text with names of types, except inside
  of a `@no_types`.
- `@ignored`: no use begins inside of it. `@definition`: the name of a definition: no use, and no
  variable.

Captures of **variables**, which have no uses of their own:
- `@scope`: where variables that are declared inside are valid; with `@parameters` in the same
  match, those that are declared in there too. `@scope.members`: valid directly inside, and not in
  scopes inside of it.
- `@variable`: a declared name. `@outer`: a name that is not declared here.
- `@scope.type_parameters`: where the `@type_parameter`s that are declared inside are valid.

Captures of **types and values**: `@binding` is the name and one of `@binding.type`,
`@binding.call`, `@binding.value`, `@binding.element` its text; `@binding.return` has no name.
`(#set! binding.receiver "this")` makes an attribute of the name: a parameter that declares one.

Captures of **imports**: `@import.module`, `@import.name`, `@import.local`, any of them; `#set!`
gives those that are not in the text: `(#set! import.name "default")`, and `import.exported "true"`.
A name without a module takes that of the `@import.statement` around it, which is captured with the
`@import.module`: a pattern with many names before its module takes the square of their number.
`@import.tree` is a whole declaration, which `import_trees` splits. `@package` is the declared
package.

A query whose first line is `; inherits: a, b` begins with the text of those.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from cocosearchd.languages.code_facts import BindingKind, UseKind

# End of the names of the user's query files, without `.scm`: "python.references".
SUFFIX = ".references"
# A query that starts with this text replaces the built-in query; any other query extends it.
REPLACE = "; replace"

# A query without any of these captures finds nothing.
CAPTURE = re.compile(r"@(?:name|call|type|inherit|binding|import|package)\b")
# Kinds of uses: if patterns of several kinds capture a name, the last one wins.
USE_KINDS: tuple[UseKind, ...] = ("name", "type", "call", "inherit")
SCOPES = ("scope", "scope.members", "scope.type_parameters")
# Captures that are complete without other captures.
SINGLE_CAPTURES = (
    *(*USE_KINDS, *SCOPES, "binding.return"),
    *("definition", "ignored", "types", "quoted_type", "no_types", "type_parameter"),
    *("variable", "outer", "package"),
)
# Captures of patterns with independent matches: they depend on no other match and on no order.
INDEPENDENT_CAPTURES = frozenset(
    {
        *(frozenset({capture}) for capture in SINGLE_CAPTURES),
        *(frozenset({"receiver", kind}) for kind in USE_KINDS),
        *(frozenset({"parameters", scope}) for scope in SCOPES),
    }
)
# Captures of the text of a binding, and the kinds of their bindings.
_BINDING_KINDS: dict[str, BindingKind] = {
    "binding.type": "type",
    "binding.call": "call",
    "binding.value": "value",
    "binding.element": "element",
}
IMPORT_PARTS = ("import.module", "import.local", "import.name")
_INHERITS = re.compile(r"; inherits: ([\w, ]+)\n")
# Value of `import.local`: the last part of the module, without its version.
LAST_PART = "(last)"


class PatternActions(NamedTuple):
    """The steps to process a match of a pattern, determined by the captures of the pattern.

    A match may lack some of these captures, because parts of a pattern may be optional.
    """

    bindings: Sequence[tuple[BindingKind, str]]  # (kind, capture of the text)
    prefix: str  # of the names of its bindings: "this." for attributes
    scopes: Sequence[str]  # captures of scopes that have parameters outside of them
    singles: Sequence[str]
    has_receiver: bool
    has_tree: bool
    has_import: bool
    constants: Mapping[str, str]  # the values of `#set!`

    def makes_only_bindings(self) -> bool:
        """Return True if matches have nothing but bindings and captures of single nodes."""
        has_others = self.scopes or self.has_receiver or self.has_tree or self.has_import
        return bool(self.bindings) and not has_others


def choose_actions(captures: frozenset[str], constants: Mapping[str, str]) -> PatternActions:
    """Return the steps for the matches of a pattern with these captures and constants."""
    kinds = _BINDING_KINDS.items() if "binding" in captures else ()
    scopes = captures.intersection(SCOPES) if "parameters" in captures else frozenset[str]()
    receiver = constants.get("binding.receiver", "")
    return PatternActions(
        bindings=[(kind, capture) for capture, kind in kinds if capture in captures],
        prefix=f"{receiver}." if receiver else "",
        scopes=sorted(scopes),
        singles=sorted(captures.intersection(SINGLE_CAPTURES) - scopes),
        has_receiver="receiver" in captures,
        has_tree="import.tree" in captures,
        has_import=not captures.isdisjoint(IMPORT_PARTS),
        constants=constants,
    )


# Pairs of (name of a query file without `.scm`, its text).
Overrides = tuple[tuple[str, str], ...]


def reference_query_text(language: str, grammar: str, overrides: Overrides) -> str:
    """Return the query of a language with the user's additions; "" without one.

    A grammar that differs from its language, such as tsx, may have a separate query.
    """
    text = _built_in(grammar) or _built_in(language)
    for name, addition in overrides:
        if name == language + SUFFIX:
            text = addition if addition.lstrip().startswith(REPLACE) else f"{text}\n{addition}"
    return text


@cache
def _built_in(name: str) -> str:
    """Return a built-in query, preceded by the queries that its line `; inherits: a, b` names."""
    file = resources.files("cocosearchd.languages") / "references" / f"{name}.scm"
    if not file.is_file():
        return ""
    text = file.read_text("utf-8")
    inherits = _INHERITS.match(text)
    bases = inherits[1].split(", ") if inherits else []
    return "\n".join([*map(_built_in, bases), text])
