"""Guesses the natural languages of a question by its function words and scripts. Pure.

Where a page exists in several languages, the page in the language of the question represents the
others (`alike`). A wrong guess costs a reader one step, since the result names the other pages.
"""

import re
from collections import Counter
from collections.abc import Iterator

MAX_CHARACTERS = 2000  # compared characters of a question: a report would cost more
ENGLISH = "en"

# ISO 639-1 -> frequent words. Words that are also English, or that name programs and libraries
# ("die", "con", "del", "mit", "comment"), are left out.
_FUNCTION_WORDS = {
    ENGLISH: "a an and are as at be by can do does for from has have how i if in is it not of on or "
    "the this to was we what when where which who why with you",
    "de": "das eine einen einer eines für gibt kann können nicht oder sind über und von warum "
    "welche wenn werden wie wird wo zum zur",
    "es": "como cómo cuál cuándo dónde entre está están las los para pero por qué según "
    "sobre también una",
    "fr": "aux avec cette ces dans elle entre est les leur où pourquoi quand quel quelle quelles "
    "quels qui sans sont une",
    "id": "adalah apa bagaimana dalam dengan mengapa tidak untuk yang",
    "it": "cosa degli della delle dove gli nella perché può quale quali quando questo sono una",
    "nl": "deze een het hoe niet voor waar waarom wanneer welke worden wordt zijn",
    "pl": "dla dlaczego gdzie jak jakie jest kiedy które który nie oraz przez są się",
    "pt": "como das dos está não onde para por quais qual quando são sobre também uma você",
    "tr": "bir hangi için ile nasıl neden nedir nerede olarak",
    "vi": "các của được không là nào như thế trong",
}
_LANGUAGES = {
    word: tuple(language for language, words in _FUNCTION_WORDS.items() if word in words.split())
    for word in frozenset(" ".join(_FUNCTION_WORDS.values()).split())
}
# Scripts of few languages. Han characters are Japanese only beside kana.
_SCRIPTS = (
    (re.compile("[\u3040-\u30ff]"), ("ja",)),
    (re.compile("[\uac00-\ud7af]"), ("ko",)),
    (re.compile("[\u4e00-\u9fff]"), ("zh",)),
    (re.compile("[\u0454\u0456\u0457\u0491]"), ("uk",)),
    (re.compile("[\u0400-\u04ff]"), ("bg", "ru", "sr", "uk")),
    (re.compile("[\u0370-\u03ff]"), ("el",)),
    (re.compile("[\u0590-\u05ff]"), ("he",)),
    (re.compile("[\u0600-\u06ff]"), ("ar", "fa", "ur")),
    (re.compile("[\u0900-\u097f]"), ("hi",)),
    (re.compile("[\u0980-\u09ff]"), ("bn",)),
    (re.compile("[\u0e00-\u0e7f]"), ("th",)),
)
_PUNCTUATION = "\u00bf?\u00a1!.,;:()\"'\u00ab\u00bb\u201e\u201c\u201d"


def question_languages(question: str) -> frozenset[str]:
    """Return the likely languages of a question as ISO 639-1 codes; none if it may be English."""
    text = question[:MAX_CHARACTERS].lower()
    votes = _count_words(text)
    if not text.isascii():
        votes.update(_script_languages(text))
    best = max(votes.values(), default=0)
    if votes[ENGLISH] >= best:
        return frozenset()
    return frozenset(language for language, count in votes.items() if count == best)


def _count_words(text: str) -> Counter[str]:
    """Return the number of function words of each language. Only whole words count: no `a.com`."""
    return Counter(
        language
        for word in text.split()
        for language in _LANGUAGES.get(word.strip(_PUNCTUATION), ())
    )


def _script_languages(text: str) -> Iterator[str]:
    """Yield the languages of the script of each word."""
    has_kana = bool(_SCRIPTS[0][0].search(text))
    for word in text.split():
        languages = next((names for script, names in _SCRIPTS if script.search(word)), ())
        yield from ("ja",) if has_kana and languages == ("zh",) else languages
