"""Handlers and grammars by language id, in match order: which blocks a file has, and what a kind is
a kind of.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

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
# The first that matches wins, so the ones told by path come before those told by content alone.
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
    """The first grammar of a language that claims the file; the language itself where none does."""
    return next(
        (
            one.name
            for one in GRAMMARS
            if language in one.base_languages and one.matches(path, head)
        ),
        language,
    )


def base_language(language: str) -> str:
    """`yaml` for `github-actions`; a language of the table for itself."""
    return next((one.base_languages[0] for one in GRAMMARS if one.name == language), language)


def language_kinds(language: str) -> tuple[str, ...]:
    """All ids that files of a language may have: `yaml` with its workflows, charts and
    manifests.
    """
    return (language, *(one.name for one in GRAMMARS if language in one.base_languages))


def read_blocks(language: str, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
    """The blocks of a file, outer before inner, by position; none for most languages."""
    reader = next((one for one in GRAMMARS if one.name == language), HANDLERS.get(language))
    if data.startswith(BOM):  # empty lines as long, so that what follows begins a line
        data = b"\n" * len(BOM) + data[len(BOM) :]
    found = reader.blocks(data, symbols) if reader is not None else ()
    return tuple(sorted(found, key=lambda block: (block.start_byte, -block.end_byte)))
