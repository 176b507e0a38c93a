"""Counterparts of a file by naming conventions: header and source, declarations, tests. Pure.

A counterpart must have exactly the conventional name: each name is looked up, no directory is
listed.
"""

from collections.abc import Container, Iterator, Sequence

from cocosearchd.languages.patterns.path_roles import TEST_ROOTS, is_test

MAX_COUNTERPARTS = 4  # of a file
MAX_PARTS = 20  # directories of a path; for a deeper file, only its own directory is searched
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".cuh")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".m", ".mm", ".cu")
# Suffix -> suffixes of the other side. `.py` has no entry: Python files seldom have declarations
# (`.pyi`), and the look-up would slow down every question about Python.
_SUFFIXES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_HEADERS, _SOURCES),
    **dict.fromkeys(_SOURCES, _HEADERS),
    ".pyi": (".py",),
    ".ml": (".mli",),
    ".mli": (".ml",),
    ".fs": (".fsi",),
    ".fsi": (".fs",),
    ".adb": (".ads",),
    ".ads": (".adb",),
}
# Suffix -> names of an interface and of its implementation, by the conventions of the language.
_IMPLEMENTATIONS: dict[str, tuple[tuple[str, str], ...]] = {
    ".cs": (("I{}", "{}"), ("I{}", "Default{}")),
    ".php": (("{}Interface", "{}"),),
    **dict.fromkeys((".java", ".kt"), (("{}", "{}Impl"), ("{}", "Default{}"))),
}
_IMPLEMENTED_IN = "impl"  # directory of implementations, below that of their interfaces
_DECLARED_IN = ("include", "inc", "headers")
_DEFINED_IN = ("src", "source", "lib")
# Suffix -> names of the tests of a file that is named `{0}`.
_TESTS: dict[str, tuple[str, ...]] = {
    ".py": ("test_{0}.py", "{0}_test.py"),
    ".go": ("{0}_test.go",),
    ".rb": ("{0}_spec.rb", "{0}_test.rb", "test_{0}.rb"),
    ".java": ("{0}Test.java", "{0}Tests.java"),
    ".kt": ("{0}Test.kt",),
    ".cs": ("{0}Tests.cs", "{0}Test.cs"),
    ".php": ("{0}Test.php",),
    **{
        suffix: (f"{{0}}.test{suffix}", f"{{0}}.spec{suffix}")
        for suffix in (".js", ".ts", ".jsx", ".tsx", ".mjs")
    },
    **{
        suffix: (f"{{0}}_test{suffix}", f"test_{{0}}{suffix}")
        for suffix in (".c", ".cc", ".cpp", ".cxx")
    },
}


def can_have_counterparts(path: str, *, with_tests: bool) -> bool:
    """Return True if files with this suffix can have counterparts."""
    _, suffix = _split_name(path)
    return suffix in _SUFFIXES or suffix in _IMPLEMENTATIONS or (with_tests and suffix in _TESTS)


def find_counterparts(
    path: str, files: Container[str], *, with_tests: bool, project: str = ""
) -> tuple[str, ...]:
    """Return the counterparts of a file among `files`, the nearest first.

    With `with_tests`, its tests are counterparts too: for questions that ask for tests. Headers may
    be in a directory with the name of the `project`.
    """
    candidates = [
        *_other_sides(path, project),
        *_implementations(path),
        *(_tests_of(path) if with_tests else ()),
    ]
    unique = dict.fromkeys(candidate for candidate in candidates if candidate != path)
    return tuple(candidate for candidate in unique if candidate in files)[:MAX_COUNTERPARTS]


def _other_sides(path: str, project: str) -> Iterator[str]:
    """Yield paths that the other side of a file may have.

    The sides are header and source, or interface and implementation.
    """
    name, suffix = _split_name(path)
    directory = path.rpartition("/")[0]
    for folder in (directory, *_mirrored(directory, project)):
        for other_suffix in _SUFFIXES.get(suffix, ()):
            yield f"{folder}/{name}{other_suffix}".lstrip("/")


def _implementations(path: str) -> Iterator[str]:
    """Yield paths that the implementation of an interface may have, and the other way round."""
    name, suffix = _split_name(path)
    directory = path.rpartition("/")[0]
    parent, _, folder = directory.rpartition("/")
    above = parent if folder == _IMPLEMENTED_IN else directory
    for interface, implementation in _IMPLEMENTATIONS.get(suffix, ()):
        if base := _base_name(name, interface):
            other_name = implementation.format(base)
            yield f"{directory}/{other_name}{suffix}".lstrip("/")
            yield f"{directory}/{_IMPLEMENTED_IN}/{other_name}{suffix}".lstrip("/")
        if base := _base_name(name, implementation):
            yield f"{directory}/{interface.format(base)}{suffix}".lstrip("/")
            yield f"{above}/{interface.format(base)}{suffix}".lstrip("/")


def _base_name(name: str, pattern: str) -> str:
    """Return the part of a name for which a pattern stands; "" if the name does not fit.

    It begins with a capital: `Item` is no interface of `tem`.
    """
    beginning, end = pattern.split("{}")
    base = name.removeprefix(beginning).removesuffix(end)
    return base if base[:1].isupper() and pattern.format(base) == name else ""


def _mirrored(directory: str, project: str) -> Iterator[str]:
    """Yield the possible directories of the other side: for `include/shop`, `src/shop` and `src`."""
    parts = directory.split("/")
    for number, part in enumerate(parts if len(parts) <= MAX_PARTS else ()):
        if part in _DECLARED_IN:
            for other_part in _DEFINED_IN:
                yield "/".join((*parts[:number], other_part, *parts[number + 1 :]))
                yield "/".join((*parts[:number], other_part, *parts[number + 2 :]))
        elif part in _DEFINED_IN:
            for other_part in _DECLARED_IN:
                yield "/".join((*parts[:number], other_part, *parts[number + 1 :]))
                for name in (project, *parts[max(0, number - 1) : number]):
                    yield "/".join((*parts[:number], other_part, name, *parts[number + 1 :]))


def _tests_of(path: str) -> Iterator[str]:
    """Yield possible paths of the tests of a file: beside it first, then in directories of tests."""
    name, suffix = _split_name(path)
    if suffix not in _TESTS or is_test(path):
        return
    parts = path.split("/")[:-1]
    folders = ["/".join(parts)]
    for test_folder in TEST_ROOTS if len(parts) <= MAX_PARTS else ():
        folders += ["/".join((*parts, test_folder))]
        # for `src/main/java/a`: `src/test/java/a`; for `src/shop/a`: `tests/shop/a` and `tests/a`
        folders += [
            "/".join((*parts[:number], test_folder, *parts[end:]))
            for number in range(len(parts))
            for end in range(number + 1, min(number + 3, len(parts)) + 1)
        ]
    for folder in dict.fromkeys(folders):
        for tested_name in _tested_names(name, parts[-1:]):
            for pattern in _TESTS[suffix]:
                yield f"{folder}/{pattern.format(tested_name)}".lstrip("/")


def _tested_names(name: str, folders: Sequence[str]) -> list[str]:
    """Return the names that a test may have for a file: `filters/mail` is `filter_mail` as well."""
    with_folder = [f"{folder}_{name}" for folder in folders]
    return [name, *with_folder, *(f"{folder.removesuffix('s')}_{name}" for folder in folders)]


def _split_name(path: str) -> tuple[str, str]:
    """Return the name of a file without its suffix, and the suffix."""
    name, dot, suffix = path.rpartition("/")[2].rpartition(".")
    return name, f"{dot}{suffix}"
