"""The table of names, against a plain dictionary of the same files."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cocosearchd.graph.code_files import NameFiles
from cocosearchd.graph.hash_files import MAX_TABLE_FILES
from cocosearchd.graph.name_table import NameTable, split_files
from cocosearchd.languages import name_hashes
from cocosearchd.languages.name_hashes import hash_name
from cocosearchd.store.file_facts import StoredNames

NAMES = ("run", "stop", "Client", "main", "é", "a.b")
PARTS = ("a", "b", "src", "main.py", "index.ts", "a.py")
names = st.frozensets(st.sampled_from(NAMES))
paths = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("/".join)


@dataclass(frozen=True)
class PlainFile:
    generation: int
    defined: frozenset[str]
    used: frozenset[str]


@dataclass
class PlainTable:
    files: dict[str, PlainFile] = field(default_factory=dict)

    def defining(self, name: str) -> list[str]:
        return sorted(path for path, file in self.files.items() if name in file.defined)

    def using(self, name: str) -> list[str]:
        return sorted(path for path, file in self.files.items() if name in file.used)

    def ending(self, suffix: str) -> list[str]:
        return sorted(path for path in self.files if f"/{path}".endswith(f"/{suffix}"))

    def inside(self, directory: str) -> list[str]:
        return sorted(path for path in self.files if path.rpartition("/")[0] == directory)


def stored(path: str, file: PlainFile) -> StoredNames:
    return StoredNames(
        path, file.generation, name_hashes.pack(file.defined, map(str.encode, file.used))
    )


def graph_names(table: NameFiles, all_paths: Sequence[str]) -> dict[int, list[str]]:
    return {
        hashed: [all_paths[number] for number in table.files[first:last]]
        for hashed, first, last in zip(
            table.names.tolist(), table.starts[:-1].tolist(), table.starts[1:].tolist(), strict=True
        )
    }


class TableComparison(RuleBasedStateMachine):
    """Applies the same changes to both tables; they answer alike after each."""

    def __init__(self) -> None:
        super().__init__()
        self.table = NameTable()
        self.plain = PlainTable()
        self.generation = 0

    @rule(
        changes=st.dictionaries(paths, st.one_of(st.none(), st.tuples(names, names)), max_size=5),
        noted=st.frozensets(paths, max_size=2),
    )
    def change(
        self,
        changes: dict[str, tuple[frozenset[str], frozenset[str]] | None],
        noted: frozenset[str],
    ) -> None:
        """Write and delete files; a noted file that is as before is written again."""
        self.generation += 1
        files = {path: self.plain.files[path] for path in noted if path in self.plain.files}
        for path, parts in changes.items():
            files.pop(path, None)
            if parts is None:
                self.plain.files.pop(path, None)
            else:
                files[path] = PlainFile(self.generation, *parts)
        self.plain.files |= files
        rows = [stored(path, file) for path, file in files.items()]
        self.table = self.table.replace({*changes, *noted, *files}, rows)

    @invariant()
    def names_are_alike(self) -> None:
        for name in NAMES:
            assert self.table.files_defining(name) == self.plain.defining(name)
            assert self.table.files_using(name) == self.plain.using(name)

    @invariant()
    def paths_are_alike(self) -> None:
        assert self.table.paths() == sorted(self.plain.files)
        assert self.table.file_count == len(self.plain.files)
        for path in (*self.plain.files, "missing.py", *PARTS):
            file = self.plain.files.get(path)
            assert self.table.generation_of(path) == (file and file.generation)
            suffix = path
            while suffix:
                assert self.table.paths_ending(suffix) == self.plain.ending(suffix)
                suffix = suffix.partition("/")[2]
            directory = path.rpartition("/")[0]
            assert self.table.paths_in(directory) == self.plain.inside(directory)

    @invariant()
    def only_changed_files_are_reported(self) -> None:
        generations = {path: file.generation for path, file in self.plain.files.items()}
        assert self.table.changed_paths(generations) == set()
        if generations:
            first = min(generations)
            changed = generations | {first: -5, "new.py": 1}
            assert self.table.changed_paths(changed) == {first, "new.py"}
            del generations[first]
            assert self.table.changed_paths(generations) == {first}

    @invariant()
    def graphs_are_alike(self) -> None:
        graph = self.table.name_graph()
        assert graph.paths == sorted(self.plain.files)
        assert graph_names(graph.definitions, graph.paths) == {
            hash_name(name): self.plain.defining(name)
            for name in NAMES
            if self.plain.defining(name)
        }
        assert graph_names(graph.uses, graph.paths) == {
            hash_name(name): self.plain.using(name) for name in NAMES if self.plain.using(name)
        }


TestTableComparison = TableComparison.TestCase
TestTableComparison.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)


def test_the_moment_of_an_earlier_table_stays() -> None:
    table = NameTable().replace((), [stored("a.py", PlainFile(1, frozenset({"run"}), frozenset()))])
    later = table.replace(["a.py"], [])
    assert table.files_defining("run") == ["a.py"]
    assert later.files_defining("run") == []


def test_many_small_changes_make_few_segments() -> None:
    table = NameTable()
    for number in range(500):
        file = PlainFile(number, frozenset({"run"}), frozenset({f"name{number}"}))
        table = table.replace([f"{number % 300}.py"], [stored(f"{number % 300}.py", file)])
    assert len(table._views) <= 12
    assert len(table.files_defining("run")) == 300
    assert table.files_using("name3") == []
    assert table.files_using("name499") == ["199.py"]


def test_names_that_cannot_be_read_are_none() -> None:
    table = NameTable().replace((), [StoredNames("a.py", 1, b"\xff\xff\xff\xff\0\0\0\0")])
    assert table.paths() == ["a.py"]


@given(st.lists(st.integers(0, 3), max_size=40))
def test_parts_of_files_fit_into_segments(sizes: list[int]) -> None:
    files = [StoredNames(f"{n}", 1, b"\0" * 4 * size) for n, size in enumerate(sizes)]
    parts = list(split_files(files))
    assert [file for part in parts for file in part] == files


def test_a_table_larger_than_a_segment_answers_as_one() -> None:
    """Limits of a few names, so that the parts are many and small."""
    files = [
        stored(
            f"d{n % 7}/{n}.py", PlainFile(n, frozenset({f"f{n}"}), frozenset({"run", f"u{n % 5}"}))
        )
        for n in range(MAX_TABLE_FILES + 10)
    ]
    table = NameTable().replace((), files)
    assert len(table._views) > 1
    assert table.file_count == len(files)
    assert len(table.files_using("run")) == len(files)
    assert table.files_defining("f65540") == [files[65540].path]
    sizes = [len(view.live) for view in table._views]
    assert max(sizes) <= MAX_TABLE_FILES
    assert sum(sizes) == len(files)
    assert np.iinfo(table._views[0].block.uses.files.dtype).max == MAX_TABLE_FILES - 1
