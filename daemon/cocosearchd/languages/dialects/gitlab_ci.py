"""GitLab CI: jobs, hidden jobs (templates) and global settings."""

from collections.abc import Sequence

from cocosearchd.languages.dialects import yaml_keys
from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol

_EXTENSIONS = (".yml", ".yaml")
_NAME = ".gitlab-ci"
_FOLDER = "/.gitlab/ci/"
# Global keywords, which are not jobs (https://docs.gitlab.com/ci/yaml/).
_GLOBAL = frozenset(
    {
        "stages",
        "variables",
        "include",
        "default",
        "workflow",
        "image",
        "services",
        "cache",
        "before_script",
    }
    | {"after_script", "spec"}
)


class GitlabCi:
    """Jobs at `job:build`, hidden jobs at `template:.base`, settings at `global:stages`."""

    name = "gitlab-ci"
    base_languages = ("yaml",)
    version = 1

    def matches(self, path: str, head: str) -> bool:
        """Match by the name of the file or its folder."""
        stem, dot, extension = path.rpartition(".")
        if dot + extension not in _EXTENSIONS:
            return False
        return _NAME in stem.rpartition("/")[2] or _FOLDER in f"/{stem}"

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return one block for each top-level key."""
        tops = yaml_keys.children(yaml_keys.read_entries(data), None)
        return tuple(
            Block(
                _block_type(top.key),
                f"{_block_type(top.key)}:{top.key}",
                top.start_byte,
                top.end_byte,
            )
            for top in tops
        )


def _block_type(key: str) -> str:
    if key in _GLOBAL:
        return "global"
    return "template" if key.startswith(".") else "job"
