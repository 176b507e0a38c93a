"""A raw documentation comment -> one sentence or paragraph in plain words, or "" if it says nothing
about the code.
"""

import re

MIN_WORDS, MAX_WORDS, MIN_SENTENCE = 4, 45, 20
_MARKS = re.compile(
    r"^\s*(/\*[*!]?|\*/|\*(?!\*)|//[/!]?|#+|--+\[*\[*|\"\"\"|''')[<|^]?\s?|\s*(\*+/|\"\"\"|''')\s*$",
    re.MULTILINE,
)
_STOP = re.compile(
    r"^\s*(@|\\(param|return|brief$)|:(param|return|raise|type|rtype)|---|===|>>>|```|# (Example|Safety|Panics)"
    r"|(Args|Arguments|Parameters|Params|Returns?|Raises|Examples?|Usage|Notes?|Yields|Attributes|See also|Inputs?"
    r"|Outputs?)\b\s*(:|$))",
    re.MULTILINE | re.IGNORECASE,
)
_REFUSED = re.compile(
    r"^(todo|fixme|xxx|copyright|licen[sc]e|tests?\b|see\b|@|http|deprecated|noqa|eslint|type:|\{?@?inherit|override|"
    r"generated|nolint|\+|go:|-\*-|vim:|spdx|auto|internal\b|\$id|\(c\))",
    re.IGNORECASE,
)
_MARKUP = (
    (re.compile(r"\{@\w+\s+([^}]*)\}"), r"\1"),  # {@link Foo}
    (re.compile(r":\w+(?::\w+)*:`~?\.?([^`<]*)[^`]*`"), r"\1"),  # :class:`Foo`
    (re.compile(r"<(/?\w+[^>]*|[a-z]+:[^>]*)>"), " "),
    (re.compile(r"\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])?"), r"\1"),
    (re.compile(r"\\(brief|short|c|p|a|e|ref|see|em)\b"), " "),
    (re.compile(r"[`*]+"), ""),
)


def clean(raw: str, language: str, name: str) -> str:
    """The first sentence of at least 20 characters, else the first paragraph; no marks, markup or
    leading name.
    """
    if not raw:
        return ""
    text = raw
    if language == "python":
        text = re.sub(r"^[rRuUbBfF]*", "", text)
        text = text.strip("\"'")
    text = _MARKS.sub("", text)
    text = text.replace("@brief", " ").replace("@summary", " ").replace("@description", " ").strip()
    stop = _STOP.search(text)
    text = text[: stop.start()] if stop else text
    text = re.split(r"\n\s*\n", text.strip())[0]
    for pattern, by in _MARKUP:
        text = pattern.sub(by, text)
    text = " ".join(text.split())
    text = re.sub(
        rf"^(the )?{re.escape(name)}(\(\))?( (is|are|method|function))?\b[\s:,.-]*",
        "",
        text,
        flags=re.IGNORECASE,
    )
    sentence = re.match(rf".{{{MIN_SENTENCE},}}?[.!?](?=\s|$)", text)
    text = sentence[0] if sentence else text
    return text if _accepted(text) else ""


def _accepted(text: str) -> bool:
    plain = sum(character.isalpha() or character == " " for character in text)
    words = len(text.split())
    return (
        MIN_WORDS <= words <= MAX_WORDS
        and text.isascii()
        and plain > 0.75 * len(text)
        and not _REFUSED.match(text)
    )
