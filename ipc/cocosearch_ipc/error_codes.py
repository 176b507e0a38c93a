"""Codes of errors, for the daemon and its clients.

This module imports nothing: `protocol`, with its dataclasses, costs a quick client 8 ms.
"""

# JSON-RPC reserves -32768..-32000; our codes are stable and documented.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNAVAILABLE = -32001
NOT_FOUND = -32002
CONFLICT = -32003
REFUSED = -32004
MISMATCH = -32005
TIMED_OUT = -32006
