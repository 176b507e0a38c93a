"""What a change of files makes of the parts of a lexical index: from parts to parts, nothing is changed in place.

All of it takes CPU, for a large batch 0.2 s: `lexical.LexicalIndex` calls it in threads.
"""

from collections.abc import Iterable, Mapping, Sequence

from cocosearchd.search.lexical_document import ChunkText, FileText, documents, names_of
from cocosearchd.search.lexical_merge import BUSY, QUIET, compacted
from cocosearchd.search.lexical_segment import Part, build
from cocosearchd.search.lexical_terms import Terms
from cocosearchd.search.lexical_view import View, view
from cocosearchd.search.overlay import Overlay
from cocosearchd.store.texts import FileTexts


def longer(parts: Iterable[Part], files: Iterable[FileTexts], terms: Terms, dimension: int) -> tuple[Part, ...]:
    """With `files`, none of which the parts have yet."""
    return compacted([*parts, *_part([_file_text(file) for file in files], terms, dimension)], BUSY)


def ordered(parts: Sequence[Part], generation: int, known: View | None) -> View:
    """A view of all parts, as of `generation`; what `known` has of them is not made again."""
    return view(compacted(parts, QUIET), generation, *([known] if known else []))


def renewed(
    state: View, paths: Iterable[str], files: Iterable[FileTexts], terms: Terms, dimension: int, generation: int
) -> View:
    """The state in which `paths` are as `files` has them."""
    return view(longer(_without(state, paths), files, terms, dimension), generation, state)


def overlaid(state: View, overlay: Overlay, terms: Terms, dimension: int) -> View:
    """The state in which an overlay's files are as it has them: not compacted, its next version would merge again."""
    fresh = _part(list(overlay.documents(dimension)), terms, dimension)
    return view([*_without(state, overlay.files), *fresh], state.generation, state)


def difference(parts: tuple[Part, ...], stored: Mapping[str, int]) -> tuple[tuple[Part, ...], set[str]]:
    """The parts without what is not as stored, and the paths to be read."""
    kept, found = set[str](), []
    for part in parts:
        wrong = []
        generations = part.segment.generations.tolist()
        for file, path in enumerate(part.segment.path_list()):
            alive = part.alive is None or bool(part.alive[file])
            if alive and stored.get(path) == generations[file]:
                kept.add(path)
            elif alive:
                wrong.append(file)
        found.append(part.without(wrong) if wrong else part)
    return compacted(found, BUSY), stored.keys() - kept


def _part(files: Sequence[FileText], terms: Terms, dimension: int) -> list[Part]:
    """One part of these files; none of no files."""
    found = list(documents(files, terms))
    return [Part(build(found, dimension))] if found else []


def _file_text(file: FileTexts) -> FileText:
    chunks = tuple(
        ChunkText(*row[:4], tuple(row[4]), names_of(row[5], file.path), tuple(zip(row[6], row[7], strict=True)))
        for row in file.chunks
    )
    return FileText(file.path, file.generation, file.language, chunks, file.vectors)


def _without(state: View, paths: Iterable[str]) -> list[Part]:
    """The parts without what they hold of `paths`."""
    found = list(state.parts)
    by_part: dict[int, list[int]] = {}
    for part, file in _places(state, paths):
        by_part.setdefault(part, []).append(file)
    for part, files in by_part.items():
        found[part] = found[part].without(files)
    return found


def _places(state: View, paths: Iterable[str]) -> list[tuple[int, int]]:
    """Where the living ones of these paths are: (part, file in it)."""
    found = []
    for path in paths:
        for number, (part, names) in enumerate(zip(state.parts, state.names, strict=True)):
            file = names.numbers.get(path)
            if file is not None and (part.alive is None or part.alive[file]):
                found.append((number, file))
    return found
