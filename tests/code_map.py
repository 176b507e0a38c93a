"""The code map of ARCHITECTURE.md, made from docstrings: `python -m tests.code_map` writes it
anew.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "ARCHITECTURE.md"
PACKAGES = (ROOT / "daemon" / "cocosearchd", ROOT / "ipc" / "cocosearch_ipc")
BEGIN, END = "<!-- code map: `make map` writes it -->", "<!-- end of the code map -->"


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


def main() -> None:
    """Write the map into ARCHITECTURE.md."""
    text = DOCUMENT.read_text("utf-8")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    DOCUMENT.write_text(f"{head}{BEGIN}\n\n{code_map()}\n{END}{tail}", "utf-8")


if __name__ == "__main__":
    main()
