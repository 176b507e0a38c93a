"""Resolutions from a precise index. They are valid as long as both files are unchanged."""

from cocosearchd.graph.code_files import (
    CodeFile,
    CodeFiles,
    DefinitionKey,
    PreciseTarget,
    Resolution,
)
from cocosearchd.graph.resolution.candidates import resolution
from cocosearchd.languages.code_facts import Use


class PreciseResolver:
    """Resolves uses by a precise index. Create one per question."""

    def __init__(self, files: CodeFiles) -> None:
        self._files = files
        self._keys = dict[PreciseTarget, DefinitionKey | None]()

    def resolve(self, file: CodeFile, use: Use) -> Resolution | None:
        """Return the definitions of a use; None if the precise index has no valid answer.

        An answer is invalid if the file of a definition has changed: it may now define something
        else.
        """
        precise_uses = file.precise_uses or {}
        targets = precise_uses.get((use.line, use.column))
        if targets is None:
            return None
        keys = [self._find(target) for target in targets]
        if None in keys:
            return None
        return resolution((key for key in keys if key is not None), "precise_index")

    def _find(self, target: PreciseTarget) -> DefinitionKey | None:
        if target not in self._keys:
            self._keys[target] = self._look_up(target)
        return self._keys[target]

    def _look_up(self, target: PreciseTarget) -> DefinitionKey | None:
        file = self._files.load([target.path]).get(target.path)
        if file is None or file.content_hash != target.content_hash:
            return None
        for position, symbol in enumerate(file.symbols):
            if (symbol.qualified_name, symbol.start_line) == (target.name, target.start_line):
                return DefinitionKey(target.path, position)
        return None
