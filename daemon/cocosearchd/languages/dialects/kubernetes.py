"""Kubernetes and Argo CD: manifests by kind and name."""

import re
from collections.abc import Sequence

from cocosearchd.languages.handlers.base import Block
from cocosearchd.model import Symbol

_API = re.compile(r"^apiVersion: *\S", re.MULTILINE)
_KIND = re.compile(r"^kind: *[\"']?[A-Z]", re.MULTILINE)
_ARGO = re.compile(r"^apiVersion: *[\"']?argoproj\.io/", re.MULTILINE)
_ARGO_KIND = re.compile(r"^kind: *[\"']?(?:Application|ApplicationSet|AppProject)\b", re.MULTILINE)
_SEPARATOR = re.compile(rb"^---[^\n]*\n?", re.MULTILINE)
_KIND_VALUE = re.compile(rb"^kind: *[\"']?([A-Za-z]+)", re.MULTILINE)
_METADATA = re.compile(
    rb"^metadata:[^\n]*\n((?:[ \t]+[^\n]*\n?|[ \t]*\r?\n|#[^\n]*\n)*)", re.MULTILINE
)
_NAME = re.compile(rb"^( +)name:([^#\n]*)", re.MULTILINE)


class Kubernetes:
    """Manifests at `kind:Deployment/name:web`; each is a block."""

    name = "kubernetes"
    base_languages = ("yaml",)
    version = 1

    def matches(self, path: str, head: str) -> bool:
        """Match by top-level `apiVersion` and `kind`."""
        return bool(_API.search(head) and _KIND.search(head))

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return one block for each manifest."""
        return manifests(data)


class ArgoCd:
    """Applications, their sets and projects: `kind:Application/name:shop`."""

    name = "argocd"
    base_languages = ("yaml",)
    version = 1

    def matches(self, path: str, head: str) -> bool:
        """Match by the API group and kind."""
        return bool(_ARGO.search(head) and _ARGO_KIND.search(head))

    def blocks(self, data: bytes, symbols: Sequence[Symbol]) -> tuple[Block, ...]:
        """Return one block for each manifest."""
        return manifests(data)


def manifests(data: bytes) -> tuple[Block, ...]:
    """Return the documents of a file that have a kind."""
    bounds = [(match.start(), match.end()) for match in _SEPARATOR.finditer(data)]
    starts = [0, *(end for _, end in bounds)]
    ends = [*(start for start, _ in bounds), len(data)]
    blocks = []
    for start, end in zip(starts, ends, strict=True):
        text = data[start:end]
        kind = _KIND_VALUE.search(text)
        if kind is not None:
            metadata = _METADATA.search(text)
            names: list[tuple[bytes, bytes]] = _NAME.findall(metadata[1]) if metadata else []
            # the least indented name, so that a label called `name` does not count
            name = min(names, key=lambda pair: len(pair[0]), default=(b"", b""))[1]
            title = name.strip(b" \t\r\"'").decode("utf-8", "replace")
            hierarchy = f"kind:{kind[1].decode()}" + (f"/name:{title}" if title else "")
            blocks.append(Block(kind[1].decode(), hierarchy, start, end))
    return tuple(blocks)
