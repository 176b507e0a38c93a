"""Dependencies of files and modules, over hand-made imports."""

from collections.abc import Sequence

import pytest

from cocosearchd.graph.code_files import CodeFile
from cocosearchd.graph.structure import file_imports
from cocosearchd.graph.structure.dependencies import (
    ModuleEdge,
    file_cycles,
    module_graph,
    module_of,
    reach,
)
from cocosearchd.graph.structure.file_imports import FileEdge, ImportGraph
from cocosearchd.graph.structure.package_names import package_name
from cocosearchd.languages.code_facts import Import
from tests.graph.memory_files import MemoryFiles, code_file, module_import


class DottedModules:
    """Resolves `a.b` to `a/b.py`: the rules of languages have their own tests."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files

    def imported_files(self, file: CodeFile, item: Import) -> Sequence[str]:
        """Return the file of a module."""
        path = item.module.replace(".", "/") + ".py"
        return [path] if self._files.has_path(path) else []


def import_graph(imports: dict[str, str]) -> ImportGraph:
    """Make files with imports: path -> modules."""
    files = MemoryFiles(
        code_file(path, imports=[module_import(m, i + 1) for i, m in enumerate(modules.split())])
        for path, modules in imports.items()
    )
    return ImportGraph(files, DottedModules(files))


APPLICATION = {
    "app/main.py": "app.views os.path",
    "app/views.py": "app.models flask",
    "app/models.py": "db.base flask.json",
    "db/base.py": "os sqlalchemy",
    "tests/views.py": "app.views",
    "unrelated/views.py": "os",
}


def never() -> bool:
    """Return False: there is time."""
    return False


def test_imports_are_followed_to_a_depth() -> None:
    step = reach(import_graph(APPLICATION), ["app/main.py"], "imports", 2, 100, never)
    assert [(file.path, file.depth) for file in step.files] == [
        ("app/main.py", 0),
        ("app/views.py", 1),
        ("app/models.py", 2),
    ]
    assert step.edges == (
        FileEdge("app/main.py", "app/views.py", 1),
        FileEdge("app/views.py", "app/models.py", 1),
    )
    assert step.packages == (("os", 1),)
    assert step.complete


def test_importers_are_followed_to_a_depth() -> None:
    step = reach(import_graph(APPLICATION), ["db/base.py"], "importers", 9, 100, never)
    assert [(file.path, file.depth) for file in step.files] == [
        ("db/base.py", 0),
        ("app/models.py", 1),
        ("app/views.py", 2),
        ("app/main.py", 3),
        ("tests/views.py", 3),
    ]


def test_a_circle_ends_the_walk_and_is_reported() -> None:
    circle = import_graph({"a.py": "b", "b.py": "c", "c.py": "a", "d.py": "d"})
    step = reach(circle, ["a.py"], "imports", 1_000, 100, never)
    assert [file.path for file in step.files] == ["a.py", "b.py", "c.py"]
    assert file_cycles(step.edges) == (("a.py", "b.py", "c.py"),)


def test_a_chain_of_1_000_imports_is_followed() -> None:
    chain = import_graph({f"m{number}.py": f"m{number + 1}" for number in range(1_100)})
    step = reach(chain, ["m0.py"], "imports", 1_000, 5_000, never)
    assert step.files[-1].path == "m1000.py"


@pytest.mark.parametrize(("max_files", "expired"), [(3, False), (100, True)])
def test_a_walk_that_ends_early_says_so(max_files: int, expired: bool) -> None:
    graph = import_graph({"hub.py": "", **{f"user{i}.py": "hub" for i in range(10)}})
    step = reach(graph, ["hub.py"], "importers", 1, max_files, lambda: expired)
    assert not step.complete
    assert len(step.files) == (1 if expired else 3)


def test_too_many_candidates_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_imports, "MAX_CANDIDATES", 4)
    graph = import_graph({"hub.py": "", **{f"user{i}.py": "hub" for i in range(10)}})
    step = reach(graph, ["hub.py"], "importers", 1, 100, never)
    assert (len(step.files), step.complete) == (5, False)


def test_modules_are_directories_and_files_with_counted_imports() -> None:
    paths = sorted(APPLICATION)
    modules = module_graph(import_graph(APPLICATION), "", paths, 1, never)
    assert modules.modules == (("app", 3), ("db", 1), ("tests", 1), ("unrelated", 1))
    assert modules.edges == (ModuleEdge("app", "db", 1), ModuleEdge("tests", "app", 1))
    assert modules.packages == (("os", 3), ("flask", 2), ("sqlalchemy", 1))
    inside = module_graph(
        import_graph(APPLICATION), "app", [p for p in paths if "app/" in p], 1, never
    )
    assert [name for name, _ in inside.modules] == ["app/main.py", "app/models.py", "app/views.py"]
    assert ModuleEdge("app/models.py", "db", 1) in inside.edges


def test_modules_that_import_each_other_are_a_cycle() -> None:
    graph = import_graph({"a/x.py": "b.y", "b/y.py": "a.z", "a/z.py": "", "c/w.py": "a.x"})
    paths = ["a/x.py", "a/z.py", "b/y.py", "c/w.py"]
    assert module_graph(graph, "", paths, 1, never).cycles == (("a", "b"),)
    assert module_graph(graph, "", paths, 2, never).cycles == ()


def test_modules_that_were_not_read_in_time_are_left_out() -> None:
    modules = module_graph(import_graph(APPLICATION), "", sorted(APPLICATION), 1, lambda: True)
    assert (modules.modules, modules.complete) == ((), False)


def test_each_file_is_loaded_once_a_question() -> None:
    files = MemoryFiles(code_file(path) for path in ("a.py", "b.py"))
    graph = ImportGraph(files, DottedModules(files))
    graph.resolve(["a.py", "b.py"])
    graph.imports("a.py")
    graph.resolve(["a.py", "missing.py"])
    assert files.loads == 2


@pytest.mark.parametrize(
    ("path", "directory", "level", "module"),
    [
        ("a/b/c.py", "", 1, "a"),
        ("a/b/c.py", "", 2, "a/b"),
        ("a/b/c.py", "a", 1, "a/b"),
        ("ab/c.py", "a", 1, "ab"),
        ("c.py", "a", 1, "c.py"),
    ],
)
def test_modules_are_named_by_directories(
    path: str, directory: str, level: int, module: str
) -> None:
    assert module_of(path, directory, level) == module


@pytest.mark.parametrize(
    ("language", "module", "package"),
    [
        ("python", "os.path", "os"),
        ("python", ".views", ""),
        ("javascript", "@scope/tool/lib", "@scope/tool"),
        ("typescript", "react-dom/client", "react-dom"),
        ("typescript", "@/components/x", ""),
        ("typescript", "./x", ""),
        ("typescript", "node:fs", "node:fs"),
        ("go", "net/http", "net/http"),
        ("go", "github.com/a/b/c/d", "github.com/a/b"),
        ("rust", "serde::de", "serde"),
        ("rust", "crate::a", ""),
        ("java", "com.google.gson.Gson", "com.google.gson"),
        ("java", "java.util.Map.Entry", "java.util"),
        ("csharp", "System.Text.Json", "System.Text.Json"),
        ("php", "Symfony\\Component\\Http", "Symfony\\Component"),
        ("c", "sys/types.h", "sys/types.h"),
        ("python", "", ""),
    ],
)
def test_packages_have_the_names_of_their_registries(
    language: str, module: str, package: str
) -> None:
    assert package_name(language, module) == package
