"""The table of JSON-RPC methods: method -> (engine method, request type).

A method of `WorkspaceEngine` gets a row when the daemon implements it. The dispatcher, the OpenRPC
document and docs/rpc.md are derived from the rows. MCP tools call the engine directly.
"""

from typing import Any

from cocosearch_ipc import graph_protocol, structure_protocol, workspace_protocol
from cocosearch_ipc import protocol as p

METHODS: dict[str, tuple[str, type]] = {
    "search": ("search", p.SearchRequest),
    "index_codebase": ("index_codebase", p.IndexCodebaseRequest),
    "follow": ("report_progress", p.IndexRequest),
    "list_indexes": ("list_indexes", p.Empty),
    "index_stats": ("index_stats", p.StatsRequest),
    "clear_index": ("clear_index", p.IndexRequest),
    "reindex": ("reindex", p.IndexRequest),
    "list_files": ("list_files", workspace_protocol.ListFilesRequest),
    "get_file": ("get_file", workspace_protocol.GetFileRequest),
    "find_related": ("find_related", workspace_protocol.FindRelatedRequest),
    "grep": ("grep", workspace_protocol.GrepRequest),
    "definition": ("definition", graph_protocol.DefinitionRequest),
    "references": ("references", graph_protocol.ReferencesRequest),
    "callers": ("callers", graph_protocol.CallsRequest),
    "callees": ("callees", graph_protocol.CallsRequest),
    "scip": ("scip", graph_protocol.ScipRequest),
    "impact": ("impact", structure_protocol.ImpactRequest),
    "changes": ("changes", structure_protocol.ChangesRequest),
    "dependencies": ("dependencies", structure_protocol.DependenciesRequest),
    "outline": ("outline", structure_protocol.OutlineRequest),
    "map": ("map", structure_protocol.MapRequest),
    "config": ("config", workspace_protocol.ConfigRequest),
    "languages": ("languages", p.Empty),
    "models": ("models", p.Empty),
    "locate": ("locate", workspace_protocol.LocateRequest),
    "watch": ("watch", workspace_protocol.WatchRequest),
    "overlay.open": ("overlay_open", p.Empty),
    "overlay.put": ("overlay_put", workspace_protocol.OverlayPutRequest),
    "overlay.clear": ("overlay_clear", workspace_protocol.OverlayClearRequest),
    "sync": ("sync", p.SyncRequest),
    "status": ("status", p.Empty),
    "shutdown": ("shutdown", p.Empty),
}


def verb(method: str) -> Any:
    """Return the port's method for a JSON-RPC method; its docstring and types describe both."""
    name, _ = METHODS[method]
    ports = (
        p.Engine,
        workspace_protocol.WorkspaceEngine,
        graph_protocol.GraphEngine,
        structure_protocol.StructureEngine,
    )
    return next(getattr(port, name) for port in ports if hasattr(port, name))
