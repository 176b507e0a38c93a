"""Files of an index with facts that are written by hand, for tests of resolution alone."""

from collections.abc import Sequence

from benchmarks.graph.parsed_files import ParsedFiles
from cocosearchd.graph.code_files import CodeFile, Resolution
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.languages.code_facts import TOP_LEVEL, Binding, CodeFacts, Import, Use, UseKind
from cocosearchd.model import Symbol

_LANGUAGES = {"py": "python", "ts": "typescript", "js": "javascript", "go": "go", "rb": "ruby"}


def file(
    path: str,
    names: str = "",
    imports: Sequence[Import] = (),
    uses: Sequence[Use] = (),
    bindings: Sequence[Binding] = (),
) -> CodeFile:
    """Return a file whose symbols are written as `A(A.run, A.stop(A.stop.inner)) main`.

    Names with a capital are classes, with a leading underscore variables, others
    functions; those with a dot are members.
    """
    symbols: list[Symbol] = []
    open_symbols: list[int] = []
    closed: dict[int, int] = {}
    word = ""
    for position, char in enumerate(f"{names} "):
        if char not in "(), ":
            word += char
            continue
        if word:
            symbols.append(_symbol(word, position))
            closed[len(symbols) - 1] = position
        if char == "(":
            open_symbols.append(len(symbols) - 1)
        if char == ")":
            closed[open_symbols.pop()] = position + 1
        word = ""
    placed = [_ending(symbol, closed[i]) for i, symbol in enumerate(symbols)]
    facts = CodeFacts("", tuple(imports), tuple(uses), tuple(bindings))
    return CodeFile(path, _LANGUAGES[path.rpartition(".")[2]], tuple(placed), facts)


def _symbol(qualified_name: str, position: int) -> Symbol:
    parent, _, name = qualified_name.rpartition(".")
    kind = _kind(name)
    start = position - len(qualified_name)
    return Symbol(kind, name, qualified_name, "", parent or None, start, position, 1, 1)


def _kind(name: str) -> str:
    if name.startswith("_"):
        return "constant"
    return "class" if name[0].isupper() else "function"


def _ending(symbol: Symbol, end: int) -> Symbol:
    return Symbol(
        kind=symbol.kind,
        name=symbol.name,
        qualified_name=symbol.qualified_name,
        signature=symbol.signature,
        parent=symbol.parent,
        start_byte=symbol.start_byte,
        end_byte=end,
        start_line=1,
        end_line=1,
    )


def use(text: str, symbol: int = TOP_LEVEL, kind: UseKind = "call", is_local: bool = False) -> Use:
    """Return a use of a dotted text: what precedes the last dot is the receiver."""
    receiver, _, name = text.rpartition(".")
    return Use(kind, name, receiver, is_local, 1, 1, symbol)


def imported(
    module: str, name: str = "", local: str | None = None, exported: bool = False
) -> Import:
    """Return an import, by default under its own name."""
    return Import(module, name, name if local is None else local, 1, exported)


def names_of(files: ParsedFiles, resolution: Resolution) -> list[str]:
    """Return the definitions of a resolution as `path:qualified name`, sorted."""
    loaded = files.load({key.path for key in resolution.definitions})
    return sorted(
        f"{key.path}:{loaded[key.path].symbols[key.position].qualified_name}"
        if key.position >= 0
        else key.path
        for key in resolution.definitions
    )


def resolve(files: Sequence[CodeFile], position: int = 0) -> tuple[list[str], str, str]:
    """Resolve a use of the first file; return its definitions, confidence and reason."""
    index = ParsedFiles(files)
    resolution = Resolver(index).resolve(files[0], files[0].facts.uses[position])
    return names_of(index, resolution), resolution.confidence, resolution.reason
