"""Parameters that several tools share. `tool_registry` lists each description once."""

from typing import Annotated

from pydantic import Field

from cocosearch_ipc.mcp.tools.tool_registry import UNLISTED

# Largest values. A test compares them with those of the daemon, which may be larger.
MAX_TOOL_RESULTS = 100  # the model reads them all
MAX_TOOL_FILES = 1000  # on a page of `list_files`
MAX_TOOL_TOKENS = 100_000

IndexName = Annotated[
    str | None, Field(description="The index; leave it out for the project you work in.")
]
IndexNames = Annotated[list[str] | None, Field(description="Several indexes.")]
Topic = Annotated[
    str | None, Field(description="All indexes of a topic; list_indexes shows topics.")
]
Language = Annotated[str | list[str] | None, Field(description="Only these: python,go")]
Paths = Annotated[
    list[str] | None, Field(description="Only paths that match a glob; !glob excludes.")
]
SymbolType = Annotated[
    str | list[str] | None,
    Field(description="Only these: function,method,class,interface ... An empty query lists them."),
]
SymbolName = Annotated[str | None, Field(description="Only this name; * is a wildcard.")]
Limit = Annotated[
    int | None, Field(ge=1, le=MAX_TOOL_RESULTS, description="Maximum number of results.")
]
BudgetTokens = Annotated[
    int | None,
    Field(ge=50, le=MAX_TOOL_TOKENS, description="Approximate maximum tokens of the answer."),
]
GraphTarget = Annotated[
    str,
    Field(description="A name (Client.retry), path:line, path:line:column or a path."),
]
MinConfidence = Annotated[
    str, Field(description="certain, likely or possible: leave out what is less sure.")
]
Cursor = Annotated[str | None, Field(description="The cursor of the previous answer.")]
# These parameters are for programs; a model does not need them.
ContextLines = Annotated[int | None, Field(ge=0, le=200, json_schema_extra=UNLISTED)]
SmartContext = Annotated[bool, Field(json_schema_extra=UNLISTED)]
UseHybridSearch = Annotated[bool | None, Field(json_schema_extra=UNLISTED)]
Profile = Annotated[str | None, Field(json_schema_extra=UNLISTED)]
NoCache = Annotated[bool, Field(json_schema_extra=UNLISTED)]

# Parameters that only search_code lists: they work the same in all tools, and few calls need them.
AS_SEARCH_CODE = ("index_names", "topic", "budget_tokens")
