"""Dependencies as diagrams: Mermaid and Graphviz's DOT, safe against hostile names. Pure.

File names are untrusted text. Nodes are numbered, and a name occurs only as a quoted label. In
Mermaid, a label has letters, digits and a few harmless characters; every other character is a numeric
entity. In DOT, quotes and backslashes are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from cocosearch_ipc.render.visible import visible

MAX_EDGES = 500  # Mermaid draws no more by default
_UNSAFE = re.compile(r"[^\w ./@+-]")


def mermaid(reply: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a Mermaid flowchart of a reply of `dependencies`."""
    nodes = _number_nodes(reply)
    yield "flowchart LR"
    for name, number in nodes.items():
        yield f'  n{number}["{_mermaid_label(name)}"]'
    for edge in reply["edges"][:MAX_EDGES]:
        yield f"  n{nodes[edge['source']]} --> n{nodes[edge['target']]}"
    if len(reply["edges"]) > MAX_EDGES:
        yield f"  %% {len(reply['edges']) - MAX_EDGES} more edges are not drawn"


def dot(reply: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a DOT digraph of a reply of `dependencies`."""
    nodes = _number_nodes(reply)
    yield "digraph dependencies {"
    yield "  rankdir=LR; node [shape=box];"
    for name, number in nodes.items():
        yield f'  n{number} [label="{_dot_label(name)}"];'
    for edge in reply["edges"]:
        label = f" [label={int(edge['count'])}]" if edge["count"] > 1 else ""
        yield f"  n{nodes[edge['source']]} -> n{nodes[edge['target']]}{label};"
    yield "}"


def _number_nodes(reply: Mapping[str, Any]) -> dict[str, int]:
    """Number the nodes of a reply: the nodes of its lists, and the ends of its edges."""
    names = [node["path"] for kind in ("modules", "imports", "importers") for node in reply[kind]]
    ends = [edge[end] for edge in reply["edges"] for end in ("source", "target")]
    return {name: number for number, name in enumerate(dict.fromkeys([*names, *ends]))}


def _mermaid_label(name: str) -> str:
    return _UNSAFE.sub(lambda match: f"#{ord(match[0])};", visible(name, keep=""))


def _dot_label(name: str) -> str:
    return visible(name, keep="").replace("\\", "\\\\").replace('"', '\\"')
