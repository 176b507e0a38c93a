"""Converts unsaved text to files of the code graph."""

from cocosearchd.graph.code_files import CodeFile
from cocosearchd.graph.code_files_view import UnsavedFile, unpack_facts
from cocosearchd.search.overlay import Overlay


def unsaved_files(overlay: Overlay | None) -> tuple[UnsavedFile, ...]:
    """Return the files of an overlay for `CodeGraph.ask`, in the form of stored files."""
    if overlay is None:
        return ()
    return tuple(
        UnsavedFile(
            file=CodeFile(
                path=path,
                language=file.language,
                symbols=file.symbols,
                facts=unpack_facts(file.code.facts, len(file.symbols)),
            ),
            name_hashes=file.code.name_hashes or b"",
        )
        for path, file in overlay.files.items()
    )
