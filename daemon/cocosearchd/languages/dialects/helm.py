"""Helm: the chart's metadata, its values and its templates."""

import re
from collections.abc import Iterator, Sequence

from cocosearchd.languages.dialects import yaml_keys
from cocosearchd.languages.dialects.kubernetes import manifests
from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol

_CHART = re.compile(r"(?:^|/)Chart\.ya?ml$")
_VALUES = re.compile(r"(?:^|/)values(?:[-._][^/]*)?\.ya?ml$")
_TEMPLATES = "/templates/"
_TEMPLATE_EXTENSIONS = (".yaml", ".yml", ".tpl", ".txt")
_ACTION = re.compile(rb"\{\{-?\s*(define|if|range|with|block|end)\b(?:\s+\"([^\"\n]*)\")?")


class HelmChart:
    """Chart.yaml: `dependency:redis`, and the top-level keys."""

    name = "helm-chart"
    base_languages = ("yaml",)
    version = 1

    def matches(self, path: str, head: str) -> bool:
        """Match by the name of the file."""
        return bool(_CHART.search(path))

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return one block for each top-level key, and for each dependency."""
        return yaml_keys.map_top_keys(data, _blocks_of_key)


def _blocks_of_key(entries: list[yaml_keys.YamlEntry], top: yaml_keys.YamlEntry) -> Iterator[Block]:
    yield Block("metadata", top.key, top.start_byte, top.end_byte)
    if top.key == "dependencies":
        for entry in yaml_keys.children(entries, top):
            name = yaml_keys.value_of(entries, entry, "name") or entry.value
            yield Block("dependency", f"dependency:{name}", entry.start_byte, entry.end_byte)


class HelmValues:
    """values.yaml and its variants: `section:image`."""

    name = "helm-values"
    base_languages = ("yaml",)
    version = 1

    def matches(self, path: str, head: str) -> bool:
        """Match by the name of the file."""
        return bool(_VALUES.search(path))

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return the blocks of the top-level keys and of some keys below them.

        A key of the second level has a block if it has keys itself.
        """
        entries = yaml_keys.read_entries(data)
        parents = {id(entry.parent) for entry in entries}
        blocks = []
        for entry in entries:
            if entry.parent is None:
                blocks.append(
                    Block("section", f"section:{entry.key}", entry.start_byte, entry.end_byte)
                )
            elif entry.parent.parent is None and id(entry) in parents and not entry.item:
                hierarchy = f"section:{entry.parent.key}.{entry.key}"
                blocks.append(Block("section", hierarchy, entry.start_byte, entry.end_byte))
        return tuple(blocks)


class HelmTemplate:
    """A template of a chart: `define:app.labels`, or the manifests that it makes."""

    name = "helm-template"
    base_languages = ("gotemplate", "yaml", "text")  # a template with actions is not valid YAML
    version = 1

    def matches(self, path: str, head: str) -> bool:
        """Match by the folder, and by an action or helper in the content."""
        return path.endswith(_TEMPLATE_EXTENSIONS) and _TEMPLATES in f"/{path}" and "{{" in head

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return the named templates; without named templates, the manifests."""
        return tuple(_define_blocks(data)) or manifests(data)


def _define_blocks(data: bytes) -> list[Block]:
    """Return a block for each outermost `define`, up to its own `end`."""
    blocks = []
    depth = 0
    name = ""
    start = 0
    for match in _ACTION.finditer(data):
        word = match[1]
        if word != b"end":
            if depth == 0 and word == b"define":
                name = (match[2] or b"").decode("utf-8", "replace")
                start = match.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0 and name:
                end = data.find(b"}}", match.end())
                blocks.append(
                    Block("define", f"define:{name}", start, end + 2 if end >= 0 else len(data))
                )
                name = ""
    return blocks
