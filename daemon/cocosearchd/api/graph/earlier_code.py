"""Earlier versions of changed files, read from git and parsed, to find removed definitions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio

from cocosearchd.graph.code_files import CodeFile
from cocosearchd.graph.code_files_view import unpack_facts
from cocosearchd.graph.earlier_files import EarlierFile
from cocosearchd.indexes.registry import IndexRegistry
from cocosearchd.indexes.running_index import RunningIndex
from cocosearchd.indexing.pool.overlay_parser import OverlayParser
from cocosearchd.indexing.row_shape import chunker_limits
from cocosearchd.languages import detect, language_table
from cocosearchd.languages.references import fact_table
from cocosearchd.watching.git.git_changes import GitChanges, GitFileChange, read_texts

MAX_EARLIER_FILES = 200  # changed files whose earlier versions are read
PARSE_S = 5.0  # for all files: a usual file takes a few milliseconds


@dataclass(frozen=True, slots=True)
class EarlierCode:
    """Earlier versions of changed files, by path. `unread` counts versions that were not read."""

    files: dict[str, EarlierFile] = field(default_factory=dict)
    unread: int = 0


class EarlierCodeReader:
    """Reads files as a commit has them. A parser process parses them: they are untrusted."""

    def __init__(self, indexes: IndexRegistry, parser: OverlayParser) -> None:
        self._indexes = indexes
        self._parser = parser

    async def read(
        self, index: RunningIndex, changes: GitChanges, selected: Sequence[GitFileChange]
    ) -> EarlierCode:
        """Read the first version of the selected changes that may have removed definitions.

        Raises as `git_changes.read_texts`.
        """
        paths = [change.path for change in selected if _may_remove_code(change)]
        texts = await index.own_root.git_threads.run(
            read_texts, index.record.root, changes.base, paths[:MAX_EARLIER_FILES]
        )
        files = dict[str, EarlierFile]()
        with anyio.move_on_after(PARSE_S):
            for path, text in texts.items():
                file = await self._parse(index, path, text)
                if file is not None:
                    files[path] = file
        return EarlierCode(files, len(paths) - len(files))

    async def _parse(self, index: RunningIndex, path: str, text: bytes) -> EarlierFile | None:
        rules = self._indexes.config.rules(index.settings)
        language = detect.detect(path, text[: detect.HEAD_BYTES])
        result = await self._parser.parse(
            path, language, text, chunker_limits(rules.indexing), rules.queries
        )
        if result is None:
            return None
        parsed_file = result.parsed_file
        facts = unpack_facts(parsed_file.facts, len(parsed_file.symbols))
        file = CodeFile(path, language, parsed_file.symbols, facts)
        return EarlierFile(file, fact_table.names(parsed_file.facts))


def _may_remove_code(change: GitFileChange) -> bool:
    """Return True for a file that has lost lines, in a language with symbols."""
    language = language_table.by_name().get(detect.detect(change.path, b""))
    if language is None or not language.symbols or change.kind == "added":
        return False
    return not change.hunks or any(hunk.old_count for hunk in change.hunks)
