"""Recognises queries that are declarations of code, such as `def save(`: they search the name.

Pure.
"""

import re

# Some of the keywords in `languages.patterns.definition_rules`: the others also occur in sentences.
MODIFIERS = (
    "abstract async data default export final inline internal open override partial private "
    "protected pub public sealed static"
)
# Keywords that hardly ever begin a sentence: the word after one is a name.
UNAMBIGUOUS_KEYWORDS = "def fn func"
BODY_KEYWORDS = (
    "class enum impl interface module namespace object protocol record struct trait type union"
)
OTHER_KEYWORDS = "const def fn fun func function let macro typedef val var"


def _one_of(words: str) -> str:
    return "|".join(words.split())


_DECLARATION = re.compile(
    rf"""(?:(?:{_one_of(MODIFIERS)})\s)*
    (?:(?P<body>{_one_of(BODY_KEYWORDS)})|(?P<other>{_one_of(OTHER_KEYWORDS)}))\s
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
    """Return the name that a text declares; None if the text is not one declaration.

    The words of the text are separated by single blanks. After a keyword that also begins
    sentences, such as `type` or `class`, the name or the rest must look like code.

    >>> declared_name("type Daemon struct"), declared_name("class Loader(Base):")
    ('Daemon', 'Loader')
    >>> declared_name("def save"), declared_name("class loader")
    ('save', None)
    """
    match = _DECLARATION.fullmatch(text)
    if match is None:
        return None
    name = match["name"]
    keyword = match["body"] or match["other"]
    return (
        name
        if keyword in UNAMBIGUOUS_KEYWORDS.split()
        or match["rest"]
        or match["end"]
        or _looks_like_name(name)
        else None
    )


def _looks_like_name(word: str) -> bool:
    return any(
        letter.isupper() or letter.isdigit() or letter in _NAME_CHARACTERS for letter in word
    )
