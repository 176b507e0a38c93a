"""Word tables of CocoRAG's rerankers: verbs, domains, types of questions. Pure."""

import re
from typing import Literal

from cocosearchd.languages.identifiers import split_text
from cocosearchd.search.lexical.analysis.terms import STOP_WORDS

QueryType = Literal["how_to", "fix_error", "find_example", "other"]
Intent = Literal["learn", "implement", "debug", "other"]

# Stop words, and other words that carry no content in a question.
_FILLER_WORDS = STOP_WORDS | {
    "i",
    "me",
    "my",
    "our",
    "show",
    "so",
    "then",
    "there",
    "will",
    "you",
    "your",
}

# Verbs with nearly the same meaning in code. A verb of the query matches each verb of its group.
_VERB_GROUPS = (
    "get fetch load read retrieve obtain",
    "create make new build construct init initialize",
    "add insert append push register",
    "delete remove drop clear unregister",
    "update set change modify edit assign replace",
    "find search query lookup locate match",
    "parse decode deserialize tokenize",
    "format encode serialize render dump",
    "write save store persist put",
    "send post publish emit dispatch",
    "receive listen subscribe consume accept",
    "validate check verify assert ensure test",
    "start run open launch begin execute",
    "stop close shutdown end terminate cancel",
    "fix handle repair recover retry resolve",
    "convert transform map translate cast",
    "sort order rank",
    "connect login authenticate authorize",
)
VERBS: dict[str, frozenset[str]] = {
    verb: frozenset(group.split()) for group in _VERB_GROUPS for verb in group.split()
}

DOMAINS: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "web": "http https request response url route router endpoint server client rest api cookie session html css",
        "database": "sql query database db table row column transaction connection cursor schema migration postgres",
        "devops": "docker container kubernetes deploy pipeline terraform helm pod service image ci cluster",
        "security": "auth token password secret encrypt decrypt hash permission login certificate tls",
        "testing": "test assert mock fixture expect spec coverage",
        "files": "file path directory folder disk stream buffer read write",
        "concurrency": "thread async await lock mutex queue task worker channel coroutine parallel",
        "data": "array matrix vector tensor model train dataset json csv yaml xml parse",
    }.items()
}

# Code structure -> (words for it in a query, pattern of its code).
STRUCTURES: dict[str, tuple[frozenset[str], re.Pattern[str]]] = {
    name: (frozenset(words.split()), re.compile(pattern, re.MULTILINE))
    for name, words, pattern in (
        (
            "function",
            "function method def func callback handler",
            r"\b(?:def|func|fn|function)\b|=>",
        ),
        (
            "class",
            "class object struct type interface trait",
            r"\b(?:class|struct|interface|trait|type)\b",
        ),
        (
            "error",
            "error exception fail failure handle catch panic",
            r"\b(?:try|except|catch|raise|throw|panic|Err)\b",
        ),
        ("loop", "loop iterate iteration each every", r"\b(?:for|while|loop)\b"),
        (
            "import",
            "import dependency module package",
            r"^[^\S\n]*+(?:import|from|use|require|#include)\b",
        ),
        ("async", "async await concurrent asynchronous", r"\b(?:async|await|go|spawn)\b"),
        ("test", "test tests testing", r"\b(?:assert|expect|test_\w+|Test\w+)"),
        (
            "constant",
            "constant configuration config setting settings option",
            r"^[^\S\n]*+(?:const\b|[A-Z][A-Z0-9_]{2,}\s*=)",
        ),
    )
}

# Word for a kind of file -> its languages.
FILE_KINDS: dict[str, frozenset[str]] = {
    "docker": frozenset({"dockerfile"}),
    "dockerfile": frozenset({"dockerfile"}),
    "terraform": frozenset({"hcl"}),
    "shell": frozenset({"bash"}),
    "script": frozenset({"bash"}),
    "yaml": frozenset({"yaml"}),
    "config": frozenset({"yaml", "toml", "json", "ini"}),
    "documentation": frozenset({"markdown", "mdx"}),
    "readme": frozenset({"markdown"}),
    "query": frozenset({"sql"}),
    "stylesheet": frozenset({"css"}),
}

_ERROR_WORDS = re.compile(
    r"\b(?:fix|error|errors|exception|bug|fail|fails|failed|failing|crash|broken|issue|wrong)\b"
)
_EXAMPLE_WORDS = re.compile(r"\b(?:example|examples|sample|usage|demo|snippet|show me)\b")
_HOW_TO_WORDS = re.compile(r"\bhow\b|\bsteps?\b|\bguide\b|\btutorial\b")
_DEBUG_WORDS = re.compile(
    r"\b(?:debug|fix|error|exception|bug|crash|trace|fail|fails|failing|broken|why)\b"
)
_IMPLEMENT_WORDS = re.compile(r"\b(?:implement|create|build|add|write|make|extend|support)\b")
_LEARN_WORDS = re.compile(
    r"\b(?:learn|understand|explain|what|how|overview|documentation|tutorial|meaning)\b"
)


def keywords(text: str) -> tuple[str, ...]:
    """Return the distinct words of a question without stop words.

    Identifiers are split before lower-casing. A question that has only stop words keeps them.
    """
    parts = [
        word for word in split_text(text).split() if word not in _FILLER_WORDS and len(word) > 1
    ]
    return tuple(dict.fromkeys(parts)) or tuple(dict.fromkeys(split_text(text).split()))


def classify_query(text: str) -> QueryType:
    """Classify a question. An error outweighs an example, an example outweighs a how-to."""
    lowered = text.lower()
    if _ERROR_WORDS.search(lowered):
        return "fix_error"
    if _EXAMPLE_WORDS.search(lowered):
        return "find_example"
    return "how_to" if _HOW_TO_WORDS.search(lowered) else "other"


def classify_intent(text: str) -> Intent:
    """Classify the intent of the person who asks."""
    lowered = text.lower()
    if _DEBUG_WORDS.search(lowered):
        return "debug"
    if _IMPLEMENT_WORDS.search(lowered):
        return "implement"
    return "learn" if _LEARN_WORDS.search(lowered) else "other"
