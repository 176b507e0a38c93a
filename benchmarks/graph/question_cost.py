"""Measures questions about random definitions of a directory, in one process without a database.

`python -m benchmarks.graph.question_cost DIRECTORY` parses all files, asks for the references and
the impact of random definitions, each with files that are unpacked anew or cached and with uses
that are resolved anew or known from earlier questions, as in the daemon, and prints the CPU time.
`--answers FILE` writes the answers: run it in two versions and compare the files. An answer with
`unread_files` has counted fewer uses; its places are comparable.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.graph.parsed_files import read_texts
from benchmarks.measure import machine, say, spread
from cocosearchd.errors import InvalidInput
from cocosearchd.graph.code_file_cache import CodeFileCache
from cocosearchd.graph.code_files import CodeFiles, DefinitionKey
from cocosearchd.graph.code_files_view import CodeFilesView
from cocosearchd.graph.name_table import NameTable, split_files
from cocosearchd.graph.questions.impact import ImpactBounds, find_impact
from cocosearchd.graph.questions.question_limits import TimedFiles
from cocosearchd.graph.questions.reference_pages import ReferenceQuery, find_references
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.graph.questions.target_search import find_target_definitions
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.graph.use_cache import UseCache
from cocosearchd.languages import detect
from cocosearchd.languages.packed_code import pack_code
from cocosearchd.languages.parse import parse
from cocosearchd.languages.references import fact_table
from cocosearchd.store.file_facts import StoredCode, StoredNames

DEPTH = 3
KINDS = ("function", "method", "class")
Question = Callable[[CodeFiles, Resolver, Sequence[DefinitionKey]], Any]


class PackedFiles:
    """The packed files of a directory, and the qualified names of their definitions."""

    def __init__(self, root: Path) -> None:
        self._rows = dict[str, StoredCode]()
        self._cache = CodeFileCache()
        self.use_cache = UseCache()
        names = list[StoredNames]()
        definitions = set[str]()
        for path, text in read_texts(root).items():
            data = text.encode()
            language = detect.detect(path, data[: detect.HEAD_BYTES])
            parsed = parse(path, data, language=language)
            code = pack_code(parsed.symbols, fact_table.pack_columns(parsed.fact_columns))
            self._rows[path] = StoredCode(
                path, 1, parsed.language, code.symbols or b"", code.facts or b""
            )
            names.append(StoredNames(path, 1, code.name_hashes or b""))
            definitions |= {s.qualified_name for s in parsed.symbols if s.kind in KINDS}
        self.definitions = sorted(definitions)
        self._table = NameTable()
        for part in split_files(names):
            self._table = self._table.replace((), part)

    def view(self) -> CodeFiles:
        """Return the files as a question reads them, with no limit of time."""
        return TimedFiles(CodeFilesView(self._table, self._read, self._cache), lambda: False)

    def _read(self, paths: Sequence[str]) -> Sequence[StoredCode]:
        return [self._rows[path] for path in paths if path in self._rows]


def ask_references(files: CodeFiles, resolver: Resolver, keys: Sequence[DefinitionKey]) -> Any:
    """Return the places of a page, the counts, and the number of files that were not read."""
    page = find_references(files, resolver, keys, ReferenceQuery(), lambda: False)
    places = [[*item.location, item.confidence, item.reason] for item in page.references]
    return [places, dict(page.counts), page.unread_files]


def ask_impact(files: CodeFiles, resolver: Resolver, keys: Sequence[DefinitionKey]) -> Any:
    """Return all affected definitions."""
    impact = find_impact(files, resolver, keys, ImpactBounds(DEPTH, "possible", lambda: False))
    return [[*a.key, a.distance, a.confidence, a.reason, a.via_name] for a in impact.affected]


QUESTIONS: Mapping[str, Question] = {"references": ask_references, "impact": ask_impact}


def measure(packed: PackedFiles, question: Question, names: Sequence[str]) -> dict[str, Any]:
    """Ask a question about each name, print the spread of CPU times, and return the answers."""
    answers = dict[str, Any]()
    cpu = list[float]()
    for name in names:
        began = time.process_time()
        files = packed.view()
        resolver = Resolver(files, packed.use_cache)
        try:
            keys = find_target_definitions(files, resolver, parse_target(name)).keys
            answers[name] = question(files, resolver, keys)
        except InvalidInput:  # an ambiguous name: its definitions are listed
            answers[name] = None
        cpu.append((time.process_time() - began) * 1000)
    say(f"{question.__name__}: CPU mean {sum(cpu) / len(cpu):.1f} ms, {spread(cpu)}")
    return answers


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--answers", type=Path)
    options = parser.parse_args()
    say(machine())
    packed = PackedFiles(options.directory)
    say(f"{len(packed.definitions)} names of definitions")
    rng = random.Random(options.seed)
    names = [rng.choice(packed.definitions) for _ in range(options.questions)]
    answers = {verb: measure(packed, question, names) for verb, question in QUESTIONS.items()}
    if options.answers:
        options.answers.write_text(json.dumps(answers, indent=1), "utf-8")


if __name__ == "__main__":
    main()
