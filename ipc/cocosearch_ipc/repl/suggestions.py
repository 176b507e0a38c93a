"""Completions for the REPL: commands with their values, filters with theirs."""

import time
from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from cocosearch_ipc import client
from cocosearch_ipc.repl.session import HELP, RERANKERS, ReplSession

FILTERS = ("lang:", "path:", "-path:", "sym:", "name:", "index:", "topic:")
SYMBOL_TYPES = ("function", "class", "method", "interface")
CACHE_TTL_S = 5.0  # lifetime of cached names


class KnownNames:
    """Names that the daemon knows; cached, because each key may need them. Empty without a daemon."""

    def __init__(self, session: ReplSession) -> None:
        self._session = session
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}

    def indexes(self) -> tuple[str, ...]:
        """Return the names of all indexes."""
        return self._fresh("indexes", lambda: [index["name"] for index in self._session.indexes()])

    def topics(self) -> tuple[str, ...]:
        """Return the names of all topics."""
        return self._fresh(
            "topics",
            lambda: [topic for index in self._session.indexes() for topic in index["topics"]],
        )

    def languages(self) -> tuple[str, ...]:
        """Return the names of all supported languages."""
        return self._fresh("languages", self._languages)

    def _languages(self) -> list[str]:
        return [entry["name"] for entry in self._session.call("languages")["languages"]]

    def _fresh(self, what: str, ask: Callable[[], Sequence[str]]) -> tuple[str, ...]:
        until, names = self._known.get(what, (0.0, ()))
        if time.monotonic() > until:
            try:
                names = tuple(sorted(set(ask())))
            except client.CallFailed:
                names = ()
            self._known[what] = time.monotonic() + CACHE_TTL_S, names
        return names


class WordCompleter(Completer):
    """Completes the word before the cursor."""

    def __init__(self, names: KnownNames) -> None:
        self._names = names

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002
    ) -> Iterable[Completion]:
        """Yield candidates that continue the typed text."""
        text = document.text_before_cursor.lstrip()
        word = text.rpartition(" ")[2]
        if text.startswith("/"):
            yield from self._command(text, word)
            return
        key, colon, value = word.partition(":")
        if colon:
            last = value.rpartition(",")[2]
            yield from _matching(last, self._values(key))
        elif word:
            yield from _matching(word, FILTERS)

    def _command(self, text: str, word: str) -> Iterable[Completion]:
        name, blank, _ = text.partition(" ")
        if not blank:
            for usage, meaning in HELP:
                command, takes, _ = usage.partition(" ")
                if command.startswith(name):
                    yield Completion(
                        command + takes, -len(name), display=command, display_meta=meaning
                    )
            return
        yield from _matching(word.rpartition(",")[2], self._values(name))

    def _values(self, key: str) -> Sequence[str]:
        if key in ("/index", "index"):
            return self._names.indexes()
        if key in ("/topic", "topic"):
            return self._names.topics()
        if key in ("/lang", "lang", "language"):
            return self._names.languages()
        return {"/reranker": RERANKERS, "sym": SYMBOL_TYPES}.get(key, ())


def _matching(word: str, candidates: Iterable[str]) -> Iterable[Completion]:
    low = word.lower()
    for candidate in candidates:
        if candidate.lower().startswith(low) and candidate != word:
            yield Completion(candidate, -len(word))
