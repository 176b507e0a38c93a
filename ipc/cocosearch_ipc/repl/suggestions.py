"""Completions for the REPL: commands and their values, filters and their values."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from cocosearch_ipc import client
from cocosearch_ipc.cli.questions.search_options import COMPLETED_OPTIONS, INLINE_FILTERS
from cocosearch_ipc.repl.session import HELP, ReplSession

CACHE_TTL_S = 5.0  # lifetime of cached names


class KnownNames:
    """Cached names of the daemon's indexes, topics and languages. Empty without a daemon."""

    def __init__(self, session: ReplSession) -> None:
        self._session = session
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}

    def listed(self, kind: Literal["indexes", "topics", "languages"]) -> tuple[str, ...]:
        """Return the names of all indexes, of all topics, or of all supported languages."""
        fetch = {"indexes": self._indexes, "topics": self._topics, "languages": self._languages}
        return self._get_cached(kind, fetch[kind])

    def _indexes(self) -> list[str]:
        return [index["name"] for index in self._session.indexes()]

    def _topics(self) -> list[str]:
        return [topic for index in self._session.indexes() for topic in index["topics"]]

    def _languages(self) -> list[str]:
        return [entry["name"] for entry in self._session.call("languages")["languages"]]

    def _get_cached(self, kind: str, ask: Callable[[], Sequence[str]]) -> tuple[str, ...]:
        until, names = self._known.get(kind, (0.0, ()))
        if time.monotonic() > until:
            try:
                names = tuple(sorted(set(ask())))
            except client.CallFailed:
                names = ()
            self._known[kind] = time.monotonic() + CACHE_TTL_S, names
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
            yield from _complete_word(last, self._values(key))
        elif word:
            yield from _complete_word(word, INLINE_FILTERS)

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
        yield from _complete_word(word.rpartition(",")[2], self._values(name))

    def _values(self, key: str) -> Sequence[str]:
        option = COMPLETED_OPTIONS.get(key)
        if option is None:
            return ()
        return self._names.listed(option.names) if option.names else option.suggestions


def _complete_word(word: str, candidates: Iterable[str]) -> Iterable[Completion]:
    low = word.lower()
    for candidate in candidates:
        if candidate.lower().startswith(low) and candidate != word:
            yield Completion(candidate, -len(word))
