"""Handlers and grammars by language id, in match order: which blocks a file has, and what a kind is a kind of."""

from cocosearchd.languages.handlers.base import Block, Grammar, Handler

HANDLERS: dict[str, Handler] = {}
GRAMMARS: tuple[Grammar, ...] = ()


def kind_of(path: str, head: str, base: str) -> str:
    """The first grammar of a language that claims the file; the language itself where none does."""
    return next((grammar.name for grammar in GRAMMARS if grammar.base == base and grammar.matches(path, head)), base)


def base_of(language: str) -> str:
    """`yaml` for `github-actions`; a language of the table for itself."""
    return next((grammar.base for grammar in GRAMMARS if grammar.name == language), language)


def read(language: str, data: bytes) -> tuple[Block, ...]:
    """The blocks of a file; none for most languages."""
    reader = next((grammar for grammar in GRAMMARS if grammar.name == language), HANDLERS.get(language))
    return reader.blocks(data) if reader is not None else ()
