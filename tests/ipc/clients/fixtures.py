"""The tools, resources and prompts that the official conformance suite calls, added to our server.

Names and texts are the suite's (`@modelcontextprotocol/conformance`); everything below them is
ours: the listener, its guard, sessions, subscriptions.
"""

import json
from typing import Any

import anyio
import mcp_types as t
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.prompts import Message, PromptResult
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
IMAGE = t.ImageContent(type="image", data=PNG, mime_type="image/png")

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
USER = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}
DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}
TITLED = [
    {"const": f"value{n}", "title": f"{nth} Option"}
    for n, nth in enumerate(("First", "Second", "Third"), 1)
]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
}


def register(server: FastMCP) -> None:
    """Everything the suite asks for."""
    _contents(server)
    _courses(server)
    _requests(server)
    _resources(server)
    _prompts(server)
    server.add_completion_handler(_complete)
    server.add_tool(
        _SchemaTool(
            name="json_schema_2020_12_tool", description="2020-12 features", parameters=SCHEMA
        )
    )


class _SchemaTool(Tool):
    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(json.dumps(arguments))


async def _complete(ref: Any, argument: Any, context: Any) -> list[str]:
    return [word for word in ("paris", "park", "party") if word.startswith(argument.value)]


def _embedded(uri: str, mime_type: str, text: str) -> t.EmbeddedResource:
    contents = t.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return t.EmbeddedResource(type="resource", resource=contents)


def _contents(server: FastMCP) -> None:
    @server.tool
    def test_simple_text() -> ToolResult:
        """Simple text."""
        return ToolResult("This is a simple text response for testing.")

    @server.tool
    def test_image_content() -> ToolResult:
        """Image content."""
        return ToolResult([IMAGE])

    @server.tool
    def test_audio_content() -> ToolResult:
        """Audio content."""
        return ToolResult([t.AudioContent(type="audio", data=WAV, mime_type="audio/wav")])

    @server.tool
    def test_embedded_resource() -> ToolResult:
        """Embedded resource."""
        return ToolResult(
            [
                _embedded(
                    "test://embedded-resource",
                    "text/plain",
                    "This is an embedded resource content.",
                )
            ]
        )

    @server.tool
    def test_multiple_content_types() -> ToolResult:
        """Multiple content types."""
        text = t.TextContent(type="text", text="Multiple content types test:")
        mixed = _embedded(
            "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
        )
        return ToolResult([text, IMAGE, mixed])

    @server.tool
    def test_error_handling() -> ToolResult:
        """Error handling."""
        raise ToolError("This tool intentionally returns an error for testing")


def _courses(server: FastMCP) -> None:
    @server.tool
    async def test_tool_with_logging(ctx: Context) -> str:
        """Tool with logging."""
        for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.info(text)
            await anyio.sleep(0.05)
        return "done"

    @server.tool
    async def test_tool_with_progress(ctx: Context) -> str:
        """Tool with progress."""
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100)
            await anyio.sleep(0.05)
        return "done"


def _requests(server: FastMCP) -> None:
    @server.tool
    async def test_sampling(prompt: str, ctx: Context) -> str:
        """Sampling."""
        message = t.SamplingMessage(role="user", content=t.TextContent(type="text", text=prompt))
        reply = await ctx.session.create_message(
            [message], max_tokens=100, related_request_id=ctx.request_id
        )
        return f"LLM response: {getattr(reply.content, 'text', '')}"

    async def elicited(ctx: Context, message: str, schema: dict[str, Any]) -> str:
        # Without the request it belongs to, it would go to the client's own stream, and be lost where
        # the client has not opened that yet.
        reply = await ctx.session.elicit_form(message, schema, ctx.request_id)
        return f"action={reply.action}, content={json.dumps(reply.content)}"

    @server.tool
    async def test_elicitation(message: str, ctx: Context) -> str:
        """Elicitation."""
        return f"User response: {await elicited(ctx, message, USER)}"

    @server.tool
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        """Elicitation sep1034 defaults."""
        return (
            f"Elicitation completed: {await elicited(ctx, 'Review and update the form', DEFAULTS)}"
        )

    @server.tool
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        """Elicitation sep1330 enums."""
        return f"Elicitation completed: {await elicited(ctx, 'Choose', ENUMS)}"


def _resources(server: FastMCP) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """An image."""
        return b"\x89PNG\r\n\x1a\n"

    @server.resource("test://watched-resource", mime_type="text/plain")
    def watched() -> str:
        """To subscribe to."""
        return "watched"

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def templated(id: str) -> str:  # noqa: A002 - the suite's name
        """A template."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _prompts(server: FastMCP) -> None:
    @server.prompt
    def test_simple_prompt() -> str:
        """Simple prompt."""
        return "This is a simple prompt for testing."

    @server.prompt
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """Prompt with arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt
    def test_prompt_with_embedded_resource(resourceUri: str) -> PromptResult:  # noqa: N803 - the suite's name
        """Prompt with embedded resource."""
        resource = _embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        return PromptResult(
            [Message(resource), Message("Please process the embedded resource above.")]
        )

    @server.prompt
    def test_prompt_with_image() -> PromptResult:
        """Prompt with image."""
        return PromptResult([Message(IMAGE), Message("Please analyze the image above.")])
