"""The closed lists of words in questions about the code graph: each is defined here alone.

Standard library only, without dataclasses, whose module would cost each verb of the command line 8 ms.
"""

from typing import Literal, get_args

# Kinds of uses of a definition. All but `import` are those of a parsed file, `UseKind` of the daemon.
ReferenceKind = Literal["call", "type", "inherit", "name", "import"]
REFERENCE_KINDS: tuple[ReferenceKind, ...] = get_args(ReferenceKind)

# Confidence that a use means a definition, best first.
Confidence = Literal["certain", "likely", "possible"]
CONFIDENCES: tuple[Confidence, ...] = get_args(Confidence)

# Directions of `dependencies`: what a file imports, and what imports it.
Direction = Literal["both", "imports", "importers"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
