"""The interface of module rules: all that resolution asks about a language."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cocosearchd.graph.code_files import CodeFile, CodeFiles

# The files that a module means, as it is written in a file. Empty: it is outside of the index. A
# path that ends with "/" is a directory that is a module without a file of its own.
FindModule = Callable[[CodeFiles, CodeFile, str], tuple[str, ...]]
# The files of the module with a name within a module, of which the paths are given.
FindSubmodule = Callable[[CodeFiles, Sequence[str], str], tuple[str, ...]]
# The other files whose top-level names are visible in a file without an import.
FindNeighbours = Callable[[CodeFiles, CodeFile], Sequence[str]]


def find_no_module(files: CodeFiles, file: CodeFile, module: str) -> tuple[str, ...]:  # noqa: ARG001
    """Return no file: the language has no modules that its files name."""
    return ()


def find_no_submodule(files: CodeFiles, paths: Sequence[str], name: str) -> tuple[str, ...]:  # noqa: ARG001
    """Return no file: the modules of the language have no modules inside."""
    return ()


def find_no_neighbours(files: CodeFiles, file: CodeFile) -> Sequence[str]:  # noqa: ARG001
    """Return no file: a name of another file needs an import."""
    return ()


@dataclass(frozen=True, slots=True)
class ModuleRules:
    """The rules of a language family. Its functions are pure over the port."""

    family: str  # files of one family can use each other's names
    find_module: FindModule = find_no_module
    find_submodule: FindSubmodule = find_no_submodule
    find_neighbours: FindNeighbours = find_no_neighbours

    # Names with a receiver
    instance_names: frozenset[str] = frozenset()  # of the object itself: self, this
    parent_names: frozenset[str] = frozenset()  # of its base class: super, base
    constructor_names: frozenset[str] = frozenset()  # of methods that make objects
    # words that a path of modules begins with: `crate` of Rust
    path_heads: frozenset[str] = frozenset()
    library_names: frozenset[str] = frozenset()  # modules of the language's own library: `System`
    has_namespaces: bool = False  # a namespace goes on in other files: C++, C#

    # Names without a receiver
    members_visible: bool = False  # members of the enclosing class need none: Java
    # A name that is not defined, imported or visible is foreign (Python). Else it may be any
    # definition with that name (C).
    needs_import: bool = False
    # It belongs to the package that its file declares, wherever the file is: Java, Kotlin.
    has_packages: bool = False
    has_outer_packages: bool = False  # packages around the own one are visible: C#
    modules_visible: bool = False  # a module needs no import: Rust
    exports_imports: bool = False  # other files can import what a file imports: Python
    methods_need_calls: bool = False  # without a call it is no method: Java

    # Members of types
    # All members of a type are declared, so that a name which a known type lacks means nothing
    # else: Go, Java.
    is_static: bool = False
    has_static_paths: bool = False  # this holds for `Type::name`, but not for objects: Rust
    # Names that types of the language's own library have: a unique name proves nothing.
    builtin_members: frozenset[str] = frozenset()
    has_prototypes: bool = False  # a declaration and its definitions are one: C, C++
