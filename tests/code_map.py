"""Writes the code map of ARCHITECTURE.md, the test map of tests/README.md and the script map of
benchmarks/README.md, all from docstrings: `python -m tests.code_map`.
"""

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "ARCHITECTURE.md"
PACKAGES = (ROOT / "daemon" / "cocosearchd", ROOT / "ipc" / "cocosearch_ipc")
BEGIN, END = "<!-- code map: `make map` writes it -->", "<!-- end of the code map -->"
TESTS = ROOT / "tests"
TEST_DOCUMENT = TESTS / "README.md"
BEGIN_TESTS, END_TESTS = "<!-- test map: `make map` writes it -->", "<!-- end of the test map -->"
BENCHMARKS = ROOT / "benchmarks"
BENCHMARK_DOCUMENT = BENCHMARKS / "README.md"
BEGIN_SCRIPTS = "<!-- script map: `make map` writes it -->"
END_SCRIPTS = "<!-- end of the script map -->"
# Files that the tests read, not modules of theirs.
TEST_DATA = ("languages/cases", "quality/corpus")
MAX_IMPORTERS = 4


def summary(path: Path) -> str:
    """Return the first paragraph of a module's docstring in one line, without the full stop."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(docstring.partition("\n\n")[0].split()).removesuffix(".")


def rooms(package: Path) -> Iterator[Path]:
    """Yield the folders of a package that hold modules, each before the folders in it."""
    yield package
    for folder in sorted(path.parent for path in package.rglob("__init__.py")):
        if folder != package:
            yield folder


def room_lines(room: Path, package: Path) -> Iterator[str]:
    """Yield the lines of one room: a heading, and a line for each module and its data."""
    yield f"**`{room.relative_to(package.parent)}`**: {summary(room / '__init__.py')}"
    yield ""
    modules = [path for path in sorted(room.glob("*.py")) if path.name != "__init__.py"]
    yield from (f"- `{path.stem}`: {summary(path)}" for path in modules)
    data = list(data_lines(room))
    yield from data
    if modules or data:
        yield ""


def data_lines(room: Path) -> Iterator[str]:
    """Yield a line for each data file of a room, and one for each folder that has only data."""
    for path in sorted(room.iterdir()):
        if path.is_file() and path.suffix not in {".py", ".pyc"}:
            yield f"- `{path.name}`"
        elif path.is_dir() and path.name != "__pycache__" and not (path / "__init__.py").exists():
            files = [file.name for file in path.iterdir() if file.is_file()]
            suffixes = " ".join(sorted({Path(name).suffix for name in files} - {".pyc"}))
            yield f"- `{path.name}/`: data files ({suffixes})"


def code_map() -> str:
    """Return the whole map as Markdown."""
    return "\n".join(
        line
        for package in PACKAGES
        for room in rooms(package)
        for line in room_lines(room, package)
    )


def modules_of_tests() -> list[Path]:
    """Return the modules of the tests: tests, and what helps them."""
    return [
        path
        for path in sorted(TESTS.rglob("*.py"), key=lambda path: (path.parent, path))
        if path.name != "__init__.py"
        and not path.relative_to(TESTS).as_posix().startswith(TEST_DATA)
    ]


def imported_modules(path: Path, modules: Collection[str]) -> set[str]:
    """Return those of `modules` that a module imports, whole or in part."""
    imported = set[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            imported.add(node.module)
            imported.update(f"{node.module}.{alias.name}" for alias in node.names)
    return imported & set(modules)


def modules_without_own_test() -> set[str]:
    """Return the modules of the packages that have no test file of their name in their folder.

    A test file in a folder above counts as well: `graph/test_resolver.py`, of `graph/resolution`.
    """
    tests = {path.relative_to(TESTS) for path in modules_of_tests()}
    return {
        ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for package in PACKAGES
        for path in package.rglob("*.py")
        if path.name != "__init__.py" and tests.isdisjoint(own_tests(package, path))
    }


def own_tests(package: Path, module: Path) -> list[Path]:
    """Return the paths below `TESTS` that the test of a module may have: its folder, or above."""
    top = Path("ipc") if package.name == "cocosearch_ipc" else Path()
    folder = top / module.parent.relative_to(package)
    return [parent / f"test_{module.stem}.py" for parent in (folder, *folder.parents)]


def modules_by_test() -> Iterator[tuple[Path, list[str]]]:
    """Yield each module of the tests with the names of the modules that have their tests there.

    These are the modules that it imports, and that have no test file of their own name. What more
    than `MAX_IMPORTERS` test files import is common to all of them.
    """
    untested = modules_without_own_test()
    imports = {path: imported_modules(path, untested) for path in modules_of_tests()}
    importers = Counter(
        name for path, names in imports.items() if path.stem.startswith("test_") for name in names
    )
    for path, names in imports.items():
        rare = {name for name in names if importers[name] <= MAX_IMPORTERS}
        is_test = path.stem.startswith("test_")
        yield path, sorted(name.rpartition(".")[2] for name in rare) if is_test else []


def map_of_tests() -> str:
    """Return the map of the tests as Markdown: a heading a folder, and a line for each module."""
    lines = list[str]()
    folder = None
    for path, modules in modules_by_test():
        if path.parent != folder:
            folder = path.parent
            lines += ["", f"**`{folder.relative_to(ROOT).as_posix()}`**", ""]
        more = f". Also: {', '.join(f'`{name}`' for name in modules)}" if modules else ""
        lines.append(f"- `{path.stem}`: {summary(path)}{more}")
    return "\n".join(lines[1:])


def map_of_benchmarks() -> str:
    """Return the map of the benchmarks as Markdown: a line for each script and what helps it."""
    paths = (path for room in rooms(BENCHMARKS) for path in sorted(room.glob("*.py")))
    modules = [path for path in paths if path.name != "__init__.py"]
    return "\n".join(
        f"- `{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}`: {summary(path)}"
        for path in modules
    )


def replace_between(document: Path, begin: str, end: str, text: str) -> None:
    """Replace what a document has between two marks."""
    old = document.read_text("utf-8")
    document.write_text(
        f"{old.split(begin)[0]}{begin}\n\n{text}\n{end}{old.split(end)[1]}", "utf-8"
    )


def main() -> None:
    """Write all maps into their documents."""
    replace_between(DOCUMENT, BEGIN, END, code_map())
    replace_between(TEST_DOCUMENT, BEGIN_TESTS, END_TESTS, f"{map_of_tests()}\n")
    replace_between(BENCHMARK_DOCUMENT, BEGIN_SCRIPTS, END_SCRIPTS, f"{map_of_benchmarks()}\n")


if __name__ == "__main__":
    main()
