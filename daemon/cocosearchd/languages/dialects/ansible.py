"""Ansible: plays and tasks."""

import re
from collections.abc import Iterator, Sequence

from cocosearchd.languages.dialects import yaml_keys
from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol

_PATH = re.compile(
    r"(?:^|/)roles/[^/]+/(?:tasks|handlers)/[^/]+\.ya?ml$|(?:^|/)playbooks?/[^/]+\.ya?ml$"
)
_PLAY = re.compile(r"^- +(?:[a-z_]+: .*\n  )*hosts:", re.MULTILINE)
_LISTS = frozenset({"tasks", "pre_tasks", "post_tasks", "handlers"})


class Ansible:
    """Plays at `play:Web servers`, tasks at `play:Web servers/task:Install nginx`.

    A file of a role has only tasks.
    """

    name = "ansible"
    base_languages = ("yaml",)
    version = 1

    def matches(self, path: str, head: str) -> bool:
        """Match by the folder, or by a top-level play."""
        return bool(_PATH.search(path) or _PLAY.search(head))

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return plays with their tasks inside."""
        entries = yaml_keys.read_entries(data)
        return tuple(
            block
            for top in yaml_keys.children(entries, None)
            if top.item
            for block in _blocks_of_play(entries, top)
        )


def _blocks_of_play(
    entries: list[yaml_keys.YamlEntry], top: yaml_keys.YamlEntry
) -> Iterator[Block]:
    children = yaml_keys.children(entries, top)
    name = yaml_keys.value_of(entries, top, "name", "hosts") or top.key
    if not any(entry.key == "hosts" for entry in children):
        yield Block("task", f"task:{name}", top.start_byte, top.end_byte)
        return
    yield Block("play", f"play:{name}", top.start_byte, top.end_byte)
    for tasks in (entry for entry in children if entry.key in _LISTS):
        for task in yaml_keys.children(entries, tasks):
            title = yaml_keys.value_of(entries, task, "name") or task.key
            yield Block("task", f"play:{name}/task:{title}", task.start_byte, task.end_byte)
