"""Handlers and grammars by language id, which give the blocks of files and their kinds."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from cocosearchd.languages import language_table
from cocosearchd.languages.grammars.ansible import Ansible
from cocosearchd.languages.grammars.compose import Compose
from cocosearchd.languages.grammars.github_actions import GithubActions
from cocosearchd.languages.grammars.gitlab_ci import GitlabCi
from cocosearchd.languages.grammars.helm import HelmChart, HelmTemplate, HelmValues
from cocosearchd.languages.grammars.kubernetes import ArgoCd, Kubernetes
from cocosearchd.languages.handlers.base import Block, Grammar, Handler
from cocosearchd.languages.handlers.bash import Bash
from cocosearchd.languages.handlers.dockerfile import Dockerfile
from cocosearchd.languages.handlers.hcl import Hcl
from cocosearchd.languages.handlers.markdown import Markdown
from cocosearchd.model import Symbol

HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "hcl": Hcl(),
        "dockerfile": Dockerfile(),
        "bash": Bash(),
        "markdown": Markdown(),
        "mdx": Markdown(),
    }
)
BOM = b"\xef\xbb\xbf"
# The first match wins, so grammars that match by path come before those that match by content.
GRAMMARS: tuple[Grammar, ...] = (
    GithubActions(),
    GitlabCi(),
    Compose(),
    HelmChart(),
    HelmTemplate(),
    HelmValues(),
    ArgoCd(),
    Kubernetes(),
    Ansible(),
)


def detect_kind(path: str, head: str, language: str) -> str:
    """Return the first grammar of a language that matches a file; without one, the language."""
    return next(
        (
            grammar.name
            for grammar in GRAMMARS
            if language in grammar.base_languages and grammar.matches(path, head)
        ),
        language,
    )


def base_language(language: str) -> str:
    """Return `yaml` for `github-actions`; a language of the table for itself."""
    return next(
        (grammar.base_languages[0] for grammar in GRAMMARS if grammar.name == language), language
    )


def language_kinds(language: str) -> tuple[str, ...]:
    """Return a language and all its kinds: `yaml` includes workflows, charts and manifests."""
    return (language, *(grammar.name for grammar in GRAMMARS if language in grammar.base_languages))


def language_info(language: str) -> language_table.LanguageInfo | None:
    """Look up the row of a language id; that of a kind is that of its language."""
    return _info_by_id().get(language)


@cache
def _info_by_id() -> Mapping[str, language_table.LanguageInfo]:
    """Map language ids to rows. The result is shared: do not change it."""
    by_name = language_table.by_name()
    kinds = (grammar.name for grammar in GRAMMARS)
    return {**{kind: by_name[base_language(kind)] for kind in kinds}, **by_name}


def read_blocks(language: str, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
    """Read the blocks of a file, outer before inner, by position; most languages have none."""
    reader = next(
        (grammar for grammar in GRAMMARS if grammar.name == language), HANDLERS.get(language)
    )
    if data.startswith(BOM):  # replace it by as many line breaks: the text still begins a line
        data = b"\n" * len(BOM) + data[len(BOM) :]
    blocks = reader.blocks(data, symbols) if reader is not None else ()
    return tuple(sorted(blocks, key=lambda block: (block.start_byte, -block.end_byte)))
