"""Sources as a code graph in memory: parsed as the daemon parses, without a database."""

from collections.abc import Mapping
from textwrap import dedent

from benchmarks.graph.parsed_files import ParsedFiles
from cocosearchd.graph.code_files import CodeFile
from cocosearchd.languages.parse import parse


def parse_sources(sources: Mapping[str, str]) -> ParsedFiles:
    """Parse sources by path, dedented."""
    return ParsedFiles(parse_source(path, text) for path, text in sources.items())


def parse_source(path: str, text: str) -> CodeFile:
    """Parse one source."""
    parsed = parse(path, dedent(text).lstrip("\n").encode())
    return CodeFile(path, parsed.language, parsed.symbols, parsed.facts)
