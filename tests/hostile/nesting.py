"""Nested text of every kind for every grammar: brackets, keywords, operators, markup, indentation,
here-documents.

An attacker needs no valid file: each shape is tried on each grammar, also where its language does
not have it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

COLUMNS = 80

# What opens one level. Each is repeated, in one column of text lines.
OPENERS = (
    *(
        "(",
        "[",
        "{",
        "<",
        "a<",
        "f(",
        "a[",
        "a{",
        "<(",
        "(<",
        "([",
        "({",
        "[{",
        "{[",
        "((",
        "#{",
        "${",
        '"${',
    ),
    *(
        '"#{',
        "`${",
        "'#{",
        "$(",
        "$((",
        "%{",
        "<%",
        "<?",
        "{{",
        "{%",
        "[[",
        "[|",
        "{|",
        "(|",
        "(:",
        "{-",
        "(*",
    ),
    *(
        "/*",
        "/*/*",
        "<!--",
        "<a>",
        "<a b='",
        "</",
        "<div>",
        "<![CDATA[",
        "<!",
        "--[[",
        "#|",
        "=begin\n",
        '"""',
    ),
    *(
        "'''",
        "r#",
        "'",
        '"',
        "-",
        "!",
        "*",
        "&",
        "~",
        "+",
        "- ",
        "! ",
        "not ",
        "a+",
        "a-",
        "a*",
        "a?",
        "a?b:",
    ),
    *(
        "a?:",
        "a.",
        "a->",
        "a::",
        "a,",
        "a = ",
        "a := ",
        "a:",
        ": ",
        "- - ",
        "> ",
        "* ",
        "1. ",
        "? ",
        "&a ",
        "@",
    ),
    *(
        "@a(",
        "#",
        "\\",
        "|",
        "||",
        "|x|",
        "a|",
        "if a ",
        "if (a) ",
        "if a then ",
        "else if ",
        "elif a:\n",
    ),
    *(
        "begin ",
        "do ",
        "do\n",
        "case ",
        "case a of ",
        "of ",
        "while a ",
        "while (a) ",
        "for ",
        "for (;;) ",
    ),
    *(
        "for a in b ",
        "let ",
        "let a = ",
        "in ",
        "where ",
        "match a with ",
        "fun ",
        "fun x -> ",
        "fn ",
        "fn(",
    ),
    *(
        "function ",
        "function(){",
        "func(){",
        "lambda: ",
        "lambda x: ",
        "() => ",
        "x => ",
        "\\x -> ",
        "proc ",
    ),
    *(
        "->",
        "=>",
        "class A { ",
        "class A:\n",
        "module A ",
        "module A\n",
        "namespace a { ",
        "struct ",
        "type a = ",
    ),
    *(
        "try ",
        "try { ",
        "catch ",
        "switch (a) { ",
        "select ",
        "select (",
        "union ",
        "with (",
        "return ",
        "await ",
    ),
    *(
        "async ",
        "yield ",
        "new ",
        "new A(",
        "typeof ",
        "delete ",
        "throw ",
        "defer ",
        "go ",
        "unsafe ",
        "def a\n",
    ),
    *(
        "def a(): ",
        "end ",
        "then ",
        "exists (",
        "cast(",
        "(quote ",
        "`(",
        ",",
        "'(",
        "#(",
        "@{",
        "$a{",
        "${a:-",
    ),
    *(
        "List<",
        "Map<A,",
        "vector<",
        "A<B<",
        "a<b>(",
        "template<",
        "<T:",
        "fn(&",
        "&mut ",
        "*const ",
        "impl ",
    ),
)
# What opens a level on a line of its own, each deeper by one blank.
INDENTED = (
    *(
        "a:",
        "- a:",
        "- ",
        "if a:",
        "def a():",
        "class A:",
        "a =",
        "where",
        "let a =",
        "do",
        "else:",
        "* a",
        "> a",
    ),
    "p",
)
HERE_DOCUMENTS = (
    "cat <<A{0}\n",
    "<<~A{0}\n",
    "<<-A{0}\n",
    "$(cat <<A{0}\n",
    'r{0}"',
    "q{{",
    "'''\n",
)


@dataclass(frozen=True, slots=True)
class Nested:
    """One text and what it is made of."""

    shape: str
    data: bytes


def nested(size: int, seed: int) -> Iterator[Nested]:
    """Yield texts of about `size` bytes: each shape repeated in lines of 80 columns; seeded
    mixtures of shapes last.
    """
    for opener in OPENERS:
        yield Nested(f"repeat {opener!r}", _lines(lambda opener=opener: opener, size))  # type: ignore[misc]
    for opener in INDENTED:
        yield Nested(f"indent {opener!r}", _indented(opener, size))
    for document in HERE_DOCUMENTS:
        yield Nested(
            f"here {document!r}",
            "".join(document.format(n) for n in range(size // len(document))).encode(),
        )
    chance = Random(seed)
    for _ in range(20):
        chosen = chance.sample(OPENERS, chance.randint(2, 4))
        yield Nested(f"mix {chosen!r}", _lines(lambda chosen=chosen: chance.choice(chosen), size))  # type: ignore[misc]


def _lines(opener: Callable[[], str], size: int) -> bytes:
    lines, length, line = list[str](), 0, ""
    while length < size:
        line += opener()
        if len(line) >= COLUMNS or line.endswith("\n"):
            lines.append(line.rstrip("\n"))
            length, line = length + len(line) + 1, ""
    return "\n".join(lines).encode()


def _indented(opener: str, size: int) -> bytes:
    lines, length = list[str](), 0
    while length < size:
        lines.append(" " * len(lines) + opener)
        length += len(lines[-1]) + 1
    return "\n".join(lines).encode()
