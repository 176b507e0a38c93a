"""A declaration as it stands in code, given as a question: what it declares is what is looked for.
Pure.
"""

import re

_MODIFIERS = (
    "abstract|async|data|default|export|final|inline|internal|open|override|partial|"
    "private|protected|pub|public|sealed|static"
)
# Words that are hardly ever the first of a sentence: whatever follows is a name.
_UNAMBIGUOUS = {"def", "fn", "func"}
_BODIES = (
    "class|enum|impl|interface|module|namespace|object|protocol|record|struct|trait|type|union"
)
_OTHERS = "const|def|fn|fun|func|function|let|macro|typedef|val|var"
_DECLARATION = re.compile(
    rf"""(?:(?:{_MODIFIERS})\s)*
    (?:(?P<body>{_BODIES})|(?P<other>{_OTHERS}))\s
    (?P<name>[^\W\d](?:[\w$]|::|\.(?=\w))*+!?)
    (?P<rest>
        \s?\((?:self|cls|this|&self|&mut\sself)?\)          # no parameters
        |\s(?:struct|interface|enum)                        # Go: type Name struct
        |(?(body)\s?(?:[(<:]|extends|implements)\s?(?:\w+\s)?[\w.:]+\)?)  # what it extends
    )?
    (?P<end>\s?[{{:;=])?""",
    re.VERBOSE,
)
_NAME_CHARACTERS = frozenset("_.:!$")


def declared_name(text: str) -> str | None:
    """The name in a declaration that says nothing else, blanks being single; None for any other
    text.

    Of words that sentences begin with as well, such as `type` and `class`, it takes what looks like
    a name or code.

    >>> declared("type Daemon struct"), declared("class Loader(Base):"), declared("def save"), declared("class loader")
    ('Daemon', 'Loader', 'save', None)
    """
    found = _DECLARATION.fullmatch(text)
    if found is None:
        return None
    name = found["name"]
    keyword = found["body"] or found["other"]
    return (
        name
        if keyword in _UNAMBIGUOUS or found["rest"] or found["end"] or _looks_like_name(name)
        else None
    )


def _looks_like_name(word: str) -> bool:
    return any(
        letter.isupper() or letter.isdigit() or letter in _NAME_CHARACTERS for letter in word
    )
