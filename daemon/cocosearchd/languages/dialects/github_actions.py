"""GitHub Actions: the jobs of a workflow and their steps; the steps of a composite action."""

import re
from collections.abc import Iterator, Sequence

from cocosearchd.languages.dialects import yaml_keys
from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol

_PATH = re.compile(r"(?:^|/)\.github/workflows/[^/]+\.ya?ml$")
_ACTION_PATH = re.compile(r"(?:^|/)action\.ya?ml$")
_RUNS = re.compile(r"^runs:", re.MULTILINE)
_TYPES = {"on": "trigger", "true": "trigger", "env": "env", "permissions": "permissions"}


class GithubActions:
    """Jobs at `job:test`, their steps at `job:test/step:Checkout`.

    Each other top-level key is a separate block.
    """

    name = "github-actions"
    base_languages = ("yaml",)
    version = 1

    def matches(self, path: str, head: str) -> bool:
        """Match a workflow by its folder; match an action by its name and `runs:`."""
        return bool(_PATH.search(path) or (_ACTION_PATH.search(path) and _RUNS.search(head)))

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return jobs with their steps inside."""
        return yaml_keys.map_top_keys(data, _blocks_of_key)


def _blocks_of_key(entries: list[yaml_keys.YamlEntry], top: yaml_keys.YamlEntry) -> Iterator[Block]:
    if top.key == "jobs":
        for job in yaml_keys.children(entries, top):
            yield Block("job", f"job:{job.key}", job.start_byte, job.end_byte)
            yield from _steps(entries, job, f"job:{job.key}/")
    elif top.key == "runs":
        yield Block("runs", "runs", top.start_byte, top.end_byte)
        yield from _steps(entries, top, "")
    else:
        yield Block(_TYPES.get(top.key, "metadata"), top.key, top.start_byte, top.end_byte)


def _steps(
    entries: list[yaml_keys.YamlEntry], job: yaml_keys.YamlEntry, prefix: str
) -> Iterator[Block]:
    steps = next(
        (entry for entry in yaml_keys.children(entries, job) if entry.key == "steps"), None
    )
    if steps is not None:
        for number, step in enumerate(yaml_keys.children(entries, steps), 1):
            name = yaml_keys.value_of(entries, step, "name", "id", "uses", "run")
            name = str(number) if not name or name[0] in "|>" else name
            yield Block("step", f"{prefix}step:{name}", step.start_byte, step.end_byte)
