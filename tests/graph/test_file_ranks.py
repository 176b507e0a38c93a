"""Ranks of files and names, and maps made from them."""

from collections.abc import Sequence

import numpy as np
import pytest

from cocosearchd.graph.code_files import CodeFile, DefinitionKey, Resolution
from cocosearchd.graph.questions.question_limits import TimedFiles
from cocosearchd.graph.structure.central_symbols import (
    MAX_NAMES,
    MapFiles,
    RepositoryMap,
    map_repository,
)
from cocosearchd.graph.structure.file_ranks import DAMPING, MAX_DEFINING_FILES, NameLinks
from cocosearchd.languages.code_facts import Use
from cocosearchd.languages.name_hashes import hash_name
from tests.graph.memory_files import MemoryFiles, call, code_file, symbol


class ByName:
    """Resolves a name to the first definition with it; "foreign" names have none."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files

    def resolve(self, file: CodeFile, use: Use) -> Resolution:
        """Return the definition of a name."""
        keys = (
            DefinitionKey(path, position)
            for path in self._files.files_defining(use.name)
            for position, item in enumerate(self._files.files[path].symbols)
            if item.name == use.name and use.receiver != "foreign"
        )
        return Resolution(tuple(keys)[:1], "certain", "test")


def make_map(files: MemoryFiles, preferred: Sequence[str], budget: int) -> RepositoryMap:
    """Make a map with time enough."""
    return map_repository(files, ByName(files), MapFiles(preferred), budget, lambda: False)


def project() -> MemoryFiles:
    """Make a project whose center is `core.save`, and an island of two files."""
    return MemoryFiles(
        [
            code_file("core.py", [symbol("save", (1, 2)), symbol("_lock", (3, 4))]),
            code_file("a.py", [symbol("run", (1, 2))], [call("save", 1), call("_lock", 2)]),
            code_file("b.py", [symbol("stop", (1, 2))], [call("save", 1), call("run", 2)]),
            code_file("tests/test_a.py", [symbol("check", (1, 2))], [call("save", 1)]),
            code_file("tests/test_b.py", [symbol("test_b", (1, 2))], [call("check", 1)] * 3),
            code_file("island/x.py", [symbol("sand", (1, 2))]),
            code_file("island/y.py", [symbol("palm", (1, 2))], [call("sand", 1)]),
        ]
    )


def names(result: RepositoryMap) -> list[str]:
    """Return the names in a map, in its order."""
    return [item.symbol.name for file in result.files for item in file.symbols]


def test_ranks_are_the_stationary_distribution_of_a_random_reader() -> None:
    links = NameLinks(project().name_graph())
    ranks = links.rank().files
    rare = np.log1p(7)
    common = np.log1p(7 / 3)  # three files use `save`
    to_core = common / (rare + common)
    edges = {("a", "core"): 1.0, ("b", "core"): to_core, ("b", "a"): 1 - to_core}
    edges |= {("test_a", "core"): 1.0}
    edges |= {("test_b", "test_a"): 1.0, ("y", "x"): 1.0}
    stems = [path.rpartition("/")[2].removesuffix(".py") for path in links.paths]
    matrix = np.array([[edges.get((s, t), 0.0) for t in stems] for s in stems])
    matrix[matrix.sum(axis=1) == 0] = 1 / len(stems)
    google = DAMPING * matrix + (1 - DAMPING) / len(stems)
    expected = np.linalg.matrix_power(google, 200)[0]
    assert ranks.sum() == pytest.approx(1.0)
    assert ranks == pytest.approx(expected, abs=1e-4)


def test_a_map_begins_with_what_most_files_lead_to() -> None:
    files = project()
    everything = make_map(files, [], 10_000)
    assert names(everything)[0] == "save"
    assert set(names(everything)) == {"save", "_lock", "run", "check", "sand"}
    assert names(everything).index("run") < names(everything).index("check"), "tests come late"


def test_a_map_fits_its_budget_and_has_at_least_one_definition() -> None:
    files = project()
    for budget in (1, 20, 40, 60):
        small = make_map(files, [], budget)
        assert small.tokens <= budget or len(names(small)) == 1
    assert names(make_map(files, [], 1)) == ["save"]


def test_preferred_files_draw_the_map_to_what_they_use() -> None:
    files = project()
    island = make_map(files, ["island/y.py"], 10_000)
    assert names(island) == ["sand"]
    assert names(make_map(files, ["not/there.py"], 10_000))[0] == "save"


def test_equal_indexes_give_equal_maps() -> None:
    first, second = (make_map(project(), [], 50) for _ in range(2))
    assert first == second


def test_a_name_that_many_files_define_links_none() -> None:
    common = [code_file(f"c{i}.py", [symbol("get", (1, 2))]) for i in range(MAX_DEFINING_FILES + 1)]
    user = code_file("user.py", [], [call("get", 1)])
    assert not len(NameLinks(MemoryFiles([*common, user]).name_graph()).names)
    few = NameLinks(MemoryFiles([*common[1:], user]).name_graph())
    assert few.names.tolist() == [hash_name("get")]
    assert len(few.using_files) == 1


def test_a_use_of_an_own_name_is_no_link() -> None:
    recursive = code_file("a.py", [symbol("f", (1, 2))], [call("f", 3)])
    links = NameLinks(MemoryFiles([recursive]).name_graph())
    assert not len(links.using_files)
    assert names(make_map(MemoryFiles([recursive]), [], 100)) == []


def test_an_index_without_files_has_an_empty_map() -> None:
    files = MemoryFiles([])
    assert make_map(files, [], 100) == RepositoryMap((), 0, complete=True)


def test_a_name_that_its_users_do_not_mean_is_not_central() -> None:
    names_of_lists = [
        code_file(
            f"user{i}.py",
            [symbol(f"f{i}", (1, 2))],
            [call("append", 1)._replace(receiver="foreign"), call("send", 1)],
        )
        for i in range(20)
    ]
    definitions = code_file("a.py", [symbol("append", (1, 2)), symbol("send", (3, 4))])
    files = MemoryFiles([definitions, *names_of_lists])
    assert names(make_map(files, [], 1_000)) == ["send"]


def test_only_selected_files_are_in_a_map() -> None:
    files = project()
    scope = MapFiles(select=lambda paths: [path for path in paths if path != "core.py"])
    selected = map_repository(files, ByName(files), scope, 1_000, lambda: False)
    assert set(names(selected)) == {"run", "check", "sand"}


def test_selected_files_are_in_a_map_however_low_they_rank() -> None:
    count = MAX_NAMES + 10
    central_calls = [call(f"f{i}", i + 1) for i in range(count)]
    files = MemoryFiles(
        [
            code_file("core.py", [symbol(f"f{i}", (i + 1, i + 1)) for i in range(count)]),
            *(code_file(f"user{number}.py", [], central_calls) for number in range(3)),
            code_file("island/x.py", [symbol("sand", (1, 2))]),
            code_file("island/y.py", [symbol("palm", (1, 2))], [*central_calls, call("sand", 1)]),
        ]
    )
    scope = MapFiles(select=lambda paths: [path for path in paths if path.startswith("island/")])
    selected = map_repository(files, ByName(files), scope, 1_000, lambda: False)
    assert names(selected) == ["sand"]


def test_a_map_that_is_not_ready_in_time_says_so() -> None:
    files = MemoryFiles(
        [
            code_file("a.py", [symbol(f"f{i}", (i + 1, i + 1)) for i in range(5_000)]),
            code_file("b.py", [], [call(f"f{i}", 1) for i in range(5_000)]),
        ]
    )
    late = map_repository(files, ByName(files), MapFiles(), 10**9, lambda: True)
    assert not late.complete
    assert 0 < len(names(late)) < 100
    timed = TimedFiles(files, lambda: True)
    nothing = map_repository(timed, ByName(files), MapFiles(), 10**9, lambda: True)
    assert (nothing.files, nothing.complete) == ((), False)
