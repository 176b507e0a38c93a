"""What is known of files before any of them is parsed: sheets, languages, reasons to skip, outlines
of before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cocosearchd.indexing.pipeline.chunker import Limits
from cocosearchd.indexing.pipeline.file_manifest import FileManifest
from cocosearchd.indexing.pipeline.file_reader import SourceFile, is_secret
from cocosearchd.indexing.pipeline.manifest_cache import ManifestCache
from cocosearchd.indexing.pipeline.parse_cache import ParseCache
from cocosearchd.indexing.pipeline.parse_result import ParsedFile, plain_parsed_file
from cocosearchd.indexing.pool.quarantine import NOT_PARSED, Quarantine
from cocosearchd.languages import detect
from cocosearchd.model import SkipReason


@dataclass(frozen=True, slots=True)
class SkipRules:
    """Which files are looked into."""

    max_file_bytes: int
    index_secrets: bool
    any_type: bool  # files were named by the user: those of an unknown language are plain text


@dataclass(frozen=True, slots=True)
class UnknownContent:
    """A file without a known sheet. `key` is that of its outline."""

    language: str
    skip: SkipReason | None
    key: bytes


@dataclass(slots=True)
class Preparation:
    """Files by their number. `outlines`, by key, is filled up with those of `unparsed` before files
    are made.
    """

    manifests: list[FileManifest | None]
    contents: dict[int, UnknownContent] = field(default_factory=dict)  # of files without a sheet
    parsed_files: dict[bytes, ParsedFile] = field(default_factory=dict)

    @property
    def unparsed(self) -> dict[int, UnknownContent]:
        """The files that are to be parsed: the first one of each content."""
        numbers = dict[bytes, int]()
        for number, content in self.contents.items():
            if content.skip is None and content.key not in self.parsed_files:
                numbers.setdefault(content.key, number)
        return {number: self.contents[number] for number in numbers.values()}


def look_up_contents(
    sources: Sequence[SourceFile],
    sheets: ManifestCache | None,
    outlines: ParseCache,
    quarantine: Quarantine,
    limits: Limits,
    rules: SkipRules,
) -> Preparation:
    """Look up what is known of files; blocking. A content in quarantine has a plain outline."""
    found = Preparation([None] * len(sources) if sheets is None else sheets.get(sources))
    for number, source in enumerate(sources):
        if found.manifests[number] is None:
            language = detect.detect(source.path, source.data[: detect.HEAD_BYTES])
            skip = skip_reason(source, language, rules)
            found.contents[number] = UnknownContent(
                language, skip, outlines.key(source, language) if skip is None else b""
            )
    wanted = [
        (number, content) for number, content in found.contents.items() if content.skip is None
    ]
    known = outlines.get([content.key for _, content in wanted])
    found.parsed_files |= {
        content.key: one for (_, content), one in zip(wanted, known, strict=True) if one is not None
    }
    missing = found.unparsed
    reasons = quarantine.reasons([content.key for content in missing.values()])
    for number, content in missing.items():
        if content.key in reasons:
            reason = NOT_PARSED + reasons[content.key]
            found.parsed_files[content.key] = plain_parsed_file(
                sources[number].data, limits, reason
            )
    return found


def skip_reason(source: SourceFile, language: str, rules: SkipRules) -> SkipReason | None:
    """Return why a file is not worth a parser, or shall not be looked into; None if it is."""
    skip = source.skip or detect.skip_reason(source.data, rules.max_file_bytes)
    if skip is None and not rules.index_secrets and is_secret(source.data):
        return "secret"
    return "unsupported" if skip is None and not language and not rules.any_type else skip
