"""Forms of Unicode text that look the same, and their limits. Pure."""

import re
import unicodedata

# 30 combining marks before a further mark. Some runs of other signs are split as well, which changes
# no word. The two letters of the pattern become marks in the compatibility forms.
_MARK = r"[^\w\x00-\x7f]|[\uff9e\uff9f]"


_RUN_LENGTH = 30


_LONG_RUN = re.compile(rf"((?:{_MARK}){{{_RUN_LENGTH}}})(?={_MARK})")


def spellings(phrase: str) -> tuple[str, ...]:
    """Return a phrase as written and in both normal forms of Unicode; all look the same.

    For example, é is one character or two characters.
    """
    if phrase.isascii():
        return (phrase,)
    safe = stream_safe(phrase)
    return tuple(
        dict.fromkeys(
            (phrase, unicodedata.normalize("NFC", safe), unicodedata.normalize("NFD", safe))
        )
    )


def stream_safe(text: str) -> str:
    """Split long runs of combining marks by the Stream-Safe Text Format of Unicode (UAX #15, 13).

    Normalisation sorts the marks of each letter in quadratic time: 80,000 marks take twenty seconds.
    """
    if len(text) <= _RUN_LENGTH:
        return text
    return _LONG_RUN.sub("\\1\u034f", text)
