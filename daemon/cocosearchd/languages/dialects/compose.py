"""Docker Compose: services, networks, volumes, secrets, configs."""

import re
from collections.abc import Iterator, Sequence

from cocosearchd.languages.dialects import yaml_keys
from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol

_PATH = re.compile(r"(?:^|/)(?:docker-)?compose[^/]*\.ya?ml$")
_TYPES = {
    "services": "service",
    "networks": "network",
    "volumes": "volume",
    "secrets": "secret",
    "configs": "config",
}


class Compose:
    """Blocks at `service:web`, `network:front`, `volume:data`."""

    name = "docker-compose"
    base_languages = ("yaml",)
    version = 1

    def matches(self, path: str, head: str) -> bool:
        """Match by the name of the file."""
        return bool(_PATH.search(path))

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return one block for each service, network, volume and so on.

        Each other top-level key is a separate block.
        """
        return yaml_keys.map_top_keys(data, _blocks_of_key)


def _blocks_of_key(entries: list[yaml_keys.YamlEntry], top: yaml_keys.YamlEntry) -> Iterator[Block]:
    kind = _TYPES.get(top.key)
    if kind is None:
        yield Block("metadata", top.key, top.start_byte, top.end_byte)
        return
    for entry in yaml_keys.children(entries, top):
        yield Block(kind, f"{kind}:{entry.key}", entry.start_byte, entry.end_byte)
