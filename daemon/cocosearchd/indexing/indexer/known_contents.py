"""Looks up files before parsing: cached manifests, languages, skip reasons."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pipeline.content_keys import ContentKeys
from cocosearchd.indexing.pipeline.file_manifest import FileManifest
from cocosearchd.indexing.pipeline.file_reader import SourceFile
from cocosearchd.indexing.pipeline.manifest_cache import ManifestCache
from cocosearchd.indexing.pipeline.parse_result import ParsedFile, plain_parsed_file
from cocosearchd.indexing.pipeline.skip_rules import SkipRules, skip_reason
from cocosearchd.indexing.pool.quarantine import NOT_PARSED, Quarantine
from cocosearchd.languages import detect
from cocosearchd.model import SkipReason


@dataclass(frozen=True, slots=True)
class UnknownContent:
    """A file without a cached manifest. `key` is the key of its content (`ContentKeys`)."""

    language: str
    skip: SkipReason | None
    key: bytes


@dataclass(slots=True)
class Preparation:
    """Lookup results by file number.

    `parsed_files` is by key. It gets the parsed files of `unparsed` before rows are made.
    `uncacheable`: the keys of contents that the parser gave up; the next try may succeed.
    """

    manifests: list[FileManifest | None]
    contents: dict[int, UnknownContent] = field(default_factory=dict)  # of files without a manifest
    parsed_files: dict[bytes, ParsedFile] = field(default_factory=dict)
    uncacheable: set[bytes] = field(default_factory=set)

    @property
    def repeated(self) -> set[bytes]:
        """The keys of contents that several files have."""
        counts = Counter(content.key for content in self.contents.values())
        return {key for key, count in counts.items() if count > 1}

    @property
    def unparsed(self) -> dict[int, UnknownContent]:
        """The files to parse: the first file of each content."""
        numbers = dict[bytes, int]()
        for number, content in self.contents.items():
            if content.skip is None and content.key not in self.parsed_files:
                numbers.setdefault(content.key, number)
        return {number: self.contents[number] for number in numbers.values()}


def look_up_contents(
    sources: Sequence[SourceFile],
    manifests: ManifestCache | None,
    keys: ContentKeys,
    quarantine: Quarantine,
    limits: ChunkLimits,
    rules: SkipRules,
) -> Preparation:
    """Look up files in the cache; blocking. A quarantined content gets a plain parse result."""
    preparation = Preparation(
        [None] * len(sources) if manifests is None else manifests.get(sources)
    )
    for number, source in enumerate(sources):
        if preparation.manifests[number] is None:
            preparation.contents[number] = _describe_content(source, keys, rules)
    missing = preparation.unparsed
    reasons = quarantine.reasons([content.key for content in missing.values()])
    for number, content in missing.items():
        if content.key in reasons:
            reason = NOT_PARSED + reasons[content.key]
            preparation.parsed_files[content.key] = plain_parsed_file(
                sources[number].data, limits, reason
            )
            preparation.uncacheable.add(content.key)
    return preparation


def _describe_content(source: SourceFile, keys: ContentKeys, rules: SkipRules) -> UnknownContent:
    language = detect.detect(source.path, source.data[: detect.HEAD_BYTES])
    skip = source.skip or skip_reason(source.data, language, rules)
    key = keys.key(source, language) if skip is None else b""
    return UnknownContent(language, skip, key)
