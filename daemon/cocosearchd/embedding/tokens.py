"""Text to lower-case words, for the built-in model only.

The weights in `data/` were trained on exactly this splitting, so it must not drift: a change here is a new version of
the model. That is why it is not `languages.identifiers`, which may improve at any time.
"""

import re
import unicodedata

# In order: plural abbreviations (IDs), abbreviations (HTTP of HTTPServer), humps and plain words, digits, and runs of
# letters that are not ASCII.
_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
_MARK = re.compile(r"[\u0300-\u036f]")


def words(text: str) -> list[str]:
    """The words of a text in order, with repetitions: `getHTTPServer2` gives get, http, server, 2.

    Accents are dropped, so that é is e. Underscores, punctuation and blanks only separate.
    """
    if not text.isascii():
        text = _MARK.sub("", unicodedata.normalize("NFKD", text))
    return [word.lower() for word in _WORD.findall(text)]
