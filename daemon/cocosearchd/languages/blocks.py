"""Reads the blocks of files, with the handler or dialect of their language id."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from cocosearchd.languages import language_table
from cocosearchd.languages.dialects.ansible import Ansible
from cocosearchd.languages.dialects.compose import Compose
from cocosearchd.languages.dialects.github_actions import GithubActions
from cocosearchd.languages.dialects.gitlab_ci import GitlabCi
from cocosearchd.languages.dialects.helm import HelmChart, HelmTemplate, HelmValues
from cocosearchd.languages.dialects.kubernetes import ArgoCd, Kubernetes
from cocosearchd.languages.handlers.base import Block, Dialect, Handler
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
# The first match wins. Therefore dialects that match by path come before dialects that match by
# content.
DIALECTS: tuple[Dialect, ...] = (
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


def detect_dialect(path: str, head: str, language: str) -> str:
    """Return the first dialect of a language that matches a file; without one, the language itself."""
    return next(
        (
            dialect.name
            for dialect in DIALECTS
            if language in dialect.base_languages and dialect.matches(path, head)
        ),
        language,
    )


def base_language(language: str) -> str:
    """Return the base language of a dialect (`yaml` for `github-actions`), or the language itself."""
    return next(
        (dialect.base_languages[0] for dialect in DIALECTS if dialect.name == language), language
    )


def language_dialects(language: str) -> tuple[str, ...]:
    """Return a language and all its dialects: `yaml` includes workflows, charts and manifests."""
    return (language, *(dialect.name for dialect in DIALECTS if language in dialect.base_languages))


def dialects_by_base() -> Mapping[str, str]:
    """Map each language that has dialects to their names with their versions, in order."""
    bases = sorted({base for dialect in DIALECTS for base in dialect.base_languages})
    return {
        base: ", ".join(
            f"{dialect.name} {dialect.version}"
            for dialect in DIALECTS
            if base in dialect.base_languages
        )
        for base in bases
    }


def language_info(language: str) -> language_table.LanguageInfo | None:
    """Return the table row of a language id; None if unknown.

    A dialect has the row of its base language.
    """
    return _info_by_id().get(language)


@cache
def _info_by_id() -> Mapping[str, language_table.LanguageInfo]:
    """Map language ids to rows. The result is shared: do not change it."""
    by_name = language_table.by_name()
    dialects = (dialect.name for dialect in DIALECTS)
    return {**{dialect: by_name[base_language(dialect)] for dialect in dialects}, **by_name}


def read_blocks(language: str, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
    """Read the blocks of a file, ordered by position, outer before inner. Most languages have none."""
    reader = next(
        (dialect for dialect in DIALECTS if dialect.name == language), HANDLERS.get(language)
    )
    # Replaced by line breaks of the same length, so that the text begins at the start of a line
    if data.startswith(BOM):
        data = b"\n" * len(BOM) + data[len(BOM) :]
    blocks = reader.blocks(data, symbols) if reader is not None else ()
    return tuple(sorted(blocks, key=lambda block: (block.start_byte, -block.end_byte)))
